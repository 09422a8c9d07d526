#include "client/http/http_client.h"

#include <new>
#include <stdexcept>

#include "absl/strings/match.h"
#include "client/error_details.h"
#include "client/http/event_stream.h"
#include "client/http/http_image_call.h"
#include "client/http/http_problem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_clock.h"
#include "tests/client/fake_http_server.h"

namespace upscaled::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kFull[] =
    R"({"status":429,"detail":"full","reason":"OVERLOADED","code":"RESOURCE_EXHAUSTED",)"
    R"("metadata":{"limit":"queue"},"retry_after_seconds":2.5})";
constexpr char kHeader[] =
    R"({"request_id":"id","source_width_px":3,"source_height_px":2,"tiles":"4"})";

std::string Success(const std::string& body) {
  return FakeAnswer(
      "200 OK",
      absl::StrCat("Upscale-Header: ", kHeader, "\r\nUpscale-Summary: {\"result_bytes\":\"",
                   body.size(), "\"}\r\n"),
      body);
}

TEST(HttpKeyTest, GoesAlongWithEveryRequest) {
  FakeClock clock;
  const FakeHttpServer server([](const FakeHttpRequest&) {
    return FakeAnswer("401 Unauthorized", "WWW-Authenticate: Bearer\r\n",
                      R"({"reason":"UNAUTHENTICATED","code":"UNAUTHENTICATED","detail":"no"})");
  });
  const auto client = HttpClient::Create(
      {.server = server.url(), .api_key = "a-key", .priority = "background"}, clock);
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status refused = (*client)->ListModels().status();
  EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
  EXPECT_EQ(DetailsOf(refused).reason, "UNAUTHENTICATED");
  MemorySource source("an image");
  MemorySink sink;
  ImageObserver nobody;
  EXPECT_TRUE(absl::IsUnauthenticated((*client)->UpscaleImage({}, source, sink, nobody).status()));
  ASSERT_THAT(server.requests(), SizeIs(Gt(1u)));
  for (const FakeHttpRequest& request : server.requests()) {
    EXPECT_THAT(request.header, HasSubstr("Authorization: Bearer a-key\r\n")) << request.target;
    const bool is_image = absl::StartsWith(request.target, "/v1/upscale");
    EXPECT_EQ(absl::StrContains(request.header, "upscale-priority: background\r\n"), is_image)
        << request.target;
  }
}

TEST(HttpProblemTest, KeepsWhatTheServerSays) {
  const absl::Status status = FromHttpAnswer(429, kFull, "3");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "full");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.origin, ErrorOrigin::kServer);
  EXPECT_EQ(details.reason, "OVERLOADED");
  EXPECT_THAT(details.metadata, ElementsAre(Pair("limit", "queue")));
  EXPECT_EQ(details.retry_delay, absl::Milliseconds(2500));
}

TEST(HttpProblemTest, MakesTheBestOfAProxysAnswer) {
  const absl::Status bad_gateway = FromHttpAnswer(502, "<html>no upstream", "");
  EXPECT_TRUE(absl::IsUnavailable(bad_gateway));
  EXPECT_EQ(DetailsOf(bad_gateway).origin, ErrorOrigin::kConnection);
  EXPECT_THAT(std::string(bad_gateway.message()),
              AllOf(HasSubstr("502"), HasSubstr("no upstream")));
  const absl::Status busy = FromHttpAnswer(429, "", "7");
  EXPECT_TRUE(IsRetryable(busy));
  EXPECT_EQ(DetailsOf(busy).retry_delay, absl::Seconds(7));
  EXPECT_FALSE(IsRetryable(FromHttpAnswer(429, "", "Wed, 21 Oct 2026 07:28:00 GMT")));
  for (const char* body : {"[]", "{}", "{\"reason\":7}", "{\"reason\"", "\xff"}) {
    EXPECT_EQ(FromHttpAnswer(404, body, "").code(), absl::StatusCode::kUnimplemented) << body;
    EXPECT_EQ(FromProblem(0, body, "").code(), absl::StatusCode::kInternal) << body;
  }
}

