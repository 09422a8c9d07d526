// Operators' records of calls over both interfaces: the audit log, the usage.
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "server/identity/api_key.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"
#include "upscale/v1/admin.grpc.pb.h"

namespace upscaled::server {
namespace {

using client::ReadText;
using client::TempFolder;
using client::WriteText;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class RecordsTest : public ::testing::Test {
 protected:
  RecordsTest() {
    const json keys = {EntryOf("shop-backend", "shop", "upscale", key_),
                       EntryOf("shop-display", "shop", "read", display_key_),
                       EntryOf("operator", "us", "admin", operator_key_)};
    const json file = {{"keys", keys}, {"tenants", {{"shop", {{"calls", 100}}}}}};
    WriteText(folder_ / "keys.json", file.dump());
    config_.auth_keys = folder_ / "keys.json";
    config_.audit_log = folder_ / "audit.log";
    config_.usage_db = folder_ / "usage.db";
  }

  static json EntryOf(const char* name, const char* tenant, const char* role,
                      const std::string& key) {
    return {{"name", name},
            {"tenant", tenant},
            {"roles", {role}},
            {"sha256", FormatKeyHash(*HashApiKey(key))}};
  }
  // All lines of a server after its end.
  std::vector<json> Lines() const {
    std::istringstream text(ReadText(folder_ / "audit.log"));
    std::vector<json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }
  // The status of a call of Upscale.
  grpc::Status Upscale(TestServer& server, const std::string& key, const std::string& image) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + key);
    pb::UpscaleRequest request;
    request.set_image(image);
    request.set_request_id("a\"b");
    pb::UpscaleResponse response;
    return server.stub().Upscale(&context, request, &response);
  }

  static grpc::Status GetUsage(TestServer& server, const pb::GetUsageRequest& request,
                               pb::GetUsageResponse& response, const std::string& key = "") {
    grpc::ClientContext context;
    if (!key.empty()) context.AddMetadata("x-api-key", key);
    return pb::AdminService::NewStub(server.NewAdminChannel())
        ->GetUsage(&context, request, &response);
  }

  // GET /v1/usage of the operators' port, with this status.
  static json GetUsageJson(TestServer& server, const std::string& query, int status,
                           const std::string& key = "") {
    HttpFields fields;
    if (!key.empty()) fields["X-API-Key"] = key;
    const HttpAnswer answer =
        Request(server.server().admin_port(), "GET", "/v1/usage" + query, "", fields);
    EXPECT_EQ(answer.status, status) << query << " " << answer.body;
    return json::parse(answer.body);
  }

  const std::string key_ = *NewApiKey(), display_key_ = *NewApiKey(), operator_key_ = *NewApiKey();
  std::mt19937 random_ = test::FreshRandom();
  const std::string image_ =
      *test::Encode(test::RandomImage({8, 6, 3, SampleType::kU8}, random_).view(), {});
  TempFolder folder_;
  ServerConfig config_ = TestConfig();
};

