#include "server/sandbox/decode_sandbox.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/base/cpu_info.h"
#include "engine/base/sanitized.h"
#include "engine/image/memory_io.h"
#include "server/base/error.h"
#include "server/sandbox/decode_protocol.h"
#include "server/sandbox/sandboxed_decoder.h"
#include "server/sandbox/worker_zygote.h"
#include "tests/support/animations.h"
#include "tests/support/bombs.h"
#include "tests/support/colour_profiles.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<DecodeSandbox> StartSandbox() {
  auto sandbox = DecodeSandbox::Start(UPSCALED_DECODE_WORKER);
  EXPECT_TRUE(sandbox.ok()) << sandbox.status();
  return *std::move(sandbox);
}

// Opens `bytes` after reading their header, as a request does.
absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(DecodeSandbox& sandbox, ByteSource& source,
                                                   std::string_view bytes,
                                                   const DecodeLimits& limits,
                                                   Cancellation* cancellation = nullptr) {
  MemorySource beginning(bytes);
  std::vector<uint8_t> prefix;
  absl::StatusOr<ImageHeader> header = ReadImageHeader(beginning, limits, prefix);
  if (!header.ok()) return header.status();
  return sandbox.Open(*header, source, limits, cancellation);
}

absl::StatusOr<test::Decoded> DecodeInside(DecodeSandbox& sandbox, std::string_view bytes,
                                           std::mt19937& random, const DecodeLimits& limits = {}) {
  MemorySource source(bytes);
  auto decoder = Open(sandbox, source, bytes, limits);
  if (!decoder.ok()) return decoder.status();
  absl::StatusOr<Image> image = test::ReadAllInPortions(**decoder, random);
  if (!image.ok()) return image.status();
  return test::Decoded{(*decoder)->header(), (*decoder)->metadata(), *std::move(image),
                       (*decoder)->late_metadata(), (*decoder)->warnings()};
}

class DecodeSandboxTest : public ::testing::Test {
 protected:
  // Files of all kinds, some with profiles.
  std::vector<std::string> Files() {
    std::vector<std::string> files;
    const int width = test::RandomInt(random_, 1, 700), height = test::RandomInt(random_, 1, 300);
    for (const int color_type : {0, 2, 3, 4, 6}) {
      test::PngFile png = test::RandomPng(width, height, 8, color_type, random_);
      png.interlaced = color_type == 2;
      files.push_back(test::WritePng(png));
    }
    files.push_back(test::WritePng(test::RandomPng(width, height, 16, 6, random_)));
    const Image rgb = test::PhotoImage({width, height, 3, SampleType::kU8}, random_);
    const Image inks = test::RandomImage({width, height, 4, SampleType::kU8}, random_);
    for (const std::string& profile : {std::string(), test::CmykProfile()}) {
      files.push_back(
          test::WriteJpeg({.color = test::JpegColor::kCmyk, .icc_profile = profile}, inks.view()));
    }
    for (const bool progressive : {false, true}) {
      files.push_back(test::WriteJpeg({.progressive = progressive,
                                       .exif = test::ExifSegment(6, true),
                                       .icc_profile = test::TestProfile(false, 3000)},
                                      rgb.view()));
    }
    for (const int quality : {80, 100}) {
      files.push_back(
          *test::Encode(rgb.view(), {.format = ImageFormat::kWebp, .quality = quality}));
    }
    if (CanDecode(ImageFormat::kTiff)) {
      files.push_back(
          *test::Encode(test::PhotoImage({width, height, 4, SampleType::kU16}, random_).view(),
                        {.format = ImageFormat::kTiff}, Metadata()));
    }
    for (const ImageFormat format : {ImageFormat::kAvif, ImageFormat::kJxl})
      for (const int channels : {1, 4})
        if (CanEncode(format))
          files.push_back(*test::Encode(
              test::PhotoImage({width, height, channels, SampleType::kU16}, random_).view(),
              {.format = format}));
    const std::string kMore(40, 'x');  // bytes behind the end are nobody's
    if (CanDecode(ImageFormat::kGif)) files.push_back(std::string(kGif, sizeof(kGif) - 1) + kMore);
    files.push_back(std::string(kBmp, sizeof(kBmp) - 1) + kMore);
    for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
      files.push_back(*test::Encode(rgb.view(), {.format = format}, Metadata()));
      files.push_back(files.back().substr(0, files.back().size() - 1));  // with a warning
    }
    std::string late = test::WritePng(test::RandomPng(width, height, 8, 2, random_));
    files.push_back(
        late.insert(late.size() - 12, test::PngChunk("tEXt", std::string("Title\0late", 10))));
    return files;
  }

  // Two pixels, each of another colour.
  static constexpr char kGif[] =
      "GIF89a\2\0\1\0\x80\0\0\x12\x34\x56\xff\xee\xdd,\0\0\0\0\2\0\1\0\0\2\2\x44\x0a\0;";
  static constexpr char kBmp[] =
      "BM\x22\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0\2\0\1\0\1\0\x18\0\1\2\3\4\5\6\0\0";

  // Blocks of every kind.
  static ImageMetadata Metadata() {
    return {.icc_profile = test::TestProfile(false, 3000),
            .exif = test::ExifSegment(6, false).substr(6),
            .xmp = "<x/>",
            .iptc = std::string("\x1c\2\x78\0\1c", 6),
            .density = PixelDensity{PixelDensity::Unit::kInch, 300, 200},
            .texts = {{.keyword = "Comment", .text = "text"}},
            .colour_chunks = {{"gAMA", std::string("\0\1\x86\xa0", 4)}}};
  }

  std::mt19937 random_ = test::FreshRandom();
  const std::unique_ptr<DecodeSandbox> sandbox_ = StartSandbox();
};

