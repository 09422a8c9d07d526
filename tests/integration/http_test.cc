// Whole servers over HTTP: the same images, the same limits and the same ends as over gRPC.
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "nlohmann/json.hpp"
#include "proto/json/message_json.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kPath[] = "/v1/upscale";

std::string EncodedNoise(int width_px, int height_px, const EncodeOptions& options = {}) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({width_px, height_px, 3, SampleType::kU8}, random);
  return *test::Encode(image.view(), options);
}

std::string ProblemReason(const HttpAnswer& answer) {
  EXPECT_EQ(answer.fields.count("Content-Type") == 0 ? "" : answer.fields.at("Content-Type"),
            "application/problem+json")
      << answer.body;
  return json::parse(answer.body, nullptr, false).value("reason", "");
}

TEST(HttpTest, GivesTheBytesOfGrpc) {
  TestServer server;
  const std::string image = EncodedNoise(150, 90);
  pb::UpscaleOptions options;
  options.set_scale(2.5);
  options.set_noise_level(2);
  options.set_format(pb::IMAGE_FORMAT_WEBP);
  const Outcome outcome = UpscaleImage(server.stub(), options, image);
  ASSERT_TRUE(outcome.status.ok());
  const HttpAnswer answer = Request(server.server().http_port(), "POST",
                                    "/v1/upscale?scale=2.5&noise=2&format=webp", image);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.body == outcome.image);
  const HttpFields& last = answer.trailers.empty() ? answer.fields : answer.trailers;
  EXPECT_EQ(json::parse(last.at("Upscale-Summary"))["tiles"], outcome.summary->tiles());
  server.AwaitIdle();
  EXPECT_THAT(server.log(), HasSubstr("transport=http"));
  EXPECT_THAT(server.log(), HasSubstr("transport=grpc"));
}

TEST(HttpTest, TellsWhatGrpcTells) {
  TestServer server;
  const int port = server.server().http_port();
  grpc::ClientContext context;
  pb::ListModelsResponse models, told;
  ASSERT_TRUE(server.stub().ListModels(&context, {}, &models).ok());
  ASSERT_TRUE(ReadMessageJson(Request(port, "GET", "/v1/models").body, told));
  EXPECT_EQ(told.SerializeAsString(), models.SerializeAsString());
  EXPECT_EQ(Request(port, "GET", "/v1/models/fast-2x").status, 200);
  EXPECT_EQ(Request(port, "GET", "/v1/models/best").status, 404);
  EXPECT_EQ(Request(port, "GET", "/v1/info").status, 200);
  EXPECT_EQ(Request(port, "GET", "/v2/health/ready").status, 200);
  EXPECT_EQ(Request(port, "GET", "/").fields.at("Content-Type"), "text/html; charset=utf-8");
}

TEST(HttpTest, AnswersHeadAndGetAsItSays) {
  TestServer server;
  const int port = server.server().http_port();
  const HttpAnswer head = Request(port, "HEAD", kPath, EncodedNoise(20, 10));
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(Request(port, "GET", kPath).status, 405);
  EXPECT_EQ(Request(port, "PUT", kPath).status, 405);
}

// Shares go by a trusted proxy's addresses, and by the connection's for all others.
TEST(HttpTest, CountsClientsBehindATrustedProxyApart) {
  const std::string image = EncodedNoise(64, 64);
  for (const bool trusted : {true, false}) {
    ServerConfig config = TestConfig();
    config.limits.max_concurrent_requests = 8;
    config.limits.max_requests_per_address = 1;
    if (trusted) config.trusted_proxies = {"127.0.0.1"};
    TestServer server(config);
    const int port = server.server().http_port();
    const auto post = [&](const std::string& from) {
      return Request(port, "POST", kPath, image, {{"X-Forwarded-For", from}}).status;
    };
    const auto call = [&](const std::string& from) {
      grpc::ClientContext context;
      context.AddMetadata("x-forwarded-for", from);
      pb::UpscaleRequest request;
      request.set_image(image);
      pb::UpscaleResponse response;
      return server.stub().Upscale(&context, request, &response).error_code();
    };
    server.gate().Close();
    std::thread first([&] { EXPECT_EQ(post("203.0.113.1"), 200); });
    server.gate().AwaitWaiting(1);
    EXPECT_EQ(post("203.0.113.1"), 429);
    EXPECT_EQ(call("203.0.113.1"), grpc::StatusCode::RESOURCE_EXHAUSTED);
    std::vector<std::thread> others;
    if (!trusted) {
      EXPECT_EQ(post("203.0.113.2"), 429) << "its word counts for nothing";
      EXPECT_EQ(call("203.0.113.3"), grpc::StatusCode::RESOURCE_EXHAUSTED);
    } else {
      others.emplace_back([&] { EXPECT_EQ(post("198.51.100.1, 203.0.113.2"), 200); });
      others.emplace_back([&] { EXPECT_EQ(call("203.0.113.3"), grpc::StatusCode::OK); });
      test::Await([&] { return server.server().result_counts().shared == 2; });
    }
    server.gate().Open();
    first.join();
    for (std::thread& other : others) other.join();
    server.AwaitIdle();
    EXPECT_EQ(server.log().find("203.0.113.3") != std::string::npos, trusted);
  }
}

