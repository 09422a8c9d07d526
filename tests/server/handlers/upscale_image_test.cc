#include "server/handlers/upscale_image.h"

#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/handlers/result_sharing.h"
#include "tests/server/handlers/call_streams.h"
#include "tests/server/handlers/engine_environment.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;
using ImageMessage = pb::UpscaleImageRequest;
using ImageResponse = pb::UpscaleImageResponse;
using test::PngOf;
using testing::Each;
using testing::HasSubstr;

std::string DigestBytes(const std::string& bytes) {
  return std::string(
      AsText(DigestOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()})));
}

ImageMessage ImageStart(pb::UpscaleImageStart start = {}) {
  ImageMessage request;
  *request.mutable_start() = std::move(start);
  return request;
}

std::vector<ImageMessage> Upload(pb::UpscaleImageStart start, const std::string& image,
                                 size_t chunk_bytes = 1000) {
  std::vector<ImageMessage> messages = {ImageStart(std::move(start))};
  for (size_t at = 0; at < image.size(); at += chunk_bytes) {
    messages.emplace_back().set_chunk(image.substr(at, chunk_bytes));
  }
  return messages;
}

// A call's end and its messages, taken apart.
struct Answer {
  absl::Status status;
  std::vector<ImageResponse::PayloadCase> order;
  pb::UpscaleImageHeader header;
  pb::UpscaleSummary summary;
  std::string image;
  std::vector<size_t> chunk_bytes;
  RequestRecord record;
};

class UpscaleImageHandlerTest : public testing::Test {
 protected:
  explicit UpscaleImageHandlerTest(const Limits& limits = {}) : engine_(limits) {}

  void ShareResults() {
    const std::filesystem::path folder =
        std::filesystem::path(testing::TempDir()) / absl::StrCat("handler.", getpid());
    std::filesystem::remove_all(folder);
    sharing_.emplace(ResultSharingOptions{
        .software = "test",
        .store = *ResultStore::Open({.directory = folder, .max_bytes = int64_t{1} << 30}),
        .max_held_bytes = int64_t{4} << 20,
        .max_computations = 2});
    engine_.handlers().sharing = &*sharing_;
  }

  Answer Run(GivenMessages<ImageMessage> reader, absl::Status gone = absl::OkStatus()) {
    SentMessages<ImageResponse> writer;
    writer.Leave(std::move(gone));
    TestCall call;
    Answer answer;
    answer.status = HandleUpscaleImage(engine_.handlers(), call.context(), reader, writer);
    for (const ImageResponse& message : writer.messages()) {
      answer.order.push_back(message.payload_case());
      if (message.has_header()) answer.header = message.header();
      if (message.has_summary()) answer.summary = message.summary();
      if (!message.has_chunk()) continue;
      answer.image += message.chunk();
      answer.chunk_bytes.push_back(message.chunk().size());
    }
    answer.record = call.record;
    return answer;
  }
  Answer Run(std::vector<ImageMessage> messages) { return Run(GivenMessages(std::move(messages))); }

  // The call is refused, before anything was sent.
  void ExpectRefusal(std::vector<ImageMessage> messages, ErrorReason reason,
                     const std::string& words) {
    const Answer answer = Run(std::move(messages));
    EXPECT_EQ(ReasonOf(answer.status), reason) << answer.status;
    EXPECT_THAT(answer.status.message(), HasSubstr(words));
    EXPECT_TRUE(answer.order.empty());
  }

  EngineEnvironment engine_;
  std::optional<ResultSharing> sharing_;
};

