// The effect of a tenant's limits in the key file on its calls over both interfaces, and no others.
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/identity/api_key.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using client::WriteText;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// How a call ended, over either interface.
struct Ending {
  std::string code;  // "OK", ...
  std::string reason, message, limit, tenant;
  double retry_s = 0;
};

class TenantsTest : public ::testing::Test {
 protected:
  TenantsTest() {
    for (const char* name : {"shop", "shop-2", "other"}) keys_[name] = *NewApiKey();
  }

  // "shop" has two keys and these limits, "other" has none.
  void Write(const json& limits) {
    json entries = json::array();
    for (const auto& [name, key] : keys_) {
      entries.push_back({{"name", name},
                         {"tenant", name.substr(0, name.find('-'))},
                         {"roles", {"upscale"}},
                         {"sha256", FormatKeyHash(*HashApiKey(key))}});
    }
    const json file = {{"keys", entries}, {"tenants", {{"shop", limits}}}};
    WriteText(folder_ / "keys.json", file.dump());
  }
  ServerConfig Config(const json& limits) {
    Write(limits);
    ServerConfig config = TestConfig();
    config.auth_keys = folder_ / "keys.json";
    return config;
  }

  // Images without two equal ones: each is computed.
  std::string NewImage(const ImageSpec& spec = {40, 30, 3, SampleType::kU8}) {
    return *test::Encode(test::RandomImage(spec, random_).view(), {});
  }
  Ending CallGrpc(TestServer& server, const std::string& key, const std::string& image,
                  int tile_px = 0, const std::string& priority = "") {
    pb::UpscaleOptions options;
    options.set_tile_px(tile_px);
    grpc::ClientContext context;
    context.AddMetadata("x-api-key", keys_.at(key));
    if (!priority.empty()) context.AddMetadata("upscale-priority", priority);
    const auto stream = server.stub().UpscaleImage(&context);
    if (stream->Write(StartMessage(options)) && stream->Write(ChunkMessage(image))) {
      stream->WritesDone();
    }
    Outcome outcome;
    ReadToEnd(context, *stream, outcome);
    return EndingOf(outcome.status);
  }
  static Ending EndingOf(const grpc::Status& status) {
    Ending ending{
        .code = absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code())),
        .reason = ReasonOf(status),
        .message = status.error_message()};
    if (const auto info = ErrorInfoOf(status)) {
      const auto& metadata = info->metadata();
      if (metadata.contains("limit")) ending.limit = metadata.at("limit");
      if (metadata.contains("tenant")) ending.tenant = metadata.at("tenant");
    }
    ending.retry_s = absl::ToDoubleSeconds(RetryDelayOf(status).value_or(absl::ZeroDuration()));
    return ending;
  }
  Ending CallHttp(TestServer& server, const std::string& key, const std::string& image) {
    const HttpAnswer answer = Request(server.server().http_port(), "POST", "/v1/upscale", image,
                                      {{"X-API-Key", keys_.at(key)}});
    if (answer.status == 200) return {.code = "OK"};
    const json problem = json::parse(answer.body);
    const json metadata = problem.value("metadata", json::object());
    if (problem["code"] == "RESOURCE_EXHAUSTED") {
      EXPECT_EQ(answer.status, 429);
      EXPECT_GE(std::stod(answer.fields.at("Retry-After")), problem["retry_after_seconds"]);
    } else {
      EXPECT_EQ(answer.status, 504);
    }
    return {.code = problem["code"],
            .reason = problem["reason"],
            .message = problem["detail"],
            .limit = metadata.value("limit", ""),
            .tenant = metadata.value("tenant", ""),
            .retry_s = problem.value("retry_after_seconds", 0.0)};
  }
  std::vector<Ending> CallBoth(TestServer& server, const std::string& key) {
    return {CallGrpc(server, key, NewImage()), CallHttp(server, key, NewImage())};
  }

  // Checks that the tenant's second key is refused over both interfaces, and the other tenant's is
  // not.
  void ExpectRefusals(TestServer& server, const std::string& limit, const std::string& message,
                      double min_retry_s, double max_retry_s) {
    for (const Ending& ending : CallBoth(server, "shop-2")) {
      EXPECT_EQ(ending.code, "RESOURCE_EXHAUSTED");
      EXPECT_EQ(ending.reason, "OVERLOADED");
      EXPECT_EQ(ending.limit, limit);
      EXPECT_EQ(ending.tenant, "shop");
      EXPECT_THAT(ending.message, HasSubstr(message));
      EXPECT_GE(ending.retry_s, min_retry_s) << ending.message;
      EXPECT_LE(ending.retry_s, max_retry_s) << ending.message;
    }
    const std::string metrics = Request(server.server().admin_port(), "GET", "/metrics").body;
    EXPECT_THAT(metrics, HasSubstr(absl::StrCat("upscaled_tenant_refused_total{limit=\"", limit,
                                                "\",tenant=\"shop\"} 2")));
    EXPECT_THAT(metrics, HasSubstr(absl::StrCat("upscaled_refused_total{limit=\"", limit, "\"}")));
  }
  static void ExpectOk(const std::vector<Ending>& endings) {
    for (const Ending& ending : endings) EXPECT_EQ(ending.code, "OK") << ending.message;
  }

  std::map<std::string, std::string> keys_;
  std::mt19937 random_ = test::FreshRandom();
  TempFolder folder_;
};

