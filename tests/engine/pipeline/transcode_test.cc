#include "engine/pipeline/transcode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

#include "engine/base/string_view.h"
#include "engine/image/convert.h"
#include "engine/image/memory_io.h"
#include "engine/pipeline/local_executor.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/animations.h"
#include "tests/support/fake_clock.h"
#include "tests/support/resolution_exif.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FakeBackend;
using test::FakeExecutable;
using ::testing::HasSubstr;

// Plans a pass of x2 into the given format.
TranscodePlanFn Double(std::shared_ptr<const Executable> network, EncodeOptions encode) {
  return [=](const ImageHeader& header) -> absl::StatusOr<TranscodePlan> {
    UpscaleOptions options;
    options.result_type = header.spec.type;
    const Size result{2 * header.spec.width_px, 2 * header.spec.height_px};
    auto plan = PlanUpscale(header.spec, result, {network}, options);
    if (!plan.ok()) return plan.status();
    return PlanTranscode(header, *std::move(plan), encode);
  };
}

EncodeOptions Format(ImageFormat format) {
  EncodeOptions options;
  options.format = format;
  return options;
}

class TranscodeTest : public ::testing::Test {
 protected:
  absl::StatusOr<TranscodeStats> Transcode(ByteSource& input, const TranscodePlanFn& plan) {
    const TranscodeRequest request{.input = input, .output = output_, .executor = *executor_};
    return TranscodeImage(request, plan);
  }
  absl::StatusOr<TranscodeStats> Transcode(const std::string& bytes, ImageFormat format) {
    MemorySource input(bytes);
    return Transcode(input, Double(network_, Format(format)));
  }

  std::mt19937 random_ = test::FreshRandom();
  FakeBackend backend_{2};
  std::unique_ptr<TileExecutor> executor_ = MakeLocalExecutor(backend_);
  std::shared_ptr<const FakeExecutable> network_ = std::make_shared<FakeExecutable>(2);
  StringSink output_;
  absl::Mutex mutex_;
};

TEST_F(TranscodeTest, TurnsAnEncodedImageIntoItsEncodedResult) {
  for (const SampleType type : {SampleType::kU8, SampleType::kU16}) {
    const Image image = test::RandomImage({333, 222, 3, type}, random_);
    const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
    ASSERT_TRUE(png.ok());
    output_.Take();
    const auto stats = Transcode(*png, ImageFormat::kPng);
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->result_bytes, static_cast<int64_t>(output_.bytes().size()));
    const auto result = test::Decode(output_.bytes());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(test::SameImages(result->image.view(),
                                 test::ComputePass(*network_, image, {}, type).view()));
  }
}

TEST_F(TranscodeTest, EnlargesEachFrameOfAnAnimation) {
  test::ApngFile file{.canvas = {37, 29}, .plays = 3};
  std::vector<FrameDelay> delays;
  for (int i = 0; i < 5; ++i) {
    delays.push_back({static_cast<uint32_t>(10 * i), 1000});
    file.frames.push_back({.place = {0, 0, 37, 29},
                           .pixels = test::RandomImage({37, 29, 3, SampleType::kU8}, random_),
                           .delay = delays.back()});
  }
  const std::string source = test::WriteApng(file);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    MemorySource input(source);
    output_.Take();
    std::vector<int64_t> done, totals;
    const TranscodeRequest request{.input = input,
                                   .output = output_,
                                   .executor = *executor_,
                                   .limits = {.frame = 0},
                                   .progress = {.on_tile = [&](int64_t tiles, int64_t total) {
                                     const absl::MutexLock lock(&mutex_);
                                     done.push_back(tiles);
                                     totals.push_back(total);
                                   }}};
    int64_t tiles = 0;
    const auto stats = TranscodeImage(request, [&](const ImageHeader& header) {
      EncodeOptions encode{.format = format, .quality = 100, .animation = header.animation};
      absl::StatusOr<TranscodePlan> plan = Double(network_, encode)(header);
      if (plan.ok()) tiles = 5 * plan->upscale.tile_count;
      return plan;
    });
    ASSERT_TRUE(stats.ok()) << stats.status();
    const auto result = test::DecodeFrames(output_.bytes(), random_);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->header.animation, (Animation{5, 3}));
    EXPECT_EQ(result->delays, delays);
    for (size_t i = 0; i < 5; ++i) {
      const Image expected =
          test::ComputePass(*network_, file.frames[i].pixels, {}, SampleType::kU8);
      EXPECT_TRUE(test::SameImages(result->frames[i].view(), expected.view())) << i;
    }
    EXPECT_EQ(*std::ranges::max_element(done), tiles);
    EXPECT_THAT(totals, testing::Each(tiles));
  }
}