TEST_F(DecodeSandboxTest, GivesWhatTheDecodersGive) {
  for (const std::string& file : Files()) {
    const absl::StatusOr<test::Decoded> expected = test::Decode(file);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const absl::StatusOr<test::Decoded> actual = DecodeInside(*sandbox_, file, random_);
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_TRUE(test::SameImages(actual->image.view(), expected->image.view()));
    EXPECT_EQ(actual->metadata, expected->metadata);
    EXPECT_EQ(actual->late_metadata, expected->late_metadata);
    EXPECT_EQ(actual->warnings, expected->warnings);
  }
  EXPECT_EQ(sandbox_->crashes(), 0);
}

// Seeds of every kind of decoder, also of HEIC. HEIC is read in the cage only. A library with a
// first look at a file or the machine there would end it.
TEST_F(DecodeSandboxTest, GivesTheSameForEverySeed) {
  const DecodeLimits limits{.is_caged = true};
  int images = 0;
  for (const auto& entry : std::filesystem::directory_iterator(UPSCALED_CODEC_SEEDS)) {
    SCOPED_TRACE(entry.path().filename());
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string file(std::istreambuf_iterator<char>(stream), {});
    const absl::StatusOr<test::Decoded> expected = test::Decode(file, limits);
    const absl::StatusOr<test::Decoded> actual = DecodeInside(*sandbox_, file, random_, limits);
    ASSERT_EQ(actual.status(), expected.status());
    if (!expected.ok()) continue;
    ++images;
    EXPECT_TRUE(test::SameImages(actual->image.view(), expected->image.view()));
    EXPECT_EQ(actual->warnings, expected->warnings);
  }
  EXPECT_GT(images, 20);
  EXPECT_EQ(sandbox_->crashes(), 0);
}

TEST_F(DecodeSandboxTest, GivesEveryFrameOfAnAnimation) {
  test::ApngFile file{.canvas = {90, 31}, .plays = 7};
  for (int i = 0; i < 6; ++i)
    file.frames.push_back(
        {.place = {i, i, 90 - i, 31 - i},
         .pixels = test::RandomImage({90 - i, 31 - i, 4, SampleType::kU8}, random_),
         .delay = {static_cast<uint32_t>(i), 30},
         .disposal = i % 3,
         .blends = i % 2 == 1});
  const std::string bytes =
      test::WriteApng(file, test::PngChunk("tEXt", std::string("Title\0late", 10)));
  const DecodeLimits limits{.frame = 0};
  const auto expected = test::DecodeFrames(bytes, random_);
  ASSERT_TRUE(expected.ok()) << expected.status();
  MemorySource source(bytes);
  const auto decoder = Open(*sandbox_, source, bytes, limits);
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  for (size_t i = 0; i < expected->frames.size(); ++i) {
    const absl::StatusOr<FrameDelay> delay = (*decoder)->NextFrame();
    ASSERT_TRUE(delay.ok()) << delay.status();
    EXPECT_EQ(*delay, expected->delays[i]);
    const absl::StatusOr<Image> frame = test::ReadAllInPortions(**decoder, random_);
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_TRUE(test::SameImages(frame->view(), expected->frames[i].view())) << i;
  }
  EXPECT_EQ((*decoder)->late_metadata(), expected->late_metadata);
  EXPECT_EQ((*decoder)->NextFrame().status().code(), absl::StatusCode::kFailedPrecondition);
  for (const int frame : {1, 4}) {
    const auto one = DecodeInside(*sandbox_, bytes, random_, {.frame = frame});
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_TRUE(test::SameImages(one->image.view(), expected->frames[frame - 1].view()));
  }
}