TEST_F(TenantsTest, CallsAtATime) {
  TestServer server(Config({{"calls", 1}}));
  server.gate().Close();
  auto first = std::async(std::launch::async,
                          [&, image = NewImage()] { return CallGrpc(server, "shop", image); });
  server.gate().AwaitWaiting(1);
  ExpectRefusals(server, "tenant.calls", "has 1 calls running", 1, 30);
  server.gate().Open();
  ExpectOk({first.get()});
  ExpectOk(CallBoth(server, "other"));
  ExpectOk(CallBoth(server, "shop"));
  const std::string metrics = Request(server.server().admin_port(), "GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("upscaled_tenant_calls_total{code=\"OK\",tenant=\"shop\"} 3"));
  EXPECT_EQ(metrics.find("tenant=\"other\""), std::string::npos) << "it has no limits";
}

TEST_F(TenantsTest, QueuedWork) {
  TestServer server(Config({{"queue_pixels", 1200}}));
  server.gate().Close();
  auto first = std::async(std::launch::async,
                          [&, image = NewImage()] { return CallHttp(server, "shop", image); });
  server.gate().AwaitWaiting(1);
  ExpectRefusals(server, "tenant.queue_pixels", "pixels' work queued", 0.001, 30);
  EXPECT_THAT(CallGrpc(server, "shop", NewImage()).message, ContainsRegex("would add [0-9]{4} "))
      << "with the networks' work, so that the delay is until all of it fits";
  auto other = std::async(std::launch::async,
                          [&, image = NewImage()] { return CallGrpc(server, "other", image); });
  server.gate().Open();
  ExpectOk({first.get(), other.get()});
  ExpectOk(CallBoth(server, "shop"));
}