TEST_F(TranscodeTest, ReadsAnyPortionsOfInput) {
  const Image image = test::PhotoImage({50, 60, 3, SampleType::kU8}, random_);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
    const auto bytes = test::Encode(image.view(), Format(format));
    ASSERT_TRUE(bytes.ok());
    output_.Take();
    test::SlowSource slow(*bytes, 7);
    ASSERT_TRUE(Transcode(slow, Double(network_, Format(ImageFormat::kPng))).ok());
    const std::string from_portions = output_.Take();
    ASSERT_TRUE(Transcode(*bytes, ImageFormat::kPng).ok());
    EXPECT_EQ(from_portions, output_.bytes());
  }
}

TEST_F(TranscodeTest, FitsTheResultIntoItsFormat) {
  const Image image = test::ArtImage({40, 30, 4, SampleType::kU16}, random_);
  const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
  ASSERT_TRUE(png.ok());
  ASSERT_TRUE(Transcode(*png, ImageFormat::kJpeg).ok());
  const auto result = test::Decode(output_.bytes());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->image.spec(), (ImageSpec{80, 60, 3, SampleType::kU8}));
}

TEST_F(TranscodeTest, RefusesHighDynamicRangeWhereNoProfileStatesIt) {
  const Image image = test::RandomImage({8, 6, 3, SampleType::kU8}, random_);
  for (const auto& [transfer, name] : {std::pair{'\x10', "PQ"}, std::pair{'\x12', "HLG"}}) {
    const std::string source = *test::Encode(
        image.view(), {}, {.colour_chunks = {{"cICP", std::string({'\x09', transfer, 0, 1})}}});
    for (const ImageFormat format : kImageFormats) {
      if (!CanEncode(format)) continue;
      SCOPED_TRACE(FormatName(format));
      const absl::Status status = Transcode(source, format).status();
      if (HoldsCicp(format)) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
      EXPECT_THAT(
          std::string(status.message()),
          HasSubstr(absl::StrCat("of high dynamic range (", name, "), which ",
                                 ToAbsl(FormatName(format)), " cannot state; ask for png")));
    }
  }
}

TEST_F(TranscodeTest, KeepsTheColourProfile) {
  const Image image = test::PhotoImage({20, 20, 3, SampleType::kU8}, random_);
  // WebP and JPEG carry a profile without looking into it.
  const std::string icc = "any bytes";
  const auto webp = test::Encode(image.view(), Format(ImageFormat::kWebp), {icc});
  ASSERT_TRUE(webp.ok()) << webp.status();
  const auto source = test::Decode(*webp);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->metadata.icc_profile, icc);
  ASSERT_TRUE(Transcode(*webp, ImageFormat::kJpeg).ok());
  const auto result = test::Decode(output_.bytes());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->metadata.icc_profile, icc);
}