TEST_F(UpscaleImageHandlerTest, OptionsWithoutEffectAreNamed) {
  const auto warnings = [&](pb::ImageFormat format, bool quality, bool compression) {
    pb::UpscaleImageStart start;
    start.mutable_options()->set_format(format);
    if (quality) start.mutable_options()->set_quality(5);
    if (compression) start.mutable_options()->set_png_compression(0);
    const Answer answer = Run({Upload(start, PngOf(8, 8))});
    EXPECT_EQ(answer.status, absl::OkStatus());
    return std::vector<std::string>(answer.header.warnings().begin(),
                                    answer.header.warnings().end());
  };
  using testing::ElementsAre;
  EXPECT_THAT(warnings(pb::IMAGE_FORMAT_PNG, true, true),
              ElementsAre("quality=5 has no effect: the result is png"));
  EXPECT_THAT(warnings(pb::IMAGE_FORMAT_JPEG, true, true),
              ElementsAre("png_compression=0 has no effect: the result is jpeg"));
  EXPECT_THAT(warnings(pb::IMAGE_FORMAT_PNG, false, true), ElementsAre());
  EXPECT_THAT(warnings(pb::IMAGE_FORMAT_JPEG, true, false), ElementsAre());
}

TEST_F(UpscaleImageHandlerTest, SendsHeaderImageAndSummaryInOrder) {
  const std::string image = PngOf(310, 207);
  pb::UpscaleImageStart start;
  start.set_request_id("mine");
  start.mutable_options()->set_scale(2);
  start.mutable_options()->set_format(pb::IMAGE_FORMAT_PNG);
  for (const size_t chunk_bytes : {size_t{1}, size_t{77}, image.size()}) {
    const Answer answer = Run(Upload(start, image, chunk_bytes));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.order.front(), ImageResponse::kHeader);
    EXPECT_EQ(answer.order.back(), ImageResponse::kSummary);
    EXPECT_EQ(answer.order.size(), 2 + answer.chunk_bytes.size());
    EXPECT_EQ(answer.header.result_width_px(), 620);
    EXPECT_EQ(answer.header.result_height_px(), 414);
    EXPECT_EQ(answer.summary.result_bytes(), std::ssize(answer.image));
    EXPECT_EQ(answer.record.request_id, "mine");
    EXPECT_EQ(answer.record.received_bytes, std::ssize(image));
    EXPECT_EQ(answer.record.source_pixels, 310 * 207);
  }
}

TEST_F(UpscaleImageHandlerTest, SendsChunksOfOneSizeButTheLast) {
  pb::UpscaleImageStart start;
  start.mutable_options()->set_png_compression(0);
  const Answer answer = Run(Upload(start, PngOf(300, 300)));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  ASSERT_GT(answer.chunk_bytes.size(), 2u);
  const std::vector<size_t> all_but_last(answer.chunk_bytes.begin(), answer.chunk_bytes.end() - 1);
  EXPECT_THAT(all_but_last, Each(size_t{128} << 10));
  EXPECT_LE(answer.chunk_bytes.back(), size_t{128} << 10);
}

TEST_F(UpscaleImageHandlerTest, SendsProgressIfAsked) {
  pb::UpscaleImageStart start;
  start.mutable_options()->set_tile_px(32);
  const std::string image = PngOf(96, 96);
  const auto count = [&](const Answer& answer) {
    return std::ranges::count(answer.order, ImageResponse::kProgress);
  };
  EXPECT_EQ(count(Run(Upload(start, image))), 0);
  start.set_report_progress(true);
  EXPECT_GE(count(Run(Upload(start, image))), 9);
}

TEST_F(UpscaleImageHandlerTest, RefusesStreamsOfAnotherOrder) {
  ImageMessage chunk;
  chunk.set_chunk("x");
  const auto reason = ErrorReason::kInvalidOption;
  ExpectRefusal({}, reason, "ended without a message");
  ExpectRefusal({chunk}, reason, "the first message must hold the options");
  ExpectRefusal({ImageMessage()}, reason, "the first message must hold the options");
  ExpectRefusal({ImageStart(), ImageStart()}, reason, "only the first message may hold options");
  ExpectRefusal({ImageStart(), ImageMessage()}, reason, "only the first message may hold options");
  std::vector<ImageMessage> twice = Upload({}, PngOf(64, 64));
  twice.insert(twice.begin() + 2, ImageStart());
  EXPECT_EQ(ReasonOf(Run(twice).status), reason);
}