TEST_F(TenantsTest, WorkASecondAndChangedLimits) {
  TestServer server(Config({{"pixels_per_second", 10}}));
  const std::vector<Ending> first = {CallGrpc(server, "shop", NewImage())};
  ExpectOk(first);  // of 1200 pixels and their halo: it goes into debt
  ExpectRefusals(server, "tenant.pixels_per_second", "more pixels' work than it may", 100, 3000);
  ExpectOk(CallBoth(server, "other"));
  Write({{"pixels_per_second", 1'000'000'000}});
  server.server().Reload();
  absl::SleepFor(absl::Milliseconds(10));  // the debt is paid in microseconds now
  ExpectOk(CallBoth(server, "shop"));
}

TEST_F(TenantsTest, BytesASecond) {
  TestServer server(Config({{"bytes_per_second", 10}}));
  const std::string image = NewImage();
  ExpectOk({CallHttp(server, "shop", image)});
  const double debt_s = static_cast<double>(image.size()) / 10 - 1;  // saved up
  ExpectRefusals(server, "tenant.bytes_per_second", "more bytes than it may", 0.8 * debt_s, debt_s);
  ExpectOk(CallBoth(server, "other"));
}

TEST_F(TenantsTest, ATileStreamIsRefusedTileByTile) {
  TestServer server(Config({{"bytes_per_second", 10}}));
  grpc::ClientContext context;
  context.AddMetadata("x-api-key", keys_.at("shop"));
  const auto stream = server.stub().UpscaleTiles(&context);
  pb::UpscaleTilesRequest request;
  request.mutable_start();
  stream->Write(request);
  pb::Tile& tile = *request.mutable_tile();
  tile.set_width_px(20);
  tile.set_height_px(20);
  tile.set_bits_per_sample(8);
  tile.set_pixels(std::string(1200, 'x'));
  std::vector<pb::UpscaleTilesResponse> responses(2);
  for (pb::UpscaleTilesResponse& response : responses) {
    stream->Write(request);
    ASSERT_TRUE(stream->Read(&response));
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(responses[0].has_tile()) << responses[0].error().message();
  EXPECT_EQ(responses[1].error().reason(), pb::ERROR_REASON_OVERLOADED);
  EXPECT_NEAR(static_cast<double>(responses[1].error().retry_delay().seconds()), 110, 22);
}

TEST_F(TenantsTest, TheLongestLifeOfACall) {
  TestServer server(Config({{"call_seconds", 1}}));
  server.gate().Close();
  for (const Ending& ending : CallBoth(server, "shop")) {
    EXPECT_EQ(ending.code, "DEADLINE_EXCEEDED");
    EXPECT_EQ(ending.reason, "DEADLINE");
    EXPECT_EQ(ending.limit, "tenant.call_seconds");
    EXPECT_THAT(ending.message, HasSubstr("may take no longer than 1s"));
  }
  Write({{"call_seconds", 1000}});  // the gate has made the measured speed a slow one
  server.server().Reload();
  server.gate().Open();
  ExpectOk(CallBoth(server, "shop"));
}

TEST_F(TenantsTest, BackgroundWorkDelaysAnInteractiveImageByOneTileAtMost) {
  ServerConfig config = Config({{"priority", "background"}});
  config.threads = 1;  // and so one stream
  TestServer server(config);
  const auto await_queued = [&](int64_t tiles) {
    test::Await([&] { return server.server().tile_load().queued_tiles == tiles; });
  };
  const auto call = [&](const std::string& key, const std::string& image) {
    return std::async(std::launch::async,
                      [this, &server, key, image] { return CallGrpc(server, key, image, 64); });
  };
  server.gate().Close();
  auto background = call("shop", NewImage({8 * 64, 64, 3, SampleType::kU8}));
  server.gate().AwaitWaiting(1);
  await_queued(7);
  auto interactive = call("other", NewImage());
  await_queued(8);
  const int64_t passed = server.gate().tiles_passed();
  server.gate().Allow(2);  // the tile that stands before the gate, and one more
  ExpectOk({interactive.get()});
  EXPECT_EQ(server.gate().tiles_passed(), passed + 2);
  server.gate().Open();
  ExpectOk({background.get()});
}

// One tenant's calls: calls for it come later, over either interface.
TEST_F(TenantsTest, ACallMayAskForThePriorityBackground) {
  ServerConfig config = Config(json::object());
  config.threads = 1;  // and so one stream
  TestServer server(config);
  const ImageSpec night{8 * 64, 64, 3, SampleType::kU8};
  const auto call_grpc = [&](const std::string& image, const std::string& priority) {
    return std::async(std::launch::async, [this, &server, image, priority] {
      return CallGrpc(server, "other", image, 64, priority).code;
    });
  };
  const auto call_http = [&](const std::string& image, const std::string& priority) {
    return std::async(std::launch::async, [this, &server, image, priority] {
      const HttpAnswer answer =
          Request(server.server().http_port(), "POST", "/v1/upscale?tile_px=64", image,
                  {{"X-API-Key", keys_.at("other")}, {"Upscale-Priority", priority}});
      return std::string(answer.status == 200 ? "OK" : answer.body);
    });
  };
  const auto await_queued = [&](int64_t tiles) {
    test::Await([&] { return server.server().tile_load().queued_tiles == tiles; });
  };
  const auto expect_order = [&](std::future<std::string> background,
                                const std::function<std::future<std::string>()>& call) {
    server.gate().AwaitWaiting(1);
    await_queued(7);
    std::future<std::string> interactive = call();
    await_queued(8);
    const int64_t passed = server.gate().tiles_passed();
    server.gate().Allow(2);  // the tile that stands before the gate, and one more
    EXPECT_EQ(interactive.get(), "OK");
    EXPECT_EQ(server.gate().tiles_passed(), passed + 2);
    server.gate().Open();
    EXPECT_EQ(background.get(), "OK");
  };
  server.gate().Close();
  expect_order(call_grpc(NewImage(night), "background"),
               [&] { return call_grpc(NewImage(), "interactive"); });
  server.gate().Close();
  expect_order(call_http(NewImage(night), "background"),
               [&] { return call_http(NewImage(), "interactive"); });
  EXPECT_EQ(call_grpc(NewImage(), "low").get(), "INVALID_ARGUMENT");
  EXPECT_THAT(call_http(NewImage(), "low").get(), HasSubstr("upscale-priority is"));
}

TEST_F(TenantsTest, NoCallGoesBeforeItsTenant) {
  TestServer server(Config({{"priority", "background"}}));
  EXPECT_EQ(CallGrpc(server, "shop", NewImage(), 0, "interactive").code, "PERMISSION_DENIED");
  const HttpAnswer answer =
      Request(server.server().http_port(), "POST", "/v1/upscale", NewImage(),
              {{"X-API-Key", keys_.at("shop")}, {"Upscale-Priority", "interactive"}});
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, HasSubstr("the tenant shop"));
}

// Sixty-four background tiles next to an interactive image of eight bands.
class BackgroundTest : public TenantsTest {
 protected:
  BackgroundTest() {
    config_.threads = 1;  // and so one stream
    config_.hold_source_bytes = 1000;
    server_ = std::make_unique<TestServer>(config_);
  }
  ~BackgroundTest() override { server_->gate().Open(); }

  std::future<Ending> Call(const std::string& key, const std::string& image, int tile_px = 64) {
    return std::async(std::launch::async, [this, key, image, tile_px] {
      return CallGrpc(*server_, key, image, tile_px);
    });
  }
  void AwaitPassed(int64_t tiles) {
    test::Await([&] { return server_->gate().tiles_passed() >= tiles; });
  }
  void AwaitQueued(int64_t tiles) {
    test::Await([&] { return server_->server().tile_load().queued_tiles >= tiles; });
  }

  ServerConfig config_ = Config({{"priority", "background"}});
  std::unique_ptr<TestServer> server_;
  const std::string night_ = NewImage({8 * 64, 8 * 64, 3, SampleType::kU8});
  const std::string day_ = NewImage({64, 8 * 64, 3, SampleType::kU8});
};

TEST_F(BackgroundTest, NoGapBetweenTheBandsOfAnImageIsFilled) {
  test::Gate& gate = server_->gate();
  gate.Close();
  auto background = Call("shop", night_);
  gate.AwaitWaiting(1);
  constexpr int64_t kQueued =
      15;  // two bands of eight, but for the tile that stands before the gate
  AwaitQueued(kQueued);
  auto interactive = Call("other", day_);
  AwaitQueued(kQueued + 1);
  gate.Allow(1 + 8);  // the tile that stands before the gate, and the image's
  const bool ended =
      interactive.wait_for(absl::ToChronoSeconds(test::kPatience)) == std::future_status::ready;
  EXPECT_TRUE(ended) << "more than one background tile ran before its last one";
  gate.Open();
  ExpectOk({interactive.get(), background.get()});
}

// Its gaps are its client's; each is for background tiles, and the last of these may delay it.
TEST_F(BackgroundTest, AClientThatIsWaitedForHoldsNobodyBack) {
  grpc::ClientContext context;
  context.AddMetadata("x-api-key", keys_.at("other"));
  pb::UpscaleOptions options;
  options.set_tile_px(64);
  const auto interactive = server_->stub().UpscaleImage(&context);
  interactive->Write(StartMessage(options));
  auto background = Call("shop", night_, 32);  // 256 tiles
  AwaitPassed(server_->gate().tiles_passed() + 1);
  constexpr size_t kParts = 4;
  for (size_t i = 0; i < kParts; ++i) {
    const size_t begin = day_.size() * i / kParts, end = day_.size() * (i + 1) / kParts;
    interactive->Write(ChunkMessage(day_.substr(begin, end - begin)));
    if (end == day_.size()) break;
    // It has three tiles at most for each part: the fourth one is background work.
    AwaitPassed(server_->gate().tiles_passed() + 4);
  }
  interactive->WritesDone();
  Outcome outcome;
  ReadToEnd(context, *interactive, outcome);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  ExpectOk({background.get()});
}

}  // namespace
}  // namespace upscaled::server