// The sensor stays as large as it was. The picture's own resolution is kept.
TEST_F(TranscodeTest, ResolutionsOfTheSensorAreThoseOfTheResult) {
  const Image image = test::PhotoImage({40, 30, 3, SampleType::kU8}, random_);
  for (const int orientation : {1, 6}) {
    const ImageMetadata metadata = {
        .exif = test::ResolutionExif({}, orientation),
        .xmp = "<x exif:FocalPlaneXResolution='7000/3' exif:FocalPlaneYResolution='2000/1'/>"};
    const std::string source = *test::Encode(image.view(), Format(ImageFormat::kJpeg), metadata);
    // A whole picture, and a part of it.
    for (const bool whole : {true, false})
      for (const ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kPng, ImageFormat::kWebp}) {
        MemorySource input(source);
        output_.Take();
        const auto stats =
            Transcode(input, [&](const ImageHeader& header) -> absl::StatusOr<TranscodePlan> {
              const Rect part = whole ? Rect{0, 0, header.spec.width_px, header.spec.height_px}
                                      : Rect{4, 4, 20, 20};
              ImageSpec spec = header.spec;
              spec.width_px = part.width;
              spec.height_px = part.height;
              auto plan = PlanUpscale(spec, {2 * part.width, 2 * part.height}, {network_}, {});
              if (!plan.ok()) return plan.status();
              return PlanTranscode(header, part, *std::move(plan), Format(format));
            });
        ASSERT_TRUE(stats.ok()) << stats.status();
        const auto result = test::Decode(output_.bytes());
        ASSERT_TRUE(result.ok()) << result.status();
        test::ExifResolutions expected;
        expected.sensor_x[0] *= 2;
        expected.sensor_y[0] *= 2;
        const bool turned = orientation == 6;
        EXPECT_TRUE(test::ResolutionsIn(result->metadata.exif) ==
                    (turned ? test::Turned(expected) : expected));
        EXPECT_THAT(result->metadata.xmp,
                    HasSubstr(turned ? "XResolution='4000/1'" : "XResolution='14000/3'"));
        EXPECT_THAT(result->metadata.xmp,
                    HasSubstr(turned ? "YResolution='14000/3'" : "YResolution='4000/1'"));
      }
  }
}

TEST_F(TranscodeTest, DropsAProfileOfGrayFromColour) {
  const Image image = test::RandomImage({20, 20, 1, SampleType::kU8}, random_);
  std::string icc(128, '\0');  // a header
  icc.replace(16, 4, "GRAY").replace(36, 4, "acsp");
  const auto jpeg = test::Encode(image.view(), Format(ImageFormat::kJpeg), {icc});
  ASSERT_TRUE(jpeg.ok()) << jpeg.status();
  const auto profile_in = [&](ImageFormat format) {
    output_.Take();
    EXPECT_TRUE(Transcode(*jpeg, format).ok());
    const auto result = test::Decode(output_.bytes());
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->metadata.icc_profile : "no result";
  };
  EXPECT_EQ(profile_in(ImageFormat::kJpeg), icc);
  EXPECT_EQ(profile_in(ImageFormat::kWebp), "");  // WebP has no gray
}

TEST_F(TranscodeTest, AsksForThePlanBeforeItReadsPixels) {
  const Image image = test::RandomImage({300, 300, 3, SampleType::kU8}, random_);
  const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
  ASSERT_TRUE(png.ok());
  test::SlowSource input(*png, 4096);
  const auto refused = Transcode(input, [](const ImageHeader& header) {
    EXPECT_EQ(header.spec, (ImageSpec{300, 300, 3, SampleType::kU8}));
    return absl::ResourceExhaustedError("no memory left");
  });
  EXPECT_EQ(refused.status(), absl::ResourceExhaustedError("no memory left"));
  // Most of the file was left alone.
  std::vector<uint8_t> rest(png->size());
  EXPECT_EQ(*input.Read(rest), 4096u);
  EXPECT_TRUE(output_.bytes().empty());
}

TEST_F(TranscodeTest, NamesWhatIsWrongWithTheInput) {
  const Image image = test::RandomImage({100, 100, 3, SampleType::kU8}, random_);
  const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
  ASSERT_TRUE(png.ok());
  const auto expect_invalid = [&](const std::string& bytes, const char* message) {
    const auto stats = Transcode(bytes, ImageFormat::kPng);
    EXPECT_EQ(stats.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(stats.status().message()), HasSubstr(message));
  };
  expect_invalid("", "empty");
  expect_invalid("8BPS and so on", "not a PNG");
  expect_invalid(png->substr(0, 20), "ends in its header");
  expect_invalid(png->substr(0, png->size() / 2), "truncated");
}

TEST_F(TranscodeTest, ChecksTheFormatBeforeItDecodes) {
  const Image image = test::RandomImage({8200, 2, 3, SampleType::kU8}, random_);
  const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
  ASSERT_TRUE(png.ok());
  const auto stats = Transcode(*png, ImageFormat::kWebp);
  EXPECT_EQ(stats.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(stats.status().message()), HasSubstr("16383"));
}

// A sink that is full after some bytes.
class FullSink final : public ByteSink {
 public:
  explicit FullSink(size_t room) : room_(room) {}
  absl::Status Write(std::span<const uint8_t> bytes) override {
    if (bytes.size() > room_) return absl::AbortedError("the reader is too slow");
    room_ -= bytes.size();
    return absl::OkStatus();
  }