TEST_F(DecodeSandboxTest, FillsDamageAsTheDecodersDo) {
  for (const std::string& file : Files()) {
    const std::string cut = file.substr(0, file.size() * 3 / 4);
    const DecodeLimits limits{.fill_damage = true};
    const absl::StatusOr<test::Decoded> expected = test::Decode(cut, limits);
    const absl::StatusOr<test::Decoded> actual = DecodeInside(*sandbox_, cut, random_, limits);
    ASSERT_EQ(actual.status(), expected.status());
    if (!expected.ok()) continue;  // cut in the header
    EXPECT_TRUE(test::SameImages(actual->image.view(), expected->image.view()));
    EXPECT_EQ(actual->warnings, expected->warnings);
  }
}

TEST_F(DecodeSandboxTest, GivesTheirErrors) {
  for (std::string file : Files()) {
    for (int i = 0; i < 8; ++i) {
      std::string broken = file.substr(0, test::RandomInt(random_, 40, std::ssize(file)));
      broken[test::RandomInt(random_, 40, std::ssize(file)) % broken.size()] ^= 1 << (i % 8);
      const absl::StatusOr<test::Decoded> expected = test::Decode(broken);
      const absl::StatusOr<test::Decoded> actual = DecodeInside(*sandbox_, broken, random_);
      EXPECT_EQ(actual.status(), expected.status());
    }
  }
  EXPECT_EQ(sandbox_->crashes(), 0);
}

TEST_F(DecodeSandboxTest, ExplainsLimitsAsTheCallerDoes) {
  const DecodeLimits limits{.explain = [](DecodeLimit limit, int64_t value, std::string sentence) {
    return absl::FailedPreconditionError(
        absl::StrCat(static_cast<int>(limit), ", ", value, ", ", sentence));
  }};
  const std::string file = test::ManyScansJpeg(200, random_);
  MemorySource source(file);
  auto decoder = OpenImageDecoder(source, limits);
  const absl::Status expected = decoder.ok() ? test::ReadAll(**decoder).status() : decoder.status();
  ASSERT_TRUE(absl::IsFailedPrecondition(expected)) << expected;
  EXPECT_EQ(DecodeInside(*sandbox_, file, random_, limits).status(), expected);
}

class FailingSource final : public ByteSource {
 public:
  explicit FailingSource(absl::Status status) : status_(std::move(status)) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t>) override { return status_; }

 private:
  const absl::Status status_;
};

TEST_F(DecodeSandboxTest, PassesTheErrorsOfTheInput) {
  const absl::Status lost = absl::UnavailableError("the client is gone");
  FailingSource source(lost);
  EXPECT_EQ(Open(*sandbox_, source, Files()[0], {}).status(), lost);
  EXPECT_EQ(sandbox_->crashes(), 0);
}

// Cancels the request where its decoder waits for input.
class CancellingSource final : public ByteSource {
 public:
  explicit CancellingSource(Cancellation& cancellation) : cancellation_(cancellation) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    cancellation_.Cancel(absl::CancelledError("enough"));
    dst[0] = 0;
    return 1;
  }

 private:
  Cancellation& cancellation_;
};

TEST_F(DecodeSandboxTest, StopsWhenCancelled) {
  Cancellation cancellation;
  CancellingSource source(cancellation);
  EXPECT_EQ(Open(*sandbox_, source, Files()[0], {}, &cancellation).status(),
            absl::CancelledError("enough"));
  EXPECT_EQ(sandbox_->crashes(), 0);
}

