#include "server/rest/upscale_call.h"

#include <tuple>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "server/handlers/upscale_image.h"
#include "tests/server/rest/forms.h"
#include "tests/server/rest/rest_environment.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class UpscaleCallTest : public testing::Test {
 protected:
  // The bytes of gRPC's answer.
  std::string ResultOf(const std::string& image, const pb::UpscaleOptions& options) {
    pb::UpscaleRequest request;
    request.set_image(image);
    *request.mutable_options() = options;
    pb::UpscaleResponse response;
    Cancellation cancellation;
    RequestRecord record;
    AdmissionController::Reservation reservation;
    const absl::Status status =
        HandleUpscale(env_.handlers(), {cancellation, record, absl::Now(), reservation, Payer()},
                      request, response);
    EXPECT_TRUE(status.ok()) << status;
    return response.image();
  }

  std::string Reason(const FakeClient& client, int status) {
    EXPECT_EQ(client.status(), status) << client.body();
    EXPECT_TRUE(client.finished());
    EXPECT_EQ(client.Field("Content-Type"), "application/problem+json");
    const json problem = json::parse(client.body(), nullptr, false);
    return problem.value("reason", "");
  }

  RestEnvironment env_;
};

TEST_F(UpscaleCallTest, GivesTheBytesOfTheOtherTransport) {
  const std::string image = PngOf(33, 21);
  pb::UpscaleOptions options;
  options.set_scale(3);
  const auto client = env_.Post("scale=3&request_id=mine", image, {{"Content-Type", "image/png"}});
  ASSERT_EQ(client->status(), 200) << client->body();
  EXPECT_TRUE(client->finished());
  EXPECT_TRUE(client->body() == ResultOf(image, options));
  EXPECT_EQ(client->Field("Content-Type"), "image/png");
  EXPECT_EQ(client->Field("X-Request-Id"), "mine");
  EXPECT_EQ(client->Field("Upscale-Width"), "99");
  EXPECT_EQ(client->Field("Upscale-Height"), "63");
  EXPECT_EQ(client->Field("Content-Disposition"), "inline; filename=\"upscaled-3x.png\"");
  EXPECT_EQ(json::parse(client->Field("Upscale-Summary"))["device"], "cpu");
  ASSERT_EQ(env_.records().size(), 1u);
  const RequestRecord record = env_.records().front();
  EXPECT_EQ(record.transport, "http");
  EXPECT_EQ(record.method, "Upscale");
  EXPECT_EQ(record.peer, "10.0.0.1");
  EXPECT_EQ(record.request_id, "mine");
  EXPECT_EQ(record.received_bytes, std::ssize(image));
  EXPECT_EQ(record.sent_bytes, std::ssize(client->body()));
}

TEST_F(UpscaleCallTest, RunsModelsOneAfterTheOther) {
  const std::string image = PngOf(17, 11);
  pb::UpscaleOptions options;
  options.set_model("fast-2x,general-2x");
  const auto client = env_.Post("model=fast-2x,general-2x", image);
  ASSERT_EQ(client->status(), 200) << client->body();
  EXPECT_TRUE(client->body() == ResultOf(image, options));
  EXPECT_EQ(client->Field("Upscale-Model"), "fast-2x,general-2x");
  EXPECT_EQ(client->Field("Upscale-Width"), "68");
  const auto verdict = env_.Post("model=fast-2x,general-2x&dry_run=1", image);
  const auto alone = env_.Post("model=general-2x&dry_run=1&scale=4", image);
  ASSERT_EQ(verdict->status(), 200) << verdict->body();
  EXPECT_EQ(json::parse(verdict->body())["model"], "fast-2x,general-2x");
  EXPECT_NE(verdict->body(), alone->body());
  EXPECT_EQ(Reason(*env_.Post("model=fast-2x,none", image), 404), "UNKNOWN_MODEL");
}

TEST_F(UpscaleCallTest, TellsWhoAsksLaterHowItEnded) {
  EXPECT_EQ(env_.Post("request_id=good", PngOf(8, 8))->status(), 200);
  EXPECT_EQ(env_.Post("request_id=bad", "no image")->status(), 422);
  for (const auto& [id, event] : {std::pair{"good", "event: done\n"}, {"bad", "event: failed\n"}}) {
    const auto listener = env_.Call("GET", {.path = "/v1/progress/{request_id}", .parameter = id});
    listener->AwaitEnd();
    EXPECT_THAT(listener->body(), HasSubstr(event));
  }
}