TEST_F(UpscaleImageHandlerTest, ChecksEachFieldOfTheStart) {
  const std::string image = PngOf(8, 8);
  const auto refuse = [&](const std::function<void(pb::UpscaleImageStart&)>& change,
                          const std::string& words,
                          ErrorReason reason = ErrorReason::kInvalidOption) {
    pb::UpscaleImageStart start;
    change(start);
    ExpectRefusal(Upload(start, image), reason, words);
  };
  refuse([](auto& start) { start.set_total_bytes(-1); }, "total_bytes is -1");
  refuse([](auto& start) { start.set_total_bytes(int64_t{1} << 50); }, "1125899906842624",
         ErrorReason::kLimitExceeded);
  refuse([](auto& start) { start.set_request_id(std::string(129, 'x')); }, "request_id");
  refuse([](auto& start) { start.set_request_id("two words"); }, "request_id");
  refuse([](auto& start) { start.set_source_sha256("short"); }, "source_sha256 has 5 bytes");
  refuse([](auto& start) { start.set_source_sha256(std::string(33, 'x')); }, "has 33 bytes");
  refuse([](auto& start) { start.set_name_only(true); }, "name_only needs source_sha256");
  refuse(
      [](auto& start) {
        for (int i = 0; i < 17; ++i) start.add_known_etags("name");
      },
      "known_etags has 17 entries");
  refuse([](auto& start) { start.mutable_options()->set_model("none-such"); }, "none-such",
         ErrorReason::kUnknownModel);
}

class SmallResultTest : public UpscaleImageHandlerTest {
 protected:
  SmallResultTest() : UpscaleImageHandlerTest({.max_result_pixels = 1'000'000}) {}
};

TEST_F(SmallResultTest, ReadsNoMoreThanTheHeaderOfAnImageThatItRefuses) {
  const std::vector<ImageMessage> messages = Upload({}, PngOf(900, 900), 4096);
  GivenMessages<ImageMessage> reader(messages);
  SentMessages<ImageResponse> writer;
  TestCall call;
  const absl::Status status =
      HandleUpscaleImage(engine_.handlers(), call.context(), reader, writer);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded) << status;
  EXPECT_GT(reader.left(), messages.size() / 2);
  EXPECT_TRUE(writer.messages().empty());
}

TEST_F(UpscaleImageHandlerTest, EndsAsItsStreamsEnd) {
  const std::string image = PngOf(64, 64);
  std::vector<ImageMessage> cut = Upload({}, image);
  cut.pop_back();
  const Answer broken = Run(GivenMessages(cut, absl::AbortedError("the client is gone")));
  EXPECT_TRUE(absl::IsAborted(broken.status)) << broken.status;
  const Answer truncated = Run(cut);
  EXPECT_EQ(ReasonOf(truncated.status), ErrorReason::kInvalidImage) << truncated.status;
  const Answer unread =
      Run(GivenMessages(Upload({}, image)), absl::AbortedError("nobody reads the answer"));
  EXPECT_EQ(unread.status.message(), "nobody reads the answer");
}

TEST_F(UpscaleImageHandlerTest, ComputesEqualImagesOnce) {
  ShareResults();
  const std::string image = PngOf(40, 30);
  const Answer first = Run(Upload({}, image));
  const Answer again = Run(Upload({}, image, 333));
  ASSERT_TRUE(first.status.ok() && again.status.ok()) << first.status << again.status;
  EXPECT_TRUE(first.image == again.image);
  EXPECT_FALSE(first.header.cached());
  EXPECT_TRUE(again.header.cached());
  EXPECT_EQ(first.summary.etag(), again.summary.etag());
  EXPECT_EQ(sharing_->counts().computed, 1);
  EXPECT_EQ(sharing_->counts().stored, 1);
}