TEST_F(DecodeSandboxTest, TellsTheTimeOfImagesThatFail) {
  std::string file = test::ManyScansJpeg(60, random_);
  file.resize(file.size() / 2);
  MemorySource source(file), beginning(file);
  std::vector<uint8_t> prefix;
  const auto header = ReadImageHeader(beginning, {}, prefix);
  ASSERT_TRUE(header.ok()) << header.status();
  absl::Duration cpu_time;
  {
    auto decoder =
        sandbox_->Open(*header, source, {}, nullptr, {.client = "a", .cpu_time = &cpu_time});
    EXPECT_FALSE(decoder.ok() && test::ReadAll(**decoder).ok());
  }
  EXPECT_GT(cpu_time, absl::Milliseconds(1));
}

// A long decoder gives way to other clients' ones, even within one question.
TEST_F(DecodeSandboxTest, LongDecodersGiveWay) {
  const std::string slow = test::ManyScansJpeg(95, random_);
  std::vector<std::thread> greedy;
  std::atomic<int> ended = 0;
  for (int i = 0; i < 4 * AvailableCpuCount(); ++i) {
    greedy.emplace_back([&] {
      std::mt19937 random;
      MemorySource source(slow), beginning(slow);
      std::vector<uint8_t> prefix;
      const auto header = ReadImageHeader(beginning, {}, prefix);
      auto decoder = sandbox_->Open(*header, source, {}, nullptr, {.client = "greedy"});
      EXPECT_TRUE(decoder.ok() && test::ReadAll(**decoder).ok());
      ++ended;
    });
  }
  const std::string small = *test::Encode(Image({9, 9, 3, SampleType::kU8}).view(), {});
  int served = 0;
  while (ended == 0) {
    MemorySource source(small), beginning(small);
    std::vector<uint8_t> prefix;
    const auto header = ReadImageHeader(beginning, {}, prefix);
    auto decoder = sandbox_->Open(*header, source, {}, nullptr, {.client = "modest"});
    EXPECT_TRUE(decoder.ok() && test::ReadAll(**decoder).ok());
    ++served;
  }
  for (std::thread& thread : greedy) thread.join();
  EXPECT_GE(served, 3) << "images of another client while the greedy one's first was decoded";
}

TEST(DecodeSandboxStartTest, SaysWhyThereIsNone) {
  const auto none = DecodeSandbox::Start("/nowhere/upscaled-decode");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("/nowhere/upscaled-decode"));
}

// Processes of this one before their end.
int CountChildren() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream status(entry.path() / "stat");
    std::string line;
    // The name, in brackets, may hold spaces; state and parent follow it.
    if (!std::getline(status, line)) continue;
    std::istringstream fields(line.substr(line.rfind(')') + 1));
    char state = 0;
    pid_t parent = 0;
    fields >> state >> parent;
    if (parent == getpid()) ++count;
  }
  return count;
}

TEST(DecodeSandboxStartTest, EightCpusShareAZygote) {
  const int before = CountChildren();
  const auto sandbox = DecodeSandbox::Start(UPSCALED_DECODE_WORKER, /*cpus=*/17);
  ASSERT_TRUE(sandbox.ok()) << sandbox.status();
  const std::string png = *test::Encode(Image({9, 9, 3, SampleType::kU8}).view(), {});
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(DecodeInside(**sandbox, png, random).status(), absl::OkStatus());
    EXPECT_EQ(CountChildren() - before, std::min(i + 2, 3)) << "the first image was a probe";
  }
}