TEST_F(UpscaleCallTest, StreamsALargeResultWithATrailer) {
  const auto client = env_.Post("", PngOf(200, 150));
  ASSERT_EQ(client->status(), 200);
  EXPECT_TRUE(client->begun() && client->finished());
  EXPECT_EQ(client->Field("Upscale-Summary"), "");
  const json summary = json::parse(client->Trailer("Upscale-Summary"));
  EXPECT_EQ(summary["result_bytes"], client->body().size());
  EXPECT_THAT(client->Trailer("Server-Timing"), HasSubstr("infer;dur="));
}

TEST_F(UpscaleCallTest, WarnsOfTheHeaderAndOfThePixels) {
  const auto cut = [](int width, int height) {
    const std::string png = PngOf(width, height);
    return png.substr(0, png.size() - 12);  // IEND
  };
  const auto small = env_.Post("scale=1", cut(20, 10));
  ASSERT_EQ(small->status(), 200) << small->body();
  EXPECT_THAT(small->Field("Upscale-Warning"), HasSubstr("did not run"));
  EXPECT_THAT(small->Field("Upscale-Warning"), HasSubstr("the end of the file is missing"));
  // The header of a large answer has left when the pixels are read.
  const auto large = env_.Post("scale=1", cut(400, 300));
  ASSERT_EQ(large->status(), 200);
  EXPECT_THAT(large->Field("Upscale-Warning"), HasSubstr("did not run"));
  EXPECT_THAT(large->Trailer("Upscale-Warning"), HasSubstr("the end of the file is missing"));
  EXPECT_THAT(large->Trailer("Upscale-Warning"), Not(HasSubstr("did not run")));
}

TEST_F(UpscaleCallTest, TakesAFormWhoseFieldsStandAnywhere) {
  const std::string image = PngOf(20, 10);
  pb::UpscaleOptions options;
  options.set_scale(1.5);
  options.set_noise_level(1);
  const std::string expected = ResultOf(image, options);
  const FormPart file{"image", image, true}, scale{"scale", "1.5"}, noise{"noise", "1"};
  for (const auto& parts : {std::vector{file, scale, noise}, std::vector{scale, noise, file},
                            std::vector{scale, FormPart{"file", image, true}, noise}}) {
    const auto client = env_.Post("", FormOf(parts), kForm);
    ASSERT_EQ(client->status(), 200) << client->body();
    EXPECT_TRUE(client->body() == expected);
    EXPECT_EQ(client->Field("Content-Disposition"), "inline; filename=\"cat-1.5x.png\"");
  }
}

// In the query, a form and JSON alike.
TEST_F(UpscaleCallTest, TakesEmptyFieldsForNone) {
  const std::string image = PngOf(8, 8);
  const std::string expected = env_.Post("height=3", image)->body();
  const auto form = [&](const std::string& scale) {
    return env_.Post("",
                     FormOf({{"width", ""},
                             {"height", "3"},
                             {"scale", scale},
                             {"image", image, true},
                             {"url", ""}}),
                     kForm);
  };
  const auto query = [&](const std::string& scale) {
    return env_.Post("width=&height=3&scale=" + scale, image);
  };
  const auto json = [&](const std::string& scale) {
    const std::string body = absl::StrCat(R"({"width":"","height":3,"scale":")", scale,
                                          R"(","image":")", absl::Base64Escape(image), R"("})");
    return env_.Post("", body, {{"Content-Type", "application/json"}});
  };
  for (const auto& send :
       {std::function<decltype(form(""))(const std::string&)>(form), {query}, {json}}) {
    EXPECT_TRUE(send("")->body() == expected);
    const auto refused = send("2");
    EXPECT_EQ(Reason(*refused, 400), "INVALID_OPTION");
    EXPECT_THAT(refused->body(), HasSubstr("scale is given next to height;"));
  }
}

