#include "server/rest/answer.h"

#include "engine/image/memory_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "server/rest/answer_sink.h"
#include "server/rest/cors.h"
#include "server/rest/problem.h"
#include "tests/server/rest/fake_exchange.h"
#include "tests/server/rest/field_of.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

using nlohmann::json;
using testing::HasSubstr;

TEST(ProblemTest, SaysWhatAndWhichLimit) {
  const HttpResponse response =
      ProblemResponse(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                                "too large", {{"limit", "max-source-bytes"}, {"maximum", "5"}}),
                      "id-1");
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(FieldOf(response, "Content-Type"), "application/problem+json");
  EXPECT_EQ(FieldOf(response, "X-Request-Id"), "id-1");
  EXPECT_EQ(json::parse(response.body),
            json({{"type", "about:blank"},
                  {"title", "Payload Too Large"},
                  {"status", 413},
                  {"detail", "too large"},
                  {"reason", "LIMIT_EXCEEDED"},
                  {"code", "INVALID_ARGUMENT"},
                  {"request_id", "id-1"},
                  {"metadata", {{"limit", "max-source-bytes"}, {"maximum", "5"}}}}));
}

TEST(ProblemTest, SaysWhenToComeBack) {
  const HttpResponse full = ProblemResponse(MakeOverloaded("full", absl::Milliseconds(1200)), "");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(FieldOf(full, "Retry-After"), "2");
  EXPECT_EQ(json::parse(full.body)["retry_after_seconds"], 1.2);
  EXPECT_FALSE(json::parse(full.body).contains("request_id"));
  const HttpResponse draining =
      ProblemResponse(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining, "bye"), "");
  EXPECT_EQ(draining.status, 503);
  EXPECT_EQ(FieldOf(draining, "Retry-After"), "1");
}

TEST(ProblemTest, HasAStatusForEachReason) {
  const auto status = [](ErrorReason reason) {
    return HttpStatusOf(MakeError(absl::StatusCode::kUnknown, reason, ""));
  };
  EXPECT_EQ(status(ErrorReason::kInvalidOption), 400);
  EXPECT_EQ(status(ErrorReason::kInvalidImage), 422);
  EXPECT_EQ(status(ErrorReason::kUnsupported), 415);
  EXPECT_EQ(status(ErrorReason::kUnknownModel), 404);
  EXPECT_EQ(status(ErrorReason::kDeadline), 504);
  EXPECT_EQ(status(ErrorReason::kStalled), 408);
  EXPECT_EQ(status(ErrorReason::kDeviceFailure), 503);
  EXPECT_EQ(status(ErrorReason::kReloadFailed), 503);
  EXPECT_EQ(status(ErrorReason::kInternal), 500);
}

TEST(ProblemTest, IsJsonWhateverTheClientSent) {
  const std::string text = ProblemJson(absl::InvalidArgumentError("\"\xff\n\x01</script>"), "");
  EXPECT_TRUE(json::accept(text)) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << "it must fit into one line of an event stream";
}

TEST(ContentDispositionTest, IsHarmless) {
  EXPECT_EQ(ContentDisposition("inline", "a b.png"), "inline; filename=\"a b.png\"");
  EXPECT_EQ(ContentDisposition("attachment", "../a\"\r\n\\b"),
            "attachment; filename=\".._a____b\"");
  EXPECT_EQ(ContentDisposition("attachment", "\xC3\xA4.png"),
            "attachment; filename=\"__.png\"; filename*=UTF-8''%C3%A4.png");
  EXPECT_THAT(ContentDisposition("inline", std::string(199, 'a') + "\xC3\xA4"),
              testing::Not(testing::HasSubstr("*")))
      << "no half of a character";
}

TEST(ImageResponseTest, NamesTheResult) {
  pb::UpscaleImageHeader header;
  header.set_request_id("id");
  header.set_source_width_px(100);
  header.set_result_width_px(150);
  header.set_result_height_px(75);
  header.set_format(pb::IMAGE_FORMAT_JPEG);
  header.set_model("general-2x");
  header.set_tiles(3);
  const HttpResponse response =
      ImageResponse(header, {}, "C:\\images\\cat.hat.png", absl::Milliseconds(2));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(FieldOf(response, "Content-Type"), "image/jpeg");
  EXPECT_EQ(FieldOf(response, "Content-Disposition"), "inline; filename=\"cat.hat-1.5x.jpg\"");
  EXPECT_EQ(FieldOf(response, "Upscale-Width"), "150");
  EXPECT_EQ(FieldOf(response, "Upscale-Height"), "75");
  EXPECT_EQ(FieldOf(response, "Upscale-Tiles"), "3");
  EXPECT_THAT(FieldOf(response, "Upscale-Header"), ::testing::HasSubstr("\"result_width_px\":150"));
  EXPECT_EQ(FieldOf(response, "Upscale-Model"), "general-2x");
  EXPECT_EQ(FieldOf(response, "X-Request-Id"), "id");
  UpscaleParameters saved;
  saved.download = "x.jpg";
  EXPECT_EQ(FieldOf(ImageResponse(header, saved, "", {}), "Content-Disposition"),
            "attachment; filename=\"x.jpg\"");
}