TEST_F(UpscaleImageHandlerTest, SendsNoImageThatTheClientHas) {
  ShareResults();
  const std::string image = PngOf(40, 30);
  pb::UpscaleImageStart start;
  start.add_known_etags("another");
  start.add_known_etags(Run(Upload({}, image)).summary.etag());
  const Answer known = Run(Upload(start, image));
  ASSERT_TRUE(known.status.ok()) << known.status;
  EXPECT_TRUE(known.header.not_modified());
  EXPECT_TRUE(known.image.empty());
  EXPECT_EQ(sharing_->counts().unmodified, 1);
}

TEST_F(UpscaleImageHandlerTest, TellsTheNameWithoutComputing) {
  ShareResults();
  const std::string image = PngOf(40, 30);
  pb::UpscaleImageStart start;
  start.set_source_sha256(DigestBytes(image));
  start.set_name_only(true);
  const Answer named = Run(Upload(start, image));
  ASSERT_TRUE(named.status.ok()) << named.status;
  EXPECT_TRUE(named.image.empty());
  EXPECT_EQ(sharing_->counts().computed, 0);
  EXPECT_EQ(named.header.etag(), Run(Upload({}, image)).summary.etag());
}

TEST_F(UpscaleImageHandlerTest, RefusesASourceOfAnotherDigest) {
  ShareResults();
  pb::UpscaleImageStart start;
  start.set_source_sha256(DigestBytes("something else"));
  ExpectRefusal(Upload(start, PngOf(40, 30)), ErrorReason::kInvalidOption, "SHA-256");
  ExpectRefusal(Upload(start, ""), ErrorReason::kInvalidImage,
                absl::StrCat("no result of the image with the SHA-256 ",
                             absl::BytesToHexString(start.source_sha256()), " is stored"));
  ExpectRefusal(Upload({}, ""), ErrorReason::kInvalidImage, "the image is empty");
  EXPECT_EQ(sharing_->counts().computed, 0);
}

TEST_F(UpscaleImageHandlerTest, GivesUnaryCallsTheSameImage) {
  const std::string image = PngOf(33, 21);
  pb::UpscaleRequest request;
  request.set_image(image);
  request.set_request_id("unary");
  pb::UpscaleResponse response;
  TestCall call;
  const absl::Status status = HandleUpscale(engine_.handlers(), call.context(), request, response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(response.image() == Run(Upload({}, image)).image);
  EXPECT_EQ(response.header().result_width_px(), 66);
  EXPECT_EQ(response.summary().result_bytes(), std::ssize(response.image()));
  EXPECT_EQ(call.record.request_id, "unary");
  EXPECT_EQ(call.record.received_bytes, std::ssize(image));
}

class SmallUnaryCallTest : public UpscaleImageHandlerTest {
 protected:
  static constexpr int64_t kMaxBytes = 4096;

  SmallUnaryCallTest() : UpscaleImageHandlerTest({.max_unary_bytes = kMaxBytes}) {}

  absl::Status Run(const std::string& image, const pb::UpscaleOptions& options = {}) {
    pb::UpscaleRequest request;
    request.set_image(image);
    *request.mutable_options() = options;
    pb::UpscaleResponse response;
    TestCall call;
    const absl::Status status =
        HandleUpscale(engine_.handlers(), call.context(), request, response);
    cost_ = call.record.cost;
    return status;
  }

  int64_t cost_ = 0;  // of the last call
};

TEST_F(SmallUnaryCallTest, RefusesALongerSource) {
  const absl::Status status = Run(PngOf(64, 64));
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded) << status;
  EXPECT_THAT(status.message(), HasSubstr("UpscaleImage takes larger ones"));
}

TEST_F(SmallUnaryCallTest, RefusesALongerResultBeforeComputingIt) {
  ShareResults();
  pb::UpscaleOptions options;
  options.set_scale(8);
  options.set_png_compression(0);
  const absl::Status status = Run(PngOf(30, 30), options);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded) << status;
  EXPECT_EQ(cost_, 0);
}

}  // namespace
}  // namespace upscaled::server