// A path takes the methods in Allow, and no other.
TEST(HttpTest, AllowAgreesWithWhatIsRefused) {
  ServerConfig config = TestConfig();
  config.cors_origins = {"https://a.example"};  // which OPTIONS is for
  for (const bool cors : {false, true}) {
    TestServer server(cors ? config : TestConfig());
    const int port = server.server().http_port();
    for (const char* path : {kPath, "/v1/models", "/v1/models/fast-2x", "/v1/info", "/v1/results/x",
                             "/v1/jobs/x", "/v1/jobs/x/result", "/v2/health/live", "/"}) {
      std::map<std::string, int> statuses;
      std::set<std::string> allowed;
      for (const char* method : {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
        const HttpAnswer answer = Request(port, method, path);
        statuses[method] = answer.status;
        if (answer.status != 405) continue;
        const std::set<std::string> named = absl::StrSplit(answer.fields.at("Allow"), ", ");
        EXPECT_TRUE(allowed.empty() || allowed == named) << path;
        allowed = named;
      }
      EXPECT_FALSE(allowed.empty()) << path;
      for (const auto& [method, status] : statuses) {
        EXPECT_EQ(status != 405 && status != 501, allowed.contains(method))
            << method << " " << path << ": " << status;
      }
    }
  }
}

// Chromium sends all before it reads anything: neither side may wait for the other.
TEST(HttpTest, TakesALargeUploadWhoseAnswerNobodyReadsMeanwhile) {
  TestServer server;
  const std::string image = EncodedNoise(3000, 3000, {.compression = 0});
  ASSERT_GT(image.size(), 27'000'000u);
  const HttpAnswer answer =
      Request(server.server().http_port(), "POST", "/v1/upscale?scale=1&png_compression=0", image);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.whole);
  const auto result = test::Decode(answer.body);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(test::SameImages(result->image.view(), test::Decode(image)->image.view()));
}

TEST(HttpTest, CutsAnAnswerThatFailsAfterItsFirstByte) {
  TestServer server;
  std::string image = EncodedNoise(600, 2000, {.compression = 0});
  // Further down than rows are decoded ahead of the tiles: the answer has begun.
  const size_t broken = image.size() * 9 / 10;
  for (size_t i = broken; i < broken + 1000; ++i) image[i] ^= 0x55;
  const HttpAnswer answer = Request(server.server().http_port(), "POST",
                                    "/v1/upscale?scale=1&png_compression=0&tile_px=64", image);
  EXPECT_EQ(answer.status, 200);
  // How much of it depends on how soon this side reads: a reset drops bytes in flight.
  EXPECT_FALSE(answer.body.empty());
  EXPECT_FALSE(answer.whole);
  server.AwaitIdle();
  EXPECT_THAT(server.log(), HasSubstr("reason=INVALID_IMAGE"));
}

TEST(HttpTest, StopsTheWorkOfAClientThatGoes) {
  TestServer server;
  const std::string image = EncodedNoise(300, 600);
  server.gate().Close();
  {
    const TestSocket client = TestSocket::Connect(server.server().http_port());
    client.Write(RequestHeader("POST", "/v1/upscale?tile_px=64", image.size()));
    client.Write(image);
    server.gate().AwaitWaiting(2);  // both streams: what is queued can only be dropped
    test::Await([&] { return server.server().tile_load().queued_tiles != 0; });
  }
  test::Await([&] { return server.server().tile_load().queued_tiles == 0; });
  const int64_t passed = server.gate().tiles_passed();
  const int64_t running = server.server().tile_load().running_tiles;
  server.gate().Open();
  server.AwaitIdle();
  EXPECT_EQ(server.gate().tiles_passed(), passed + running);
  EXPECT_THAT(server.log(), HasSubstr("code=CANCELLED"));
}

