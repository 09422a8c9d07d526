// Animations through whole servers, over gRPC and HTTP: every format in and out, one frame of many,
// limits, cancellation, names of results, and frames at no cost.
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/animations.h"
#include "tests/support/await.h"
#include "tests/support/moving_frames.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int kFrames = 4;
constexpr Size kCanvas{90, 70};

std::string Le16(int value) {
  return {static_cast<char>(value & 0xFF), static_cast<char>(value >> 8)};
}

// A GIF of 64 grays: as LZW codes of 7 bits without reuse, since a clear code comes before they
// would grow.
std::string WriteGif(const std::vector<Image>& frames, int delay_cs, int loops) {
  constexpr int kBits = 6, kClear = 1 << kBits, kEnd = kClear + 1, kCodesAtMost = kClear - 4;
  std::string gif =
      "GIF89a" + Le16(kCanvas.width) + Le16(kCanvas.height) + "\xF5" + std::string(2, '\0');
  for (int i = 0; i < 64; ++i) gif += std::string(3, static_cast<char>(4 * i));
  gif += std::string("!\xFF\x0BNETSCAPE2.0\x03\x01", 16) + Le16(loops) + '\0';
  for (const Image& frame : frames) {
    gif += std::string("!\xF9\x04\x04", 4) + Le16(delay_cs) + std::string(2, '\0');
    gif += "," + Le16(0) + Le16(0) + Le16(kCanvas.width) + Le16(kCanvas.height) + '\0' +
           static_cast<char>(kBits);
    std::string data;
    unsigned bits = 0, held = 0;
    const auto add = [&](unsigned code) {
      held |= code << bits;
      for (bits += kBits + 1; bits >= 8; bits -= 8, held >>= 8)
        data.push_back(static_cast<char>(held & 0xFF));
    };
    int codes = 0;
    for (int y = 0; y < kCanvas.height; ++y) {
      for (int x = 0; x < kCanvas.width; ++x, ++codes) {
        if (codes % kCodesAtMost == 0) add(kClear);
        add(frame.view().row(y)[x] >> 2);
      }
    }
    add(kEnd);
    data.push_back(static_cast<char>(held & 0xFF));
    for (size_t at = 0; at < data.size(); at += 255) {
      const std::string block = data.substr(at, 255);
      gif += static_cast<char>(block.size()) + block;
    }
    gif += '\0';
  }
  return gif + ";";
}

std::string WritePng(const std::vector<Image>& frames) {
  test::ApngFile file{.canvas = frames[0].spec().size(), .plays = 3};
  for (const Image& frame : frames)
    file.frames.push_back({.place = {0, 0, frame.spec().width_px, frame.spec().height_px},
                           .pixels = test::CopyOf(frame.view()),
                           .delay = {7, 100}});
  return test::WriteApng(file);
}

class AnimationsTest : public ::testing::Test {
 protected:
  std::vector<Image> Moving(int channels = 3, int count = kFrames) {
    return test::MovingFrames({kCanvas.width, kCanvas.height, channels, SampleType::kU8}, count,
                              random_);
  }
  test::DecodedFrames FramesOf(const std::string& bytes) {
    absl::StatusOr<test::DecodedFrames> frames = test::DecodeFrames(bytes, random_);
    EXPECT_TRUE(frames.ok()) << frames.status();
    return frames.ok() ? *std::move(frames) : test::DecodedFrames();
  }
  static pb::UpscaleOptions Options(int frame, pb::ImageFormat format = pb::IMAGE_FORMAT_PNG) {
    pb::UpscaleOptions options;
    options.set_frame(frame);
    options.set_format(format);
    options.set_quality(100);
    return options;
  }
  std::mt19937 random_ = test::FreshRandom();
};