TEST_F(UpscaleCallTest, HeedsFieldsBehindALargeImage) {
  std::string image = PngOf(30, 20);
  // Bytes behind the end of an image have no reader.
  image.resize(Upload::kMaxHeldBytes + 100'000, 'x');
  const auto whole = env_.Post("scale=1", FormOf({{"image", image, true}}), kForm);
  EXPECT_EQ(whole->status(), 200) << whole->body();
  const auto late = env_.Post("", FormOf({{"image", image, true}, {"scale", "1"}}), kForm);
  EXPECT_EQ(late->status(), 200) << late->body();
  EXPECT_TRUE(late->body() == whole->body());
}

TEST_F(UpscaleCallTest, TakesAFileInputWithoutAFileForNone) {
  std::string form = FormOf({{"image", PngOf(8, 8), true}});
  form.insert(0,
              "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\"\r\n\r\n\r\n");
  EXPECT_EQ(env_.Post("", form, kForm)->status(), 200);
}

TEST_F(UpscaleCallTest, RefusesBadForms) {
  const std::string image = PngOf(4, 4);
  for (const auto& parts :
       {std::vector<FormPart>{{"scale", "2"}},
        std::vector<FormPart>{{"image", image, true}, {"file", image, true}},
        std::vector<FormPart>{{"picture", image, true}},
        std::vector<FormPart>{{"image", image, true}, {"scale", "2"}, {"scale", "2"}},
        std::vector<FormPart>{{"model", std::string(5000, 'a')}, {"image", image, true}}}) {
    EXPECT_EQ(Reason(*env_.Post("", FormOf(parts), kForm), 400), "INVALID_OPTION");
  }
  EXPECT_EQ(Reason(*env_.Post("", "no form", kForm), 400), "INVALID_OPTION");
}

TEST_F(UpscaleCallTest, ReadsJsonAndDataUrls) {
  const std::string image = PngOf(30, 20);
  const std::string expected = env_.Post("scale=1.5", image)->body();
  const std::string base64 = absl::Base64Escape(image);
  const std::string url = "data:image/png;base64," + base64;
  const std::vector<HttpField> json = {{"Content-Type", "application/json; charset=utf-8"}};
  for (const auto& [query, body, fields] :
       {std::tuple{std::string(), R"({"image": ")" + base64 + R"(", "scale": 1.5})", json},
        {"scale=1.5", R"({"image": ")" + url + R"("})", json},
        {"", R"({"scale": "1.5", "url": ")" + url + R"("})", json},
        {"scale=1.5&url=" + url, "", std::vector<HttpField>()},
        {"", FormOf({{"scale", "1.5"}, {"url", url}}), kForm}}) {
    const auto client = env_.Post(query, body, fields);
    EXPECT_EQ(client->status(), 200) << client->body();
    EXPECT_TRUE(client->body() == expected) << query;
  }
  for (const char* body :
       {"{}", "[]", "{\"image\": 7}", "{\"image\": \"QQ==\", \"url\": \"data:;base64,QQ==\"}",
        "{\"sacle\": 2}", "{\"scale\": 2, \"scale\": 3}", "{\"image\": {}}"}) {
    EXPECT_EQ(Reason(*env_.Post("", body, json), 400), "INVALID_OPTION") << body;
  }
  EXPECT_EQ(Reason(*env_.Post("url=" + url, image), 400), "INVALID_OPTION") << "two images";
  const std::string large = R"({"image": ")" + std::string(Upload::kMaxTextBytes, 'A') + R"("})";
  const auto refused = env_.Post("", large, json);
  EXPECT_EQ(Reason(*refused, 413), "LIMIT_EXCEEDED");
  EXPECT_THAT(refused->body(), HasSubstr("16777216"));
}

TEST_F(UpscaleCallTest, TakesALargeDataUrlOfAForm) {
  std::string image = PngOf(8, 8);
  image.resize(1'000'000, 'x');
  const FormPart url{"url", "data:image/png;base64," + absl::Base64Escape(image)};
  const auto client = env_.Post("", FormOf({url}), kForm);
  EXPECT_EQ(client->status(), 200) << client->body();
}

TEST_F(UpscaleCallTest, RefusesAResultThatAcceptExcludes) {
  const std::string image = PngOf(8, 8);
  for (const char* const accept : {"image/gif", "image/png;q=0, */*", "image/*;q=0", "*/*;q=0"}) {
    for (const char* const query : {"", "dry_run=1", "on_error=original"}) {
      const auto client = env_.Post(query, image, {{"Accept", accept}});
      EXPECT_EQ(Reason(*client, 406), "INVALID_OPTION") << accept << query;
      EXPECT_THAT(client->body(), HasSubstr("the result would be png")) << accept;
      EXPECT_THAT(client->body(), HasSubstr("request_id")) << accept;
    }
    EXPECT_EQ(env_.Post("format=png", image, {{"Accept", accept}})->status(), 200) << accept;
  }
  for (const char* const accept : {"image/png", "image/*", "application/json", "image/gif, */*"})
    EXPECT_EQ(env_.Post("", image, {{"Accept", accept}})->status(), 200) << accept;
}

TEST_F(UpscaleCallTest, RefusesEncodedBodies) {
  const std::string image = PngOf(8, 8);
  for (const char* encoding : {"gzip", "br", "deflate", "GZIP, identity"}) {
    const auto client = env_.Post("", image, {{"Content-Encoding", encoding}});
    EXPECT_EQ(Reason(*client, 415), "UNSUPPORTED") << encoding;
    EXPECT_THAT(client->body(), HasSubstr("Content-Encoding"));
  }
  EXPECT_EQ(env_.Post("", image, {{"Content-Encoding", "identity"}})->status(), 200);
}

TEST_F(UpscaleCallTest, NamesTheFieldThatAnImageBelongsInto) {
  const auto client = env_.Post("", FormOf({{"upload", PngOf(8, 8), true}}), kForm);
  EXPECT_EQ(Reason(*client, 400), "INVALID_OPTION");
  EXPECT_THAT(client->body(), HasSubstr("-F image=@FILE"));
}

TEST_F(UpscaleCallTest, NamesWhatIsNoImage) {
  const std::pair<std::string, const char*> kBodies[] = {
      {"8BPS\1\1", "this is a Photoshop document"},
      {"<!doctype html><html>", "this is an HTML page"},
      {R"({"image": "iVBORw0KGgo"})", "this is JSON"},
      {absl::Base64Escape(PngOf(8, 8)), "this is a PNG in base64 text"},
      {"\x89PNG\n\x1a\n" + PngOf(8, 8).substr(8), "send its bytes unchanged"},
      {"\x1f\x8b\x08 compressed", "this is gzip"}};
  for (const auto& [body, message] : kBodies) {
    const auto client = env_.Post("", body);
    EXPECT_EQ(Reason(*client, 422), "INVALID_IMAGE") << message;
    EXPECT_THAT(client->body(), HasSubstr(message));
    EXPECT_THAT(client->body(), Not(HasSubstr("curl")));
  }
}

TEST_F(UpscaleCallTest, AdvisesOnCurlsFlagsToCurlOnly) {
  const auto refusal = [&](const std::string& agent, const std::string& type,
                           const std::string& image = "cat.jpg") {
    return env_.Post("", image, {{"User-Agent", agent}, {"Content-Type", type}})->body();
  };
  const std::string form = "application/x-www-form-urlencoded";
  EXPECT_THAT(refusal("curl/7.88.1", form), HasSubstr("--data-binary @FILE"));
  EXPECT_THAT(refusal("curl/7.88.1", "image/png"), Not(HasSubstr("curl")));
  EXPECT_THAT(refusal("upscale/1", form), Not(HasSubstr("curl")));
  const std::string cut = PngOf(8, 8).substr(0, 40);  // as --data-binary sends it, too
  EXPECT_THAT(refusal("curl/7.88.1", form, cut), Not(HasSubstr("curl")));
}

TEST_F(UpscaleCallTest, GivesProblems) {
  EXPECT_EQ(Reason(*env_.Post("scale=99", PngOf(4, 4)), 400), "INVALID_OPTION");
  EXPECT_EQ(Reason(*env_.Post("sacle=2", PngOf(4, 4)), 400), "INVALID_OPTION");
  EXPECT_EQ(Reason(*env_.Post("model=best", PngOf(4, 4)), 404), "UNKNOWN_MODEL");
  EXPECT_EQ(Reason(*env_.Post("", "no image"), 422), "INVALID_IMAGE");
  EXPECT_EQ(Reason(*env_.Post("", ""), 422), "INVALID_IMAGE");
  const auto named = env_.Post("request_id=mine", PngOf(9, 9).substr(0, 60));
  EXPECT_EQ(Reason(*named, 422), "INVALID_IMAGE");
  EXPECT_EQ(named->Field("X-Request-Id"), "mine");
  EXPECT_EQ(env_.records().back().reason, "INVALID_IMAGE");
}

TEST_F(UpscaleCallTest, HeedsAccept) {
  const std::string image = PngOf(8, 8);
  const auto type = [&](const std::string& query, const std::string& accept) {
    return env_.Post(query, image, {{"Accept", accept}})->Field("Content-Type");
  };
  EXPECT_EQ(type("", "image/webp,*/*;q=0.5"), "image/webp");
  EXPECT_EQ(type("", "*/*"), "image/png");
  EXPECT_EQ(type("format=jpg", "image/webp"), "image/jpeg");
}

// A TIFF's directory may stand far behind.
TEST_F(UpscaleCallTest, AVerdictTakesMemoryThatWasAskedFor) {
  const auto others = env_.admission().Reserve({.memory_bytes = (int64_t{1} << 30) - (8 << 20)});
  ASSERT_TRUE(others.ok()) << others.status();
  std::string file("II\x2a\0\0\0\0\1", 8);  // at 16 MiB
  file.resize(6 << 20);
  const auto client =
      env_.Call("POST", {.path = "/v1/upscale", .query = "dry_run=1", .content_length = 20 << 20});
  client->Send(file, /*whole=*/false);
  client->AwaitEnd();
  EXPECT_EQ(Reason(*client, 429), "OVERLOADED");
}

TEST_F(UpscaleCallTest, GivesAVerdictFromTheFirstBytes) {
  const std::string image = PngOf(64, 48);
  const auto client = env_.Call(
      "POST",
      {.path = "/v1/upscale", .query = "dry_run=1&width=200", .content_length = image.size()});
  client->Send(image.substr(0, 100), /*whole=*/false);
  client->AwaitEnd();
  ASSERT_EQ(client->status(), 200) << client->body();
  const json verdict = json::parse(client->body());
  EXPECT_EQ(verdict["accepted"], true);
  EXPECT_EQ(verdict["source"], json({{"width_px", 64}, {"height_px", 48}, {"format", "png"}}));
  EXPECT_EQ(verdict["result"], json({{"width_px", 200}, {"height_px", 150}, {"format", "png"}}));
  EXPECT_EQ(verdict["model"], "general-2x");
  EXPECT_GT(verdict["tiles"], 0);
  EXPECT_GT(verdict["cost_multiply_adds"], 0);
  EXPECT_GT(verdict["memory_bytes"], 0);
  EXPECT_TRUE(verdict["estimated_seconds"].is_null()) << "nothing was computed yet";
  ASSERT_EQ(env_.Post("", image)->status(), 200);
  EXPECT_GT(json::parse(env_.Post("dry_run", image)->body())["estimated_seconds"], 0.0);
  EXPECT_EQ(Reason(*env_.Post("dry_run&width=1000000", image), 413), "LIMIT_EXCEEDED");
}

TEST_F(UpscaleCallTest, AnswersHeadWithAVerdictAndGetNot) {
  const auto head = env_.Call("HEAD", {.path = "/v1/upscale", .content_length = 100});
  head->Send(PngOf(16, 16));
  head->AwaitEnd();
  EXPECT_EQ(head->status(), 200);
  EXPECT_EQ(head->Field("Content-Type"), "application/json");
  const auto get = env_.Call("GET", {.path = "/v1/upscale"});
  EXPECT_EQ(get->status(), 405);
  EXPECT_EQ(get->Field("Allow"), "POST, HEAD");
}

TEST_F(UpscaleCallTest, GivesTheSourceWhereThatIsAskedFor) {
  const std::string broken = PngOf(50, 50).substr(0, 3000) + std::string(100'000, 'x');
  const auto client = env_.Post("on_error=original", broken);
  EXPECT_EQ(client->status(), 200);
  EXPECT_TRUE(client->body() == broken);
  EXPECT_TRUE(client->finished());
  EXPECT_EQ(client->Field("Content-Type"), "image/png");
  EXPECT_EQ(client->Field("Upscale-Error"), "INVALID_IMAGE");
  EXPECT_THAT(client->Field("Warning"), HasSubstr("199 upscaled \"the image is as it was sent"));
  EXPECT_EQ(env_.records().back().code, absl::StatusCode::kInvalidArgument);
  const auto text = env_.Post("on_error=original", "<script>");
  EXPECT_EQ(text->body(), "<script>");
  EXPECT_EQ(text->Field("Content-Type"), "application/octet-stream");
  EXPECT_EQ(text->Field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(Reason(*env_.Post("on_error=original&scale=99", PngOf(4, 4)), 400), "INVALID_OPTION");
  EXPECT_EQ(Reason(*env_.Post("on_error=original&model=best", PngOf(4, 4)), 404), "UNKNOWN_MODEL");
}

TEST_F(UpscaleCallTest, StopsWhenTheClientGoes) {
  const std::string image = PngOf(300, 300);
  const auto client = env_.Call("POST", {.path = "/v1/upscale", .content_length = image.size()});
  client->Stream(image.substr(0, image.size() / 2));
  test::Await([&] { return env_.admission().state().queue_cost != 0; });
  client->Leave();
  client->AwaitEnd();
  EXPECT_EQ(env_.records().back().code, absl::StatusCode::kCancelled);
}

TEST_F(UpscaleCallTest, CutsAnAnswerThatHasBegun) {
  const std::string image = PngOf(300, 600);
  const auto client = env_.Call("POST", {.path = "/v1/upscale", .content_length = image.size()});
  client->TakeAtMost(AnswerSink::kPieceBytes);
  client->Send(image);
  test::Await([&] { return client->begun(); });
  env_.registry().CancelAll(
      MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining, "end"));
  client->AwaitEnd();
  EXPECT_FALSE(client->finished());
  EXPECT_EQ(env_.records().back().reason, "DRAINING");
}

TEST_F(UpscaleCallTest, KeepsItsSlotUntilTheClientHasRoomForTheLastBytes) {
  const std::string image = PngOf(200, 150);
  const size_t bytes = env_.Post("", image)->body().size();
  const auto client = env_.Call("POST", {.path = "/v1/upscale", .content_length = image.size()});
  client->TakeAtMost(bytes - 1);
  client->Send(image);
  const size_t whole_pieces = (bytes - 1) / AnswerSink::kPieceBytes * AnswerSink::kPieceBytes;
  test::Await([&] { return client->body().size() >= whole_pieces; });
  client->Leave();
  client->AwaitEnd();
  EXPECT_FALSE(client->finished());
  EXPECT_EQ(env_.records().back().code, absl::StatusCode::kCancelled);
}

TEST_F(UpscaleCallTest, GivesUpAClientThatSendsNothing) {
  RestEnvironment env({}, {}, /*start_timeout=*/absl::Milliseconds(200));
  const auto client = env.Call("POST", {.path = "/v1/upscale", .content_length = 100});
  client->AwaitEnd();
  EXPECT_EQ(Reason(*client, 408), "STALLED");
  EXPECT_THAT(client->body(), HasSubstr("start-timeout"));
}

TEST_F(UpscaleCallTest, RefusesWhileDraining) {
  env_.admission().StartDraining();
  EXPECT_EQ(Reason(*env_.Post("", PngOf(4, 4)), 503), "DRAINING");
  EXPECT_EQ(env_.records().back().reason, "DRAINING");
}

TEST(UpscaleCallLimitsTest, HeedsThoseOfAddressAndFile) {
  RestEnvironment env({.max_source_bytes = 1000, .max_concurrent_requests = 2});
  const auto slow = env.Call("POST", {.path = "/v1/upscale", .content_length = 100});
  slow->Send("x", /*whole=*/false);
  EXPECT_EQ(env.admission().state().requests, 0) << "an upload that still comes takes no slot";
  {
    const Payer other{.address = "10.0.0.2"};
    const auto first = env.admission().AdmitCall(0, other), second = env.admission().AdmitCall();
    const auto refused = env.Call("POST", {.path = "/v1/upscale", .content_length = 100});
    refused->AwaitEnd();
    EXPECT_EQ(refused->status(), 429) << "before its body comes";
    EXPECT_EQ(refused->Field("Retry-After"), "1");
  }
  slow->Leave();
  slow->AwaitEnd();
  const auto told = env.Call("POST", {.path = "/v1/upscale", .content_length = 1001});
  told->AwaitEnd();
  EXPECT_EQ(told->status(), 413) << "before a byte is read";
  const auto counted = env.Call("POST", {.path = "/v1/upscale", .content_length = std::nullopt});
  counted->Send(PngOf(40, 40));
  counted->AwaitEnd();
  EXPECT_EQ(counted->status(), 413);
  EXPECT_THAT(counted->body(), HasSubstr("max-source-bytes"));
}

}  // namespace
}  // namespace upscaled::server