 private:
  size_t room_;
};

TEST_F(TranscodeTest, EndsWithTheSinksError) {
  const Image image = test::RandomImage({200, 200, 3, SampleType::kU8}, random_);
  const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
  ASSERT_TRUE(png.ok());
  for (const size_t room : {size_t{0}, size_t{50000}}) {
    MemorySource input(*png);
    FullSink output(room);
    const TranscodeRequest request{.input = input, .output = output, .executor = *executor_};
    EXPECT_EQ(TranscodeImage(request, Double(network_, Format(ImageFormat::kPng))).status(),
              absl::AbortedError("the reader is too slow"));
  }
}

TEST_F(TranscodeTest, EndsWithTheReasonOfACancellation) {
  const Image image = test::RandomImage({200, 2000, 3, SampleType::kU8}, random_);
  const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
  ASSERT_TRUE(png.ok());
  MemorySource input(*png);
  Cancellation cancellation;
  TranscodeRequest request{.input = input, .output = output_, .executor = *executor_};
  request.cancellation = &cancellation;
  request.progress.on_tile = [&](int64_t done, int64_t) {
    if (done == 3) cancellation.Cancel(absl::DeadlineExceededError("late"));
  };
  EXPECT_EQ(TranscodeImage(request, Double(network_, Format(ImageFormat::kPng))).status(),
            absl::DeadlineExceededError("late"));
}

// Every read and every write takes a second of a clock that stands still otherwise.
class SlowEnds final : public ByteSource, public ByteSink {
 public:
  SlowEnds(const std::string& bytes, FakeClock& clock) : source_(bytes, 1000), clock_(clock) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ++reads;
    clock_.Advance(absl::Seconds(1));
    return source_.Read(dst);
  }
  absl::Status Write(std::span<const uint8_t>) override {
    ++writes;
    clock_.Advance(absl::Seconds(1));
    return absl::OkStatus();
  }
  int reads = 0, writes = 0;

 private:
  test::SlowSource source_;
  FakeClock& clock_;
};

TEST_F(TranscodeTest, TellsWaitingFromWork) {
  const Image image = test::RandomImage({100, 400, 3, SampleType::kU8}, random_);
  const auto png = test::Encode(image.view(), Format(ImageFormat::kPng));
  ASSERT_TRUE(png.ok());
  FakeClock clock;
  SlowEnds ends(*png, clock);
  const TranscodeRequest request{
      .input = ends, .output = ends, .executor = *executor_, .clock = clock};
  const auto stats = TranscodeImage(request, Double(network_, Format(ImageFormat::kPng)));
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_GT(ends.reads, 100);
  EXPECT_EQ(stats->read, absl::Seconds(ends.reads));
  EXPECT_EQ(stats->write, absl::Seconds(ends.writes));
  EXPECT_EQ(stats->decode, absl::ZeroDuration());
  EXPECT_EQ(stats->infer, absl::ZeroDuration());
  EXPECT_EQ(stats->encode, absl::ZeroDuration());
}

TEST_F(TranscodeTest, KnowsItsMemoryBeforehand) {
  ImageHeader header;
  header.spec = {1000, 1000, 4, SampleType::kU8};
  header.decoder_bytes = 12345;
  const auto plan = Double(network_, Format(ImageFormat::kPng))(header);
  ASSERT_TRUE(plan.ok());
  EXPECT_GT(plan->memory_bytes, plan->upscale.memory_bytes + header.decoder_bytes);
  // The encoder holds the profile, and so does the file that WebP puts together.
  ImageHeader with_profile = header;
  with_profile.metadata_bytes = 1000000;
  with_profile.prefix_bytes = 2000000;
  const auto profile_plan = Double(network_, Format(ImageFormat::kPng))(with_profile);
  ASSERT_TRUE(profile_plan.ok());
  EXPECT_GE(profile_plan->memory_bytes, plan->memory_bytes + 2 * 1000000 + 2000000);
  // WebP takes the image whole.
  const auto webp = Double(network_, Format(ImageFormat::kWebp))(header);
  ASSERT_TRUE(webp.ok());
  EXPECT_GT(webp->memory_bytes, plan->memory_bytes + size_t{2000} * 2000 * 4 / 2);
}

}  // namespace
}  // namespace upscaled