TEST_F(RecordsTest, EachCallIsALineServedOrRefused) {
  const std::string wrong_key = *NewApiKey();
  {
    TestServer server(config_);
    EXPECT_TRUE(Upscale(server, key_, image_).ok());
    EXPECT_FALSE(Upscale(server, wrong_key, image_).ok());
    EXPECT_FALSE(Upscale(server, key_, "no image").ok());
    const int port = server.server().http_port();
    EXPECT_EQ(Request(port, "POST", "/v1/upscale", image_, {{"X-API-Key", key_}}).status, 200);
    EXPECT_EQ(Request(port, "GET", "/v1/models", "", {{"X-API-Key", wrong_key}}).status, 401);
  }
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 5u);
  const json& served = lines[0];
  EXPECT_EQ(served["key"], "shop-backend");
  EXPECT_EQ(served["tenant"], "shop");
  EXPECT_THAT(served["address"].get<std::string>(), HasSubstr("127.0.0.1:"));
  EXPECT_EQ(served["transport"], "grpc");
  EXPECT_EQ(served["method"], "Upscale");
  EXPECT_EQ(served["request_id"], "a\"b");
  EXPECT_EQ(served["source"], "8x6");
  EXPECT_EQ(served["result"], "16x12");
  EXPECT_EQ(served["received_bytes"], image_.size());
  EXPECT_GT(served["sent_bytes"], 0);
  EXPECT_GT(served["cost"], 8 * 6 * 1000);
  EXPECT_EQ(served["code"], "OK");
  EXPECT_EQ(lines[1]["code"], "UNAUTHENTICATED");
  EXPECT_EQ(lines[1]["reason"], "UNAUTHENTICATED");
  EXPECT_EQ(lines[1]["cost"], 0);
  EXPECT_FALSE(lines[1].contains("key"));
  EXPECT_EQ(lines[2]["reason"], "INVALID_IMAGE");
  EXPECT_EQ(lines[3]["transport"], "http");
  EXPECT_EQ(lines[3]["tenant"], "shop");
  EXPECT_EQ(lines[4]["method"], "ListModels");
  EXPECT_EQ(lines[4]["code"], "UNAUTHENTICATED");
  const std::string text = ReadText(folder_ / "audit.log");
  EXPECT_THAT(text, Not(HasSubstr(key_)));
  EXPECT_THAT(text, Not(HasSubstr(wrong_key)));
}

TEST_F(RecordsTest, ACallThatLacksARoleIsItsTenants) {
  config_.admin = "0.0.0.0:0";  // asks for keys, too
  {
    TestServer server(config_);
    EXPECT_EQ(Upscale(server, display_key_, image_).error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
    const int port = server.server().http_port();
    EXPECT_EQ(Request(port, "POST", "/v1/upscale", image_, {{"X-API-Key", display_key_}}).status,
              403);
    pb::GetUsageResponse usage;
    EXPECT_EQ(GetUsage(server, {}, usage, key_).error_code(), grpc::StatusCode::PERMISSION_DENIED);
    pb::GetUsageRequest request;
    request.set_first_day("2026-01-01");
    request.set_tenant("shop");
    ASSERT_TRUE(GetUsage(server, request, usage, operator_key_).ok());
    int64_t refusals = 0;
    for (const pb::TenantUsage& day : usage.usage()) refusals += day.refusals();
    EXPECT_EQ(refusals, 3);
    const int admin_port = server.server().admin_port();
    EXPECT_EQ(Request(admin_port, "GET", "/v1/usage", "", {{"X-API-Key", key_}}).status, 403);
    GetUsageJson(server, "", 200, operator_key_);
    EXPECT_THAT(Request(admin_port, "GET", "/metrics", "", {{"X-API-Key", operator_key_}}).body,
                HasSubstr("upscaled_tenant_calls_total{code=\"PERMISSION_DENIED\",tenant=\"shop\"} "
                          "4\n"));
  }
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 6u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i]["tenant"], "shop");
    EXPECT_EQ(lines[i]["key"], i < 2 ? "shop-display" : "shop-backend");
    EXPECT_EQ(lines[i]["code"], "PERMISSION_DENIED");
  }
}

// A call for an image, in tiles of kTilePx.
struct Sharing {
  grpc::ClientContext context;
  std::unique_ptr<ClientStream> stream;

