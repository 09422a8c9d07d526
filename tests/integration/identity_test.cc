// The effects of keys: refusals, the log, changes of the file. identity_table_test.cc has the table
// of roles and methods.
#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/image/memory_io.h"
#include "nlohmann/json.hpp"
#include "server/identity/api_key.h"
#include "server/results/digest.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"
#include "upscale/v1/admin.grpc.pb.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using client::WriteText;
using grpc::StatusCode;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Keys by name: "reader", "uploader" and "operator" have one role each, "old" has expired.
class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    for (const char* name : {"reader", "uploader", "operator", "old", "unknown"}) {
      keys_[name] = *NewApiKey();
    }
    WriteKeys(All());
  }

  json EntryOf(const std::string& name, const std::string& role) const {
    return {{"name", name},
            {"tenant", "shop"},
            {"roles", {role}},
            {"sha256", FormatKeyHash(*HashApiKey(keys_.at(name)))}};
  }
  json All() const {
    json old = EntryOf("old", "admin");
    old["expires"] = "2000-01-01T00:00:00Z";
    return {EntryOf("reader", "read"), EntryOf("uploader", "upscale"), EntryOf("operator", "admin"),
            old};
  }
  void WriteKeys(const json& entries) {
    WriteText(folder_ / "new.json", json{{"keys", entries}}.dump());
    std::filesystem::rename(folder_ / "new.json", file());
  }
  std::filesystem::path file() const { return folder_ / "keys.json"; }

  // All ports ask for keys: the operators' port can be reached from elsewhere.
  ServerConfig Config() const {
    ServerConfig config = TestConfig();
    config.auth_keys = file();
    config.admin = "0.0.0.0:0";
    return config;
  }
  void Show(grpc::ClientContext& context, const std::string& name) const {
    if (!name.empty()) context.AddMetadata("authorization", "Bearer " + keys_.at(name));
  }
  HttpFields FieldsOf(const std::string& name) const {
    return name.empty() ? HttpFields() : HttpFields{{"X-API-Key", keys_.at(name)}};
  }

  std::map<std::string, std::string> keys_;
  std::mt19937 random_ = test::FreshRandom();
  const std::string image_ =
      *test::Encode(test::RandomImage({8, 6, 3, SampleType::kU8}, random_).view(), {});
  TempFolder folder_;
};

TEST_F(IdentityTest, RefusalsSayWhatIsMissing) {
  TestServer server(Config());
  const int port = server.server().http_port();
  const HttpAnswer missing = Request(port, "GET", "/v1/models");
  EXPECT_EQ(missing.fields.at("Content-Type"), "application/problem+json");
  EXPECT_EQ(json::parse(missing.body)["reason"], "UNAUTHENTICATED");
  const HttpAnswer lacking = Request(port, "POST", "/v1/upscale", image_, FieldsOf("reader"));
  EXPECT_EQ(json::parse(lacking.body)["reason"], "PERMISSION_DENIED");
  EXPECT_EQ(json::parse(lacking.body)["metadata"]["role"], "upscale");
  grpc::ClientContext context;
  Show(context, "reader");
  pb::UpscaleRequest request;
  request.set_image(image_);
  pb::UpscaleResponse response;
  EXPECT_TRUE(IsError(server.stub().Upscale(&context, request, &response),
                      StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED",
                      "\"reader\" lacks the role \"upscale\""));
}

TEST_F(IdentityTest, TheLogNamesKeysAndShowsNone) {
  TestServer server(Config());
  for (const auto& [name, key] : keys_) {
    grpc::ClientContext context;
    Show(context, name);
    pb::ListModelsResponse models;
    server.stub().ListModels(&context, {}, &models);
    Request(server.server().http_port(), "GET", "/v1/progress/a%20b", "", FieldsOf(name));
  }
  for (const auto& [name, key] : keys_) EXPECT_THAT(server.log(), Not(HasSubstr(key.substr(4))));
  EXPECT_THAT(server.log(), HasSubstr("reason=expired_key key=old"));
  EXPECT_THAT(server.log(), HasSubstr("key=uploader tenant=shop"));
  EXPECT_THAT(server.log(), HasSubstr("method=GetProgress"));
}