TEST(HttpTest, SharesSlotsWithGrpc) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 1;
  TestServer server(config);
  const std::string image = EncodedNoise(64, 64);
  const int port = server.server().http_port();
  server.gate().Close();
  std::thread first([&] {
    const HttpAnswer answer = Request(port, "POST", kPath, image);
    EXPECT_TRUE(answer.status == 200 && answer.whole);
  });
  server.gate().AwaitWaiting(1);
  const HttpAnswer refused = Request(port, "POST", kPath, image);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(ProblemReason(refused), "OVERLOADED");
  EXPECT_GE(std::stoi(refused.fields.at("Retry-After")), 1);
  EXPECT_EQ(ReasonOf(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).status),
            "OVERLOADED");
  server.gate().Open();
  first.join();
}

TEST(HttpTest, FinishesCallsWhileItDrainsAndTakesNoMore) {
  TestServer server;
  const std::string image = EncodedNoise(200, 150);
  const int port = server.server().http_port();
  server.gate().Close();
  HttpAnswer first;
  std::thread client([&] { first = Request(port, "POST", kPath, image); });
  server.gate().AwaitWaiting(1);
  std::thread drain([&] { EXPECT_TRUE(server.server().Drain(absl::InfiniteDuration())); });
  HttpAnswer late;
  do {
    late = Request(port, "POST", "/v1/upscale?dry_run=1", image);
  } while (late.status == 200);
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(ProblemReason(late), "DRAINING");
  EXPECT_TRUE(late.fields.contains("Retry-After"));
  server.gate().Open();
  client.join();
  drain.join();
  EXPECT_EQ(first.status, 200);
  EXPECT_TRUE(first.whole);
}

TEST(HttpTest, CancelsWhatADrainDoesNotWaitFor) {
  TestServer server;
  const std::string image = EncodedNoise(200, 150);
  const int port = server.server().http_port();
  server.gate().Close();
  HttpAnswer answer;
  std::thread client([&] { answer = Request(port, "POST", kPath, image); });
  server.gate().AwaitWaiting(1);
  EXPECT_FALSE(server.server().FinishCalls(absl::ZeroDuration()));
  server.gate().Open();
  client.join();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(ProblemReason(answer), "DRAINING");
}

TEST(HttpTest, TellsProgressToWhoeverAsksBeforeTheRequest) {
  TestServer server;
  const int port = server.server().http_port();
  std::string events;
  const TestSocket listener = TestSocket::Connect(port);
  listener.Write(RequestHeader("GET", "/v1/progress/mine", 0));
  std::thread reader([&] { events = ParseAnswer(ReadAll(listener)).body; });
  EXPECT_EQ(Request(port, "POST", "/v1/upscale?request_id=mine&tile_px=64", EncodedNoise(300, 300))
                .status,
            200);
  reader.join();
  EXPECT_THAT(events, HasSubstr("event: queued\n"));
  EXPECT_THAT(events, HasSubstr("event: done\ndata: {\"tiles_done\":"));
}