// Each frame of a result is the result of its frame.
TEST_F(AnimationsTest, EveryFormatComesInAndGoesOut) {
  TestServer server;
  const std::string apng = WritePng(Moving(4));
  const Outcome webp = UpscaleImage(server.stub(), Options(0, pb::IMAGE_FORMAT_WEBP), apng);
  ASSERT_TRUE(webp.status.ok()) << webp.status.error_message();
  std::vector<std::pair<std::string, std::string>> sources = {{"png", apng}, {"webp", webp.image}};
  if (CanDecode(ImageFormat::kGif)) sources.push_back({"gif", WriteGif(Moving(1), 7, 2)});
  for (const auto& [name, source] : sources) {
    const test::DecodedFrames before = FramesOf(source);
    ASSERT_EQ(before.frames.size(), size_t{kFrames}) << name;
    for (const pb::ImageFormat format : {pb::IMAGE_FORMAT_PNG, pb::IMAGE_FORMAT_WEBP}) {
      SCOPED_TRACE(absl::StrCat(name, " to ", pb::ImageFormat_Name(format)));
      const Outcome outcome = UpscaleImage(server.stub(), Options(0, format), source);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
      EXPECT_EQ(outcome.header->frames(), kFrames);
      const test::DecodedFrames after = FramesOf(outcome.image);
      EXPECT_EQ(after.header.animation, before.header.animation);
      ASSERT_EQ(after.frames.size(), before.frames.size());
      for (size_t i = 0; i < after.delays.size(); ++i)
        EXPECT_EQ(int64_t{1} * after.delays[i].numerator * before.delays[i].denominator,
                  int64_t{1} * before.delays[i].numerator * after.delays[i].denominator);
      for (int i = 0; i < kFrames; ++i) {
        const Outcome alone = UpscaleImage(server.stub(), Options(i + 1, format), source);
        ASSERT_TRUE(alone.status.ok()) << alone.status.error_message();
        EXPECT_EQ(alone.header->frames(), 1);
        const test::DecodedFrames still = FramesOf(alone.image);
        EXPECT_FALSE(still.header.animation.has_value());
        EXPECT_TRUE(test::SameImages(after.frames[i].view(), still.frames[0].view())) << i;
      }
      const HttpAnswer answer =
          Request(server.server().http_port(), "POST",
                  absl::StrCat("/v1/upscale?frame=all&quality=100&format=",
                               format == pb::IMAGE_FORMAT_PNG ? "png" : "webp"),
                  source);
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_TRUE(answer.body == outcome.image);
    }
  }
}

TEST_F(AnimationsTest, OneFrameIsAStillImage) {
  TestServer server;
  const int port = server.server().http_port();
  const std::string source = WritePng(Moving());
  const auto get = [&](const std::string& query) {
    return Request(port, "POST", absl::StrCat("/v1/upscale?", query), source);
  };
  const std::string first = UpscaleImage(server.stub(), Options(1), source).image;
  EXPECT_TRUE(get("frame=first").body == first);
  EXPECT_TRUE(get("frame=1").body == first);
  EXPECT_TRUE(get("frame=3").body == UpscaleImage(server.stub(), Options(3), source).image);
  EXPECT_EQ(json::parse(get("frame=2").fields.at("Upscale-Header"))["frames"], 1);
  EXPECT_EQ(json::parse(get("").fields.at("Upscale-Header"))["frames"], kFrames);
  const HttpAnswer beyond = get("frame=5");
  EXPECT_EQ(beyond.status, 422) << beyond.body;
  EXPECT_THAT(beyond.body, HasSubstr("frame 5 is asked for; the image has 4"));
  EXPECT_TRUE(IsError(UpscaleImage(server.stub(), Options(5), source).status,
                      grpc::StatusCode::INVALID_ARGUMENT, "INVALID_IMAGE", "the image has 4"));
  // A format without frames shows the first one, and says so.
  const HttpAnswer jpeg = get("format=jpeg");
  EXPECT_EQ(json::parse(jpeg.fields.at("Upscale-Header"))["frames"], 1);
  EXPECT_THAT(jpeg.fields.at("Upscale-Warning"), HasSubstr("frame"));
}

// Equal bytes are stored once for each answer with them.
TEST_F(AnimationsTest, AWarningIsNotAnotherRequests) {
  const std::string source = WritePng(Moving());
  const std::string queries[] = {"format=jpeg", "format=jpeg&frame=1"};
  for (const int first : {0, 1}) {
    ServerConfig config = TestConfig();
    const std::filesystem::path store =
        std::filesystem::path(::testing::TempDir()) / absl::StrCat("warned.", getpid(), ".", first);
    config.result_cache = store;
    TestServer server(config);
    for (const int query : {first, 1 - first, first, 1 - first}) {
      const HttpAnswer answer = Request(server.server().http_port(), "POST",
                                        absl::StrCat("/v1/upscale?", queries[query]), source);
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(answer.fields.contains("Upscale-Warning"), query == 0) << first;
    }
    std::filesystem::remove_all(store);
  }
}