TEST_F(IdentityTest, RefusesBeforeABodyIsThere) {
  TestServer server(Config());
  const TestSocket socket = TestSocket::Connect(server.server().http_port());
  socket.Write(RequestHeader("POST", "/v1/upscale", 10'000'000, {{"Expect", "100-continue"}}));
  EXPECT_THAT(socket.Read(4096), testing::StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(server.server().admission_state().requests, 0);
}

TEST_F(IdentityTest, LargeBodiesGetTheirAnswerAllTheSame) {
  TestServer server(Config());
  const HttpAnswer answer = Request(server.server().http_port(), "POST", "/v1/upscale",
                                    std::string(size_t{8} << 20, 'x'));
  EXPECT_EQ(answer.status, 401) << "as browsers send all before they read";
}

TEST_F(IdentityTest, ResultsAreForThoseWithAKeyAlone) {
  ServerConfig config = Config();
  config.result_cache = folder_ / "results";
  TestServer server(config);
  const int port = server.server().http_port();
  const HttpAnswer answer = Request(port, "POST", "/v1/upscale", image_, FieldsOf("uploader"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string tag = answer.fields.at("ETag");
  const std::string target = "/v1/results/" + tag.substr(1, tag.size() - 2);
  EXPECT_EQ(Request(port, "GET", target).status, 401);
  const HttpAnswer stored = Request(port, "GET", target, "", FieldsOf("reader"));
  EXPECT_EQ(stored.body, answer.body);
  EXPECT_THAT(stored.fields.at("Cache-Control"), testing::StartsWith("private"));
}

TEST_F(IdentityTest, TenantsAreKeptApart) {
  json other = EntryOf("operator", "admin");
  other["tenant"] = "other";
  WriteKeys({EntryOf("uploader", "upscale"), other});
  ServerConfig config = Config();
  config.result_cache = folder_ / "results";
  TestServer server(config);
  const int port = server.server().http_port();
  const auto upscale = [&](const std::string& name, HttpFields more = {}) {
    more.merge(FieldsOf(name));
    return Request(port, "POST", "/v1/upscale?request_id=the-same", image_, more);
  };
  const HttpAnswer mine = upscale("uploader");
  ASSERT_EQ(mine.status, 200) << mine.body;
  const std::string tag = mine.fields.at("ETag");
  const std::string target = "/v1/results/" + tag.substr(1, tag.size() - 2);
  EXPECT_EQ(Request(port, "GET", target, "", FieldsOf("uploader")).status, 200);
  const HttpAnswer none = Request(port, "GET", target, "", FieldsOf("operator"));
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.body, Request(port, "GET", "/v1/results/none", "", FieldsOf("operator")).body)
      << "as one that nobody has";
  // The digest of the other tenant's source is worth nothing.
  const std::string digest(AsText(DigestOf(AsBytes(image_))));
  const HttpFields known = {{"Content-Digest", "sha-256=:" + absl::Base64Escape(digest) + ":"}};
  const int64_t computed = server.server().result_counts().computed;
  const HttpAnswer theirs = upscale("operator", known);
  ASSERT_EQ(theirs.status, 200) << theirs.body;
  EXPECT_EQ(theirs.body, mine.body);
  EXPECT_NE(theirs.fields.at("ETag"), tag);
  EXPECT_EQ(server.server().result_counts().computed, computed + 1);
  EXPECT_EQ(server.server().result_counts().stored, 0);
  upscale("uploader", known);
  EXPECT_EQ(server.server().result_counts().stored, 1) << "its own";
}

TEST_F(IdentityTest, ADigestFindsWhatItsOwnTenantHasStored) {
  json other = EntryOf("operator", "admin");
  other["tenant"] = "other";
  WriteKeys({EntryOf("uploader", "upscale"), other});
  ServerConfig config = Config();
  config.result_cache = folder_ / "results";
  TestServer server(config);
  const std::string digest(AsText(DigestOf(AsBytes(image_))));
  const auto over_http = [&](const std::string& name, const std::string& body) {
    HttpFields fields = FieldsOf(name);
    fields["Content-Digest"] = "sha-256=:" + absl::Base64Escape(digest) + ":";
    return Request(server.server().http_port(), "POST", "/v1/upscale", body, fields);
  };
  const auto over_grpc = [&](const std::string& name, std::string* image) {
    grpc::ClientContext context;
    Show(context, name);
    const auto stream = server.stub().UpscaleImage(&context);
    pb::UpscaleImageRequest request;
    request.mutable_start()->set_source_sha256(digest);
    stream->Write(request);
    stream->WritesDone();
    pb::UpscaleImageResponse response;
    while (stream->Read(&response)) *image += response.chunk();
    return stream->Finish();
  };
  const HttpAnswer missed = over_http("uploader", "");
  EXPECT_EQ(missed.status, 422) << "nothing is stored";
  EXPECT_THAT(missed.body, HasSubstr("is stored for this caller and these options"));
  const HttpAnswer mine = over_http("uploader", image_);
  ASSERT_EQ(mine.status, 200) << mine.body;
  const HttpAnswer again = over_http("uploader", "");
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body, mine.body);
  std::string image;
  EXPECT_TRUE(over_grpc("uploader", &image).ok());
  EXPECT_EQ(image, mine.body);

  EXPECT_EQ(over_http("operator", "").status, 422) << "of another tenant";
  image.clear();
  EXPECT_FALSE(over_grpc("operator", &image).ok());
  EXPECT_EQ(image, "");
  const HttpAnswer unlike = over_http("uploader", image_ + "x");
  EXPECT_EQ(unlike.status, 400) << "a body that is sent must fit";
  EXPECT_THAT(unlike.body, HasSubstr("SHA-256"));
}

TEST_F(IdentityTest, ProgressIsTheTenantsOwn) {
  json other = EntryOf("operator", "admin");
  other["tenant"] = "other";
  WriteKeys({EntryOf("uploader", "upscale"), EntryOf("reader", "read"), other});
  auto server = std::make_unique<TestServer>(Config());
  server->gate().Close();
  const int port = server->server().http_port();
  std::thread upload(
      [&] { Request(port, "POST", "/v1/upscale?request_id=mine", image_, FieldsOf("uploader")); });
  const auto listen = [&](const std::string& name) {
    TestSocket socket = TestSocket::Connect(port);
    socket.Write(RequestHeader("GET", "/v1/progress/mine", 0, FieldsOf(name)));
    return socket;
  };
  const TestSocket theirs = listen("operator"), mine = listen("reader");
  std::string told;
  while (told.find("event: started") == std::string::npos) told += mine.Read(1);
  server->gate().Open();
  EXPECT_THAT(told + ReadAll(mine), HasSubstr("event: done"));
  upload.join();
  server.reset();
  EXPECT_THAT(ReadAll(theirs), testing::AllOf(HasSubstr("200 OK"), Not(HasSubstr("tiles"))));
}

TEST_F(IdentityTest, PreflightsNeedNoKey) {
  ServerConfig config = Config();
  config.cors_origins = {"https://example.org"};
  TestServer server(config);
  const HttpFields origin = {{"Origin", "https://example.org"}};
  const int port = server.server().http_port();
  const HttpAnswer preflight = Request(port, "OPTIONS", "/v1/upscale", "", origin);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(
      preflight.fields.at("Access-Control-Allow-Headers"),
      testing::AllOf(HasSubstr("Authorization"), HasSubstr("X-API-Key"), HasSubstr("Traceparent")));
  const HttpAnswer refused = Request(port, "GET", "/v1/models", "", origin);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.fields.at("Access-Control-Allow-Origin"), "https://example.org");
}