TEST(OriginalResponseTest, WarnsInOneLine) {
  const HttpResponse response =
      OriginalResponse(std::nullopt,
                       MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidImage,
                                 "no \"PNG\"\r\nX: y\\"),
                       "id");
  EXPECT_EQ(FieldOf(response, "Upscale-Error"), "INVALID_IMAGE");
  EXPECT_EQ(FieldOf(response, "Warning"),
            "199 upscaled \"the image is as it was sent: no ?PNG???X: y?\"");
  EXPECT_EQ(FieldOf(response, "Content-Type"), "application/octet-stream");
}

class AnswerSinkTest : public testing::Test {
 protected:
  const std::shared_ptr<FakeClient> client_ = std::make_shared<FakeClient>();
  FakeExchange exchange_{HttpRequest{}, client_};
  AnswerSink sink_{exchange_};
};

TEST_F(AnswerSinkTest, SendsASmallBodyAtOnce) {
  sink_.Open({.status = 200, .fields = {{"A", "1"}, {"B", "2"}}}, {"B"});
  ASSERT_TRUE(sink_.Write(AsBytes("small")).ok());
  EXPECT_FALSE(sink_.begun());
  ASSERT_TRUE(sink_.Settle().ok());
  sink_.Finish({{"B", "3"}});
  EXPECT_TRUE(client_->finished() && !client_->begun());
  EXPECT_EQ(client_->body(), "small");
  EXPECT_EQ(client_->Field("A"), "1");
  EXPECT_EQ(client_->Field("B"), "3");
}

TEST_F(AnswerSinkTest, StreamsALargeOne) {
  std::string body;
  sink_.Open({.status = 200, .fields = {{"A", "1"}}}, {"B"});
  for (int i = 0; i < 50'000; ++i) {
    const std::string row = std::to_string(i) + "\n";
    ASSERT_TRUE(sink_.Write(AsBytes(row)).ok());
    body += row;
  }
  EXPECT_TRUE(sink_.begun() && client_->begun());
  EXPECT_GT(client_->body().size(), body.size() - 2 * AnswerSink::kPieceBytes);
  ASSERT_TRUE(sink_.Settle().ok());
  sink_.Finish({{"B", "3"}});
  EXPECT_TRUE(client_->finished());
  EXPECT_TRUE(client_->body() == body);
  EXPECT_EQ(client_->Trailer("B"), "3");
}

TEST(CorsTest, TellsAllowedOriginsAlone) {
  const auto request = [](const std::string& origin) {
    return HttpRequest{.fields = {{"Origin", origin}}};
  };
  const Cors cors({"https://a.example"});
  const auto value = [&](const Cors& list, const std::string& origin) {
    return FieldOf({.fields = list.Fields(request(origin))}, "Access-Control-Allow-Origin");
  };
  EXPECT_EQ(value(cors, "https://a.example"), "https://a.example");
  EXPECT_EQ(value(cors, "https://a.example.evil"), "");
  EXPECT_EQ(value(Cors({"*"}), "https://b.example"), "https://b.example");
  EXPECT_TRUE(Cors({}).Fields(request("https://a.example")).empty());
  const HttpResponse preflight = cors.Preflight(request("https://a.example"), "POST");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(FieldOf(preflight, "Access-Control-Allow-Methods"), "POST");
  EXPECT_EQ(FieldOf(preflight, "Vary"), "Origin");
  EXPECT_THAT(FieldOf(preflight, "Access-Control-Allow-Headers"), testing::HasSubstr("Prefer"));
  const std::string exposed = FieldOf({.fields = cors.Fields(request("https://a.example"))},
                                      "Access-Control-Expose-Headers");
  for (const char* field : {"ETag", "Location", "Preference-Applied", "Upscale-Warning"}) {
    EXPECT_THAT(exposed, testing::HasSubstr(field));
  }
  EXPECT_EQ(
      FieldOf(cors.Preflight(request("https://b.example"), "POST"), "Access-Control-Allow-Methods"),
      "");
}

}  // namespace
}  // namespace upscaled::server