  Sharing(TestServer& server, const std::string& key, const std::string& id,
          const std::string& image) {
    context.AddMetadata("x-api-key", key);
    stream = server.stub().UpscaleImage(&context);
    pb::UpscaleOptions options;
    options.set_tile_px(kTilePx);
    pb::UpscaleImageRequest start = StartMessage(options, /*report_progress=*/true);
    start.mutable_start()->set_request_id(id);
    EXPECT_TRUE(stream->Write(start) && stream->Write(ChunkMessage(image)));
    EXPECT_TRUE(stream->WritesDone());
  }
  // Until a tile is told to be done.
  void AwaitTile() {
    pb::UpscaleImageResponse response;
    while (!response.has_progress()) ASSERT_TRUE(stream->Read(&response));
  }
  grpc::StatusCode Finish() {
    pb::UpscaleImageResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish().error_code();
  }
  void Leave() {
    context.TryCancel();
    EXPECT_EQ(Finish(), grpc::StatusCode::CANCELLED);
  }
};

// Equal requests share a computation, and one of them pays for each tile.
TEST_F(RecordsTest, WhoLeavesASharedComputationPaysForWhatRan) {
  const std::string image = *test::Encode(
      test::PhotoImage({8 * kTilePx, kTilePx, 3, SampleType::kU8}, random_).view(), {});
  {
    TestServer server(config_);
    const auto queued = [&] { return server.server().tile_load().queued_tiles; };
    EXPECT_EQ(Sharing(server, key_, "whole", image).Finish(), grpc::StatusCode::OK);

    server.gate().Close();
    Sharing alone(server, key_, "alone", image);
    server.gate().AwaitWaiting(2);
    test::Await([&] { return queued() > 0; });
    alone.Leave();
    test::Await([&] { return queued() == 0; });  // those before the gate run all the same
    server.gate().Open();
    server.AwaitIdle();

    server.gate().Close();
    Sharing first(server, key_, "first", image);
    server.gate().AwaitWaiting(2);
    Sharing second(server, key_, "second", image);
    test::Await([&] { return server.server().result_counts().shared == 1; });
    server.gate().Allow(1);
    second.AwaitTile();
    first.Leave();
    test::Await([&] { return server.server().admission_state().requests == 1; });
    server.gate().Open();
    EXPECT_EQ(second.Finish(), grpc::StatusCode::OK);
  }
  std::map<std::string, json> lines;
  for (const json& line : Lines()) lines[line["request_id"]] = line;
  const int64_t whole = lines["whole"]["cost"], alone = lines["alone"]["cost"],
                first = lines["first"]["cost"], second = lines["second"]["cost"];
  EXPECT_EQ(lines["alone"]["code"], "CANCELLED");
  EXPECT_GT(alone, 0) << "it has left, and had tiles run";
  EXPECT_LT(alone, whole);
  EXPECT_EQ(lines["first"]["code"], "CANCELLED");
  EXPECT_GT(first, 0) << "of what had run by then";
  EXPECT_GT(second, 0) << "of what ran after that";
  EXPECT_EQ(first + second, whole);
}

TEST_F(RecordsTest, AFullDiskFailsNoCallAndIsCounted) {
  config_.audit_log = "/dev/full";
  TestServer server(config_);
  EXPECT_TRUE(Upscale(server, key_, image_).ok());
  test::Await([&] { return absl::StrContains(server.log(), "lost lines of the audit log"); });
  EXPECT_THAT(server.log(), HasSubstr("No space left on device"));
  EXPECT_THAT(Request(server.server().admin_port(), "GET", "/metrics").body,
              HasSubstr("upscaled_audit_lines_lost_total 1\n"));
}

TEST_F(RecordsTest, AReloadOpensTheFileAnew) {
  {
    TestServer server(config_);
    EXPECT_TRUE(Upscale(server, key_, image_).ok());
    // The line is written once the call has been cleared away, after the client has its answer.
    test::Await([&] { return ReadText(config_.audit_log).ends_with('\n'); });
    std::filesystem::rename(config_.audit_log, folder_ / "audit.log.1");
    server.server().Reload();
    EXPECT_TRUE(Upscale(server, key_, image_).ok());
  }
  EXPECT_EQ(Lines().size(), 1u);
  EXPECT_THAT(ReadText(folder_ / "audit.log.1"), HasSubstr("shop-backend"));
}