TEST(EventStreamTest, CutsEventsHoweverTheyCome) {
  const std::string text =
      ": comment\r\nevent: tiles\r\ndata: {\"a\":1}\r\n\r\n:\n\nid: 7\ndata:x\ndata: y\n\nevent: "
      "e\n\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    std::vector<std::pair<std::string, std::string>> events;
    EventStream stream(
        [&](absl::string_view name, absl::string_view data) { events.emplace_back(name, data); });
    for (size_t at = 0; at < text.size(); at += piece) stream.Feed(text.substr(at, piece));
    EXPECT_THAT(events, ElementsAre(Pair("tiles", "{\"a\":1}"), Pair("", "x\ny"))) << piece;
  }
}

TEST(EventStreamTest, BoundsItsMemory) {
  size_t bytes = 0;
  EventStream stream([&](absl::string_view, absl::string_view data) { bytes = data.size(); });
  stream.Feed("data: ");
  for (int i = 0; i < 1000; ++i) stream.Feed(std::string(1000, 'x'));
  stream.Feed("\n\n");
  EXPECT_GT(bytes, 1000u);
  EXPECT_LE(bytes, EventStream::kMaxLineBytes);
}

TEST(HttpParametersTest, NameWhatWasAskedForAndNothingElse) {
  EXPECT_THAT(ToParameters({}), ElementsAre());
  v1::UpscaleOptions options;
  options.set_model("a b&c");
  options.set_noise_level(0);
  options.set_scale(4.0 / 3);
  options.set_tta(true);
  options.set_format(v1::IMAGE_FORMAT_WEBP);
  options.set_quality(81);
  options.set_png_compression(0);
  options.set_keep_16_bit(true);
  options.set_depth(v1::DEPTH_16);
  options.set_alpha(v1::ALPHA_METHOD_NETWORK);
  options.set_alpha_colour(v1::ALPHA_COLOUR_BLEED);
  options.set_keep_colours(false);
  options.set_metadata(v1::METADATA_POLICY_STRIP_LOCATION);
  options.set_on_damage(v1::DAMAGE_POLICY_FILL);
  options.set_frame(3);
  options.set_precision(v1::PRECISION_FAST);
  options.set_tile_px(64);
  options.mutable_prefilter()->set_sigma_space(1.5);
  options.mutable_prefilter()->set_sigma_range(20);
  EXPECT_THAT(
      ToParameters(options),
      ElementsAre(Pair("model", "a b&c"), Pair("noise_level", "0"),
                  Pair("scale", "1.3333333333333333"), Pair("tta", "1"), Pair("format", "webp"),
                  Pair("quality", "81"), Pair("png_compression", "0"), Pair("keep_16_bit", "1"),
                  Pair("depth", "16"), Pair("alpha", "network"), Pair("alpha_colour", "bleed"),
                  Pair("keep_colours", "0"), Pair("metadata", "strip-location"),
                  Pair("on_damage", "fill"), Pair("frame", "3"), Pair("precision", "fast"),
                  Pair("tile_px", "64"), Pair("sigma_space", "1.5"), Pair("sigma_range", "20")));
  options.clear_target();
  options.mutable_size()->set_height_px(7);
  EXPECT_THAT(ToParameters(options), testing::Contains(Pair("height_px", "7")));
  options.Clear();
  options.set_auto_noise(true);
  options.mutable_size()->set_short_side_px(5);
  options.mutable_size()->set_long_side_px(6);
  options.mutable_size()->set_fit(v1::FIT_STRETCH);
  options.set_max_pixels(5'000'000'000);
  options.set_no_enlarge(true);
  EXPECT_THAT(ToParameters(options),
              ElementsAre(Pair("noise_level", "auto"), Pair("short_side_px", "5"),
                          Pair("long_side_px", "6"), Pair("fit", "stretch"),
                          Pair("max_pixels", "5000000000"), Pair("no_enlarge", "1")));
}

TEST(HttpTargetTest, RefusesWhatIsNoServer) {
  for (const char* url : {"", "host:80", "ftp://host", "http://", "http://host:0x", "http://u@host",
                          "http://host/?a", "http://host/#a"}) {
    EXPECT_EQ(HttpTarget::Create(url, std::nullopt).status().code(),
              absl::StatusCode::kInvalidArgument)
        << url;
  }
  EXPECT_EQ(HttpTarget::Create("http://host", TlsOptions()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HttpTarget::Create("https://host", TlsOptions{.ca_file = "/no/such"}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(HttpTarget::Create("https://host/prefix/", std::nullopt)->server(),
            "https://host/prefix");
}

class HttpClientTest : public ::testing::Test {
 protected:
  absl::StatusOr<ImageResult> Upscale(const FakeHttpServer& server, RetryPolicy retry = {}) {
    auto client = HttpClient::Create({.server = server.url() + "/prefix", .retry = retry}, clock_);
    if (!client.ok()) return client.status();
    MemorySource source(kImage);
    ImageRequest request;
    request.options.set_model("a b&c");
    ImageObserver nobody;
    return (*client)->UpscaleImage(request, source, sink_, nobody);
  }

  static constexpr char kImage[] = "the image";
  FakeClock clock_;
  MemorySink sink_;
};

TEST_F(HttpClientTest, SendsTheImageAndTakesTheResult) {
  const FakeHttpServer server([](const FakeHttpRequest&) { return Success("the result"); });
  const auto result = Upscale(server);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(sink_.bytes(), "the result");
  EXPECT_EQ(result->header.source_width_px(), 3);
  EXPECT_EQ(result->summary.result_bytes(), 10);
  EXPECT_EQ(result->source_bytes, 9);
  for (const FakeHttpRequest& request : server.requests()) {
    if (request.method != "POST") continue;
    EXPECT_THAT(request.target,
                testing::StartsWith("/prefix/v1/upscale?model=a+b%26c&request_id="));
    EXPECT_EQ(request.body, kImage);
  }
}

TEST_F(HttpClientTest, NamesAnImageByItsUrl) {
  const FakeHttpServer server([](const FakeHttpRequest&) { return Success("the result"); });
  const auto client = HttpClient::Create({.server = server.url()}, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  MemorySource nothing("");
  ImageObserver nobody;
  const auto result = (*client)->UpscaleImage({.source_url = "https://host/a b.png?c=d&e=+#f"},
                                              nothing, sink_, nobody);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(sink_.bytes(), "the result");
  for (const FakeHttpRequest& request : server.requests()) {
    if (request.method != "POST") continue;
    EXPECT_THAT(request.target,
                HasSubstr("&url=https%3a%2f%2fhost%2fa+b.png%3fc%3dd%26e%3d%2b%23f"));
    EXPECT_EQ(request.body, "0\r\n\r\n") << "a body of no bytes";
  }
}

TEST_F(HttpClientTest, TellsTheServerHowMuchTimeItHas) {
  const FakeHttpServer server([](const FakeHttpRequest&) { return Success("x"); });
  for (const absl::Duration timeout : {absl::Minutes(5), absl::InfiniteDuration()}) {
    const auto client = HttpClient::Create({.server = server.url(), .timeout = timeout}, clock_);
    ASSERT_TRUE(client.ok()) << client.status();
    MemorySource source(kImage);
    ImageObserver nobody;
    EXPECT_TRUE((*client)->UpscaleImage({}, source, sink_, nobody).ok());
  }
  std::vector<double> told_s;
  for (const FakeHttpRequest& request : server.requests()) {
    if (request.method != "POST") continue;
    const size_t found = request.target.find("&timeout=");
    const bool tells = found != std::string::npos;
    told_s.push_back(tells ? std::stod(request.target.substr(found + 9)) : 0);
  }
  EXPECT_THAT(told_s, ElementsAre(AllOf(Gt(0), testing::Le(300)), 0));
}

TEST_F(HttpClientTest, ThrowsNothingThroughLibcurl) {
  class ThrowingSink final : public ImageSink {
    absl::Status Write(absl::string_view) override { throw std::bad_alloc(); }
    absl::Status Restart() override { return absl::FailedPreconditionError("written to"); }
  };
  class ThrowingObserver final : public ImageObserver {
    void OnHeader(const v1::UpscaleImageHeader&) override { throw std::runtime_error("header"); }
  };
  class SendingObserver final : public ImageObserver {
    void OnSent(int64_t) override { throw std::runtime_error("sent"); }
  };
  const FakeHttpServer server([](const FakeHttpRequest&) { return Success("the result"); });
  const auto client = HttpClient::Create({.server = server.url()}, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  ThrowingSink throwing_sink;
  ImageObserver nobody;
  ThrowingObserver of_header;
  SendingObserver of_sending;
  const struct {
    ImageSink& sink;
    ImageObserver& observer;
    const char* message;
  } kCases[] = {{throwing_sink, nobody, "bad_alloc"},
                {sink_, of_header, "header"},
                {sink_, of_sending, "sent"}};
  for (const auto& [sink, observer, message] : kCases) {
    MemorySource source(kImage);
    const absl::Status status = (*client)->UpscaleImage({}, source, sink, observer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST_F(HttpClientTest, ComesBackWhenAFullServerSays) {
  clock_.random = 1;
  const FakeHttpServer server([](const FakeHttpRequest& request) {
    if (request.method == "POST" && request.number > 2) return Success("x");
    return FakeAnswer("429 Too Many Requests", "Retry-After: 3\r\n", kFull);
  });
  const auto result = Upscale(server);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->attempts, 3);
  EXPECT_THAT(clock_.sleeps(),
              ElementsAre(Gt(absl::Milliseconds(2500)), Gt(absl::Milliseconds(2500))));
}

TEST_F(HttpClientTest, SaysWhyAResultBrokeOff) {
  const FakeHttpServer server([](const FakeHttpRequest& request) {
    if (request.method == "GET") {
      return FakeAnswer("200 OK", "Content-Type: text/event-stream\r\n",
                        "event: failed\ndata: {\"detail\":\"the device broke\",\"reason\":"
                        "\"DEVICE_FAILURE\",\"code\":\"INTERNAL\"}\n\n");
    }
    return absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: 100\r\nUpscale-Header: ", kHeader,
                        "\r\n\r\nhalf");
  });
  const absl::Status status = Upscale(server).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "the device broke");
  EXPECT_EQ(DetailsOf(status).reason, "DEVICE_FAILURE");
}

TEST_F(HttpClientTest, TakesNoHalfResultForAWholeOne) {
  const FakeHttpServer broken([](const FakeHttpRequest& request) -> std::string {
    if (request.method == "GET") return "";
    return absl::StrCat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nUpscale-Header: ",
                        kHeader, "\r\n\r\n4\r\nhalf\r\n");
  });
  const absl::Status broke_off = Upscale(broken, {.max_retries = 0}).status();
  EXPECT_TRUE(absl::IsUnavailable(broke_off)) << broke_off;
  EXPECT_EQ(DetailsOf(broke_off).origin, ErrorOrigin::kConnection);

  const FakeHttpServer silent([](const FakeHttpRequest& request) -> std::string {
    if (request.method == "GET") return "";
    return absl::StrCat("HTTP/1.0 200 OK\r\nUpscale-Header: ", kHeader, "\r\n\r\nwhole?");
  });
  EXPECT_EQ(Upscale(silent, {.max_retries = 0}).status().code(), absl::StatusCode::kDataLoss);
  const FakeHttpServer stranger(
      [](const FakeHttpRequest&) { return FakeAnswer("200 OK", "", "hi"); });
  EXPECT_EQ(Upscale(stranger).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(HttpClientTest, NeedsNoTrailersWhichProxiesDrop) {
  const FakeHttpServer proxy([](const FakeHttpRequest&) {
    return FakeAnswer("200 OK", absl::StrCat("Upscale-Header: ", kHeader, "\r\n"), "whole");
  });
  const auto result = Upscale(proxy);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.result_bytes(), 5);
}

TEST_F(HttpClientTest, StopsWhenTold) {
  std::stop_source stop;
  const FakeHttpServer server([&](const FakeHttpRequest& request) -> std::string {
    if (request.method == "POST") stop.request_stop();
    return "";
  });
  const auto client = HttpClient::Create({.server = server.url()}, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  MemorySource source(kImage);
  ImageObserver nobody;
  const absl::Status status =
      (*client)->UpscaleImage({}, source, sink_, nobody, stop.get_token()).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(DetailsOf(status).origin, ErrorOrigin::kLocal);
}

TEST_F(HttpClientTest, CannotReachWhoIsNotThere) {
  const auto client = HttpClient::Create({.server = "http://127.0.0.1:1"}, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status = (*client)->ListModels().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(DetailsOf(status).origin, ErrorOrigin::kConnection);
  EXPECT_THAT(clock_.sleeps(), SizeIs(RetryPolicy().max_retries));
}

}  // namespace
}  // namespace upscaled::client