TEST_F(IdentityTest, SlowsWrongKeysAndLetsRightOnesPass) {
  TestServer server(Config());
  const int port = server.server().http_port();
  int refused = 0, slowed = 0;
  for (int i = 0; i < 15; ++i) {
    const int status = Request(port, "GET", "/v1/models", "", FieldsOf("unknown")).status;
    refused += status == 401;
    slowed += status == 429;
  }
  EXPECT_GE(refused, 10);
  EXPECT_GE(slowed, 1);
  EXPECT_EQ(Request(port, "GET", "/v1/models", "", FieldsOf("reader")).status, 200);
  grpc::ClientContext wrong, right;
  Show(wrong, "unknown");
  Show(right, "reader");
  pb::ListModelsResponse models;
  const grpc::Status status = server.stub().ListModels(&wrong, {}, &models);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED)
      << "both interfaces have one bucket";
  EXPECT_GT(RetryDelayOf(status), absl::ZeroDuration());
  EXPECT_LE(RetryDelayOf(status), absl::Seconds(5));
  EXPECT_TRUE(server.stub().ListModels(&right, {}, &models).ok());
  const std::string metrics =
      Request(server.server().admin_port(), "GET", "/metrics", "", FieldsOf("operator")).body;
  EXPECT_THAT(metrics, HasSubstr("upscaled_denied_callers_total{reason=\"unknown_key\"}"));
  EXPECT_THAT(metrics, HasSubstr("upscaled_denied_callers_total{reason=\"wrong_keys\"}"));
}