// A server of another build opens an image: with other limits and sizes, in frames of another
// length, or in the same ones.
TEST(DecodeVersionTest, AWorkerNamesTheVersionsOfAnotherBuild) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's runtime does not live in the cage";
  struct Build {
    uint64_t version;
    size_t payload_bytes;
  };
  const Build builds[] = {{kDecodeProtocolVersion, sizeof(OpenPayload) - 8},
                          {kDecodeProtocolVersion, sizeof(OpenPayload) + 8},
                          {kDecodeProtocolVersion + 1, sizeof(OpenPayload)},
                          {kDecodeProtocolVersion + 1, sizeof(OpenPayload) + 1024},
                          {kDecodeProtocolVersion - 1, sizeof(uint64_t)}};
  auto zygote = WorkerZygote::Start(UPSCALED_DECODE_WORKER);
  ASSERT_TRUE(zygote.ok()) << zygote.status();
  for (const Build& build : builds) {
    SCOPED_TRACE(::testing::Message() << build.version << ", " << build.payload_bytes);
    auto worker = zygote->Fork();
    ASSERT_TRUE(worker.ok()) << worker.status();
    const FrameSocket socket(worker->socket());
    std::vector<uint8_t> payload(build.payload_bytes);
    std::memcpy(payload.data(), &build.version, sizeof(build.version));
    ASSERT_TRUE(socket.Send(FrameType::kOpen, payload).ok());
    shutdown(worker->socket(), SHUT_WR);  // a worker that waits for more gets the end instead
    const auto answer = socket.ReceiveHeader();
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->type, FrameType::kFailed);
    std::string failure(answer->payload_bytes, '\0');
    ASSERT_TRUE(socket.Receive({reinterpret_cast<uint8_t*>(failure.data()), failure.size()}).ok());
    EXPECT_THAT(failure.substr(sizeof(FailedPayload)),
                AllOf(HasSubstr(absl::StrCat("version ", kDecodeProtocolVersion, " (",
                                             sizeof(OpenPayload), " bytes)")),
                      HasSubstr(absl::StrCat("version ", build.version, " (", build.payload_bytes,
                                             " bytes): install both from one build"))));
  }
}

// A worker's misbehaviour, and the outcome for its image.
struct Misbehaviour {
  const char* how;
  absl::StatusCode code;
  const char* message;
  absl::Duration max_time = SandboxedDecoder::kMaxTime;
  bool crashes = code == absl::StatusCode::kInvalidArgument;
};

class HostileWorkerTest : public ::testing::TestWithParam<Misbehaviour> {};

TEST_P(HostileWorkerTest, FailsItsImageAlone) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's runtime does not live in the cage";
  auto worker = WorkerProcess::Start(UPSCALED_HOSTILE_WORKER, {GetParam().how});
  ASSERT_TRUE(worker.ok()) << worker.status();
  const std::string file = *test::Encode(Image({9, 9, 3, SampleType::kU8}).view(), {});
  MemorySource source(file), beginning(file);
  std::vector<uint8_t> prefix;
  const DecodeLimits limits;
  const auto header = ReadImageHeader(beginning, limits, prefix);
  ASSERT_TRUE(header.ok());
  std::atomic<int64_t> crashes = 0;
  DecodeTurns turns(1, Clock::Real());
  SandboxedDecoder decoder(*std::move(worker), *header, source, limits, nullptr, turns, {}, crashes,
                           GetParam().max_time);
  absl::Status status = decoder.Open();
  if (status.ok()) status = test::ReadAll(decoder).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  EXPECT_EQ(crashes, GetParam().crashes);
}

constexpr auto kCrash = absl::StatusCode::kInvalidArgument;
INSTANTIATE_TEST_SUITE_P(
    Misbehaviours, HostileWorkerTest,
    ::testing::Values(Misbehaviour{"behave", absl::StatusCode::kOk, ""},
                      Misbehaviour{"crash", kCrash, "signal"},
                      Misbehaviour{"end", kCrash, "exit code 3"},
                      Misbehaviour{"read a file", kCrash, "signal 31 (SYS)"},
                      Misbehaviour{"open a socket", kCrash, "signal 31 (SYS)"},
                      Misbehaviour{"start a process", kCrash, "signal 31 (SYS)"},
                      Misbehaviour{"make code", kCrash, "signal 31 (SYS)"},
                      Misbehaviour{"take memory", kCrash, "exit code 4"},
                      Misbehaviour{"close its socket", kCrash, "signal 31 (SYS)"},
                      Misbehaviour{"compute for ever", kCrash, "longer than 50ms",
                                   absl::Milliseconds(50), false},
                      Misbehaviour{"send odd notes", absl::StatusCode::kInternal, "must not"},
                      Misbehaviour{"send too much", absl::StatusCode::kInternal, "must not"},
                      Misbehaviour{"ask for ever", absl::StatusCode::kInternal, "must not"},
                      Misbehaviour{"send nonsense", absl::StatusCode::kInternal, "must not"}),
    [](const auto& info) {
      std::string name = info.param.how;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

}  // namespace
}  // namespace upscaled::server