TEST_F(RecordsTest, AFileThatCannotBeOpenedStopsTheStart) {
  config_.audit_log = folder_ / "none" / "audit.log";
  Logger logger(LogFormat::kText, LogLevel::kError);
  const auto server = Server::Start(config_, logger);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("cannot open the audit log"));
}

// Both runs may end on different days.
TEST_F(RecordsTest, UsageIsAddedUpOverRestarts) {
  pb::GetUsageResponse usage;
  for (int run = 0; run < 2; ++run) {
    TestServer server(config_);
    EXPECT_TRUE(Upscale(server, key_, image_).ok());
    EXPECT_FALSE(Upscale(server, *NewApiKey(), image_).ok());
    const int port = server.server().http_port();
    EXPECT_EQ(Request(port, "POST", "/v1/upscale", image_, {{"X-API-Key", key_}}).status, 200);
    pb::GetUsageRequest request;
    request.set_first_day("2026-01-01");
    request.set_tenant("shop");
    ASSERT_TRUE(GetUsage(server, request, usage).ok());
    const json told = GetUsageJson(server, "?first_day=2026-01-01&tenant=shop", 200)["usage"];
    ASSERT_EQ(told.size(), usage.usage_size());
    EXPECT_EQ(told[0]["day"], usage.usage(0).day());
    EXPECT_EQ(told[0]["tenant"], "shop");
    EXPECT_EQ(told[0]["cost"], usage.usage(0).cost());
    EXPECT_EQ(GetUsageJson(server, "?tenant=nobody", 200)["usage"], json::array());
  }
  pb::TenantUsage sum;
  for (const pb::TenantUsage& day : usage.usage()) {
    EXPECT_EQ(day.tenant(), "shop");
    sum.set_calls(sum.calls() + day.calls());
    sum.set_refusals(sum.refusals() + day.refusals());
    sum.set_cost(sum.cost() + day.cost());
    sum.set_received_bytes(sum.received_bytes() + day.received_bytes());
    sum.set_source_pixels(sum.source_pixels() + day.source_pixels());
  }
  EXPECT_EQ(sum.calls(), 4);
  EXPECT_EQ(sum.refusals(), 0);  // callers with wrong keys are nobody's
  EXPECT_GT(sum.cost(), 4 * 8 * 6 * 1000);
  EXPECT_EQ(sum.received_bytes(), 4 * static_cast<int64_t>(image_.size()));
  EXPECT_EQ(sum.source_pixels(), 4 * 8 * 6);
}

TEST_F(RecordsTest, UsageIsAskedForByDays) {
  TestServer server(config_);
  pb::GetUsageResponse usage;
  for (const char* day : {"today", "2026-11-31", " 2026-11-23", "2026-11", "2026-11-23T10",
                          "99999-01-01", "-001-01-01"}) {
    pb::GetUsageRequest request;
    request.set_last_day(day);
    EXPECT_TRUE(IsError(GetUsage(server, request, usage), grpc::StatusCode::INVALID_ARGUMENT,
                        "INVALID_OPTION", day));
  }
  for (const char* query : {"?last_day=today", "?day=2026-11-23", "?tenant=a&tenant=b"}) {
    EXPECT_EQ(GetUsageJson(server, query, 400)["reason"], "INVALID_OPTION");
  }
}

TEST_F(RecordsTest, AServerWithoutUsageSaysSo) {
  config_.usage_db.clear();
  TestServer server(config_);
  pb::GetUsageResponse usage;
  EXPECT_TRUE(IsError(GetUsage(server, {}, usage), grpc::StatusCode::FAILED_PRECONDITION,
                      "UNSUPPORTED", "--usage-db"));
  EXPECT_THAT(GetUsageJson(server, "", 404)["detail"].get<std::string>(), HasSubstr("--usage-db"));
}

}  // namespace
}  // namespace upscaled::server