TEST(HttpTest, NamesResultsAndKnowsThemAgain) {
  ServerConfig config = TestConfig();
  config.result_cache = testing::TempDir() + "http_results";
  TestServer server(config);
  const int port = server.server().http_port();
  const std::string image = EncodedNoise(200, 100);
  const HttpAnswer first = Request(port, "POST", kPath, image);
  ASSERT_EQ(first.status, 200);
  ASSERT_TRUE(first.fields.contains("ETag"));
  const std::string tag = first.fields.at("ETag");
  const HttpAnswer again = Request(port, "POST", kPath, image);
  EXPECT_EQ(again.fields.at("ETag"), tag);
  EXPECT_TRUE(again.whole && again.body == first.body);
  const HttpAnswer known = Request(port, "POST", kPath, image, {{"If-None-Match", tag}});
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.body, "");
  EXPECT_EQ(known.fields.at("ETag"), tag);
  EXPECT_NE(Request(port, "POST", "/v1/upscale?scale=3", image).fields.at("ETag"), tag);

  const std::string path = "/v1/results/" + tag.substr(1, tag.size() - 2);
  const HttpAnswer stored = Request(port, "GET", path);
  EXPECT_TRUE(stored.status == 200 && stored.whole && stored.body == first.body);
  EXPECT_EQ(stored.fields.at("Content-Type"), "image/png");
  EXPECT_EQ(stored.fields.at("Content-Length"), std::to_string(first.body.size()));
  const HttpAnswer head = Request(port, "HEAD", path);
  EXPECT_EQ(head.fields.at("Content-Length"), std::to_string(first.body.size()));
  EXPECT_EQ(head.body, "");
  const HttpAnswer rest = Request(port, "GET", path, "", {{"Range", "bytes=9-"}});
  EXPECT_TRUE(rest.whole && rest.body == first.body.substr(9));
  const HttpAnswer part = Request(port, "GET", path, "", {{"Range", "bytes=10-19"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, first.body.substr(10, 10));
  EXPECT_EQ(part.fields.at("Content-Range"), "bytes 10-19/" + std::to_string(first.body.size()));
  EXPECT_EQ(Request(port, "GET", path, "", {{"Range", "bytes=99999999-"}}).status, 416);
  EXPECT_EQ(Request(port, "GET", path, "", {{"Range", "bytes=0-1"}, {"If-Range", "\"x\""}}).status,
            200);
  EXPECT_EQ(Request(port, "GET", path, "", {{"If-None-Match", tag}}).status, 304);
  EXPECT_EQ(Request(port, "GET", "/v1/results/none").status, 404);
}

TEST(HttpTest, AllowsPagesOfListedOriginsAlone) {
  ServerConfig config = TestConfig();
  config.web = false;
  config.cors_origins = {"https://a.example"};
  TestServer server(config);
  const int port = server.server().http_port();
  const HttpAnswer preflight =
      Request(port, "OPTIONS", kPath, "", {{"Origin", "https://a.example"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.fields.at("Access-Control-Allow-Origin"), "https://a.example");
  const HttpAnswer answer =
      Request(port, "POST", kPath, EncodedNoise(8, 8), {{"Origin", "https://a.example"}});
  EXPECT_EQ(answer.fields.at("Access-Control-Allow-Origin"), "https://a.example");
  const HttpAnswer other = Request(port, "POST", kPath, "x", {{"Origin", "https://b.example"}});
  EXPECT_FALSE(other.fields.contains("Access-Control-Allow-Origin"));
  EXPECT_EQ(Request(port, "GET", "/docs").status, 404);
}

// So pages of other origins can read their fault.
TEST(HttpTest, TellsWhatThePortRefusesAsTheCallsTellErrors) {
  ServerConfig config = TestConfig();
  config.cors_origins = {"https://a.example"};
  TestServer server(config);
  const int port = server.server().http_port();
  const HttpFields origin = {{"Origin", "https://a.example"}};
  const auto with = [&](HttpFields fields) {
    fields.insert(origin.begin(), origin.end());
    return fields;
  };
  const std::pair<HttpAnswer, int> kAnswers[] = {
      {Request(port, "GET", "/v1/upscal", "", origin), 404},
      {Request(port, "GET", kPath, "", origin), 405},
      {Request(port, "PUT", kPath, "", origin), 405},
      {Request(port, "GET", "/v1/info", "a body", origin), 413},
      {Request(port, "GET", "/v1%2finfo", "", origin), 400},
      {Request(port, "GET", "/v1/info", "", with({{"Host", "another"}})), 400},
      {Request(port, "GET", "/v1/info", "", with({{"X", std::string(17'000, 'x')}})), 431},
      {Request(port, "BREW", "/v1/info", "", origin), 501}};
  for (const auto& [answer, status] : kAnswers) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(ProblemReason(answer),
              status == 413 || status == 431 ? "LIMIT_EXCEEDED" : "UNSPECIFIED");
    const json problem = json::parse(answer.body, nullptr, false);
    EXPECT_EQ(problem.value("status", 0), status);
    EXPECT_NE(problem.value("detail", ""), "");
    ASSERT_TRUE(answer.fields.contains("Access-Control-Allow-Origin")) << status;
    EXPECT_EQ(answer.fields.at("Access-Control-Allow-Origin"), "https://a.example");
    EXPECT_EQ(answer.fields.contains("Allow"), status == 405);
  }
  EXPECT_EQ(Request(port, "HEAD", "/v1/upscal", "", origin).body, "");
}

}  // namespace
}  // namespace upscaled::server