TEST_F(AnimationsTest, FramesThatDoNotChangeCostNothing) {
  TestServer server;
  const Image still =
      test::PhotoImage({kCanvas.width, kCanvas.height, 3, SampleType::kU8}, random_);
  const auto frames_of = [&](int count) {
    std::vector<Image> frames;
    for (int i = 0; i < count; ++i) frames.push_back(test::CopyOf(still.view()));
    return frames;
  };
  pb::UpscaleImageStart start = StartMessage(Options(0), /*report_progress=*/true).start();
  const Outcome outcome = UpscaleImage(server.stub(), start, WritePng(frames_of(20)));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.summary->unchanged_frames(), 19);
  EXPECT_EQ(outcome.summary->unchanged_pixels(), 19 * kCanvas.Area());
  const Outcome alone = UpscaleImage(server.stub(), Options(1), WritePng(frames_of(2)));
  EXPECT_EQ(outcome.summary->tiles(), alone.summary->tiles());
  EXPECT_EQ(outcome.header->tiles(), 20 * alone.header->tiles());
  ASSERT_FALSE(outcome.progress.empty());
  EXPECT_EQ(outcome.progress.back().tiles_done(), outcome.header->tiles());
  for (const Image& frame : FramesOf(outcome.image).frames)
    EXPECT_TRUE(test::SameImages(frame.view(), FramesOf(alone.image).frames[0].view()));
  server.AwaitIdle();
  EXPECT_THAT(server.log(), HasSubstr(absl::StrCat("unchanged_pixels=", 19 * kCanvas.Area())));
}

TEST_F(AnimationsTest, LimitsCountAllFrames) {
  ServerConfig config = TestConfig();
  config.limits.max_frames = kFrames - 1;
  const std::string source = WritePng(Moving());
  {
    TestServer server(config);
    EXPECT_TRUE(IsError(UpscaleImage(server.stub(), Options(0), source).status,
                        grpc::StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "4 frames"));
    EXPECT_TRUE(UpscaleImage(server.stub(), Options(1), source).status.ok());
    EXPECT_EQ(Request(server.server().http_port(), "POST", "/v1/upscale", source).status, 413);
  }
  config = TestConfig();
  config.limits.max_source_pixels = kFrames * kCanvas.Area() - 1;
  TestServer server(config);
  EXPECT_TRUE(IsError(UpscaleImage(server.stub(), Options(0), source).status,
                      grpc::StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "pixels"));
  EXPECT_TRUE(UpscaleImage(server.stub(), Options(1), source).status.ok());
}

TEST_F(AnimationsTest, ACancelledCallStopsBetweenFrames) {
  TestServer server;
  std::vector<Image> frames;
  for (int i = 0; i < 30; ++i)
    frames.push_back(
        test::RandomImage({kCanvas.width, kCanvas.height, 3, SampleType::kU8}, random_));
  const std::string source = WritePng(frames);
  server.gate().Close();
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleImage(&context);
  ASSERT_TRUE(stream->Write(StartMessage(Options(0))));
  ASSERT_TRUE(stream->Write(ChunkMessage(source)));
  stream->WritesDone();
  server.gate().AwaitWaiting(1);
  server.gate().Allow(1);  // the first frame goes on
  context.TryCancel();
  Outcome outcome;
  ReadToEnd(context, *stream, outcome);
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::CANCELLED);
  server.gate().Open();
  server.AwaitIdle();
  EXPECT_LT(server.gate().tiles_passed(), kWarmUpTiles + 30);
}

TEST_F(AnimationsTest, EachFrameHasANameOfItsOwn) {
  TestServer server;
  const int port = server.server().http_port();
  const std::string source = WritePng(Moving());
  std::vector<std::string> names;
  for (const char* const frame : {"all", "first", "2", "3"}) {
    const HttpAnswer answer =
        Request(port, "POST", absl::StrCat("/v1/upscale?frame=", frame), source);
    const HttpFields& last = answer.fields.contains("ETag") ? answer.fields : answer.trailers;
    ASSERT_TRUE(last.contains("ETag")) << frame;
    EXPECT_THAT(names, testing::Not(testing::Contains(last.at("ETag")))) << frame;
    names.push_back(last.at("ETag"));
    EXPECT_EQ(Request(port, "POST", absl::StrCat("/v1/upscale?frame=", frame), source,
                      {{"If-None-Match", names.back()}})
                  .status,
              304)
        << frame;
  }
}

}  // namespace
}  // namespace upscaled::server