TEST_F(IdentityTest, OperatorsOfThisMachineNeedNoKey) {
  ServerConfig config = Config();
  config.admin = "127.0.0.1:0";
  TestServer server(config);
  EXPECT_EQ(Request(server.server().admin_port(), "GET", "/metrics").status, 200);
  grpc::ClientContext context;
  pb::ReloadModelsResponse response;
  EXPECT_TRUE(pb::AdminService::NewStub(server.NewAdminChannel())
                  ->ReloadModels(&context, {}, &response)
                  .ok());
}

TEST_F(IdentityTest, NewKeysUnderLoadLoseNoCall) {
  TestServer server(Config());
  // Twice the same holder: its new key is "unknown" until the file has it.
  std::atomic<const char*> shown = "uploader";
  std::atomic<bool> stop = false;
  std::atomic<int> grpc_calls = 0, http_calls = 0, failures = 0;
  const auto await_calls = [&](int more) {
    for (const std::atomic<int>* calls : {&grpc_calls, &http_calls}) {
      test::Await([&, end = *calls + more] { return *calls >= end; });
    }
  };
  std::vector<std::thread> clients;
  clients.emplace_back([&] {
    while (!stop) {
      grpc::ClientContext context;
      Show(context, shown.load());
      pb::ListModelsResponse response;
      failures += !server.stub().ListModels(&context, {}, &response).ok();
      ++grpc_calls;
    }
  });
  clients.emplace_back([&] {
    while (!stop) {
      failures += Request(server.server().http_port(), "POST", "/v1/upscale", image_,
                          FieldsOf(shown.load()))
                      .status != 200;
      ++http_calls;
    }
  });
  for (int i = 0; i < 20; ++i) {
    WriteKeys(i % 2 == 0 ? json::array({EntryOf("uploader", "upscale")}) : All());
    server.server().Reload();
  }
  WriteText(file(), "{");  // leaves the keys as they were
  server.server().Reload();
  await_calls(10);
  WriteKeys({EntryOf("uploader", "upscale"), EntryOf("unknown", "upscale")});
  server.server().Reload();
  shown = "unknown";
  await_calls(2);  // those that have begun with the old key
  WriteKeys(json::array({EntryOf("unknown", "upscale")}));
  server.server().Reload();
  await_calls(10);
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failures, 0);
  EXPECT_THAT(server.log(), HasSubstr("reloaded the keys"));
  EXPECT_THAT(server.log(), HasSubstr("the keys stay as they were"));
  WriteKeys(json::array());
  server.server().Reload();
  EXPECT_EQ(Request(server.server().http_port(), "GET", "/v1/info", "", FieldsOf("unknown")).status,
            401)
      << "revoked";
}

TEST_F(IdentityTest, ChangedFilesAreReadWithoutASignal) {
  TestServer server(Config());
  WriteKeys(json::array({EntryOf("operator", "admin")}));
  const int port = server.server().http_port();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (Request(port, "GET", "/v1/info", "", FieldsOf("reader")).status == 200) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_EQ(Request(port, "GET", "/v1/info", "", FieldsOf("operator")).status, 200);
}

}  // namespace
}  // namespace upscaled::server
