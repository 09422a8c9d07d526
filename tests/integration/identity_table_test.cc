// The rights of callers: every method of both interfaces with every kind of key, token and
// certificate, right and wrong. Each cell of the table is a test over a real channel.
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "server/identity/api_key.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/https_request.h"
#include "tests/integration/test_server.h"
#include "tests/support/certificates.h"
#include "tests/support/signed_token.h"
#include "tests/support/test_image.h"
#include "upscale/v1/admin.grpc.pb.h"

namespace upscaled::server {
namespace {

using client::ReadText;
using client::TempFolder;
using client::WriteText;
using grpc::StatusCode;
using nlohmann::json;
using test::TokenSigner;
using ::testing::Values;
using ::testing::ValuesIn;

// --- The rows: callers ---

// The server's view of a caller, and the caller's role. One without a channel has failed in the
// handshake, and is not asked for its name.
enum class Taken { kNoChannel, kForNobody, kWithoutRole, kAsReader, kAsUploader, kAsAdmin };

struct Caller {
  const char* name;
  Taken taken;
  bool tls = false;
};
std::ostream& operator<<(std::ostream& out, const Caller& caller) { return out << caller.name; }

constexpr Caller kCallers[] = {
    {"nothing", Taken::kForNobody},
    {"reader_key", Taken::kAsReader},
    {"uploader_key", Taken::kAsUploader},
    {"admin_key", Taken::kAsAdmin},
    {"malformed_key", Taken::kForNobody},
    {"unknown_key", Taken::kForNobody},
    {"expired_key", Taken::kForNobody},
    {"early_key", Taken::kForNobody},
    {"revoked_key", Taken::kForNobody},      // was in the file when the server started
    {"rotated_key", Taken::kAsUploader},     // came into the file later
    {"reader_token", Taken::kAsReader},      // RS256
    {"uploader_token", Taken::kAsUploader},  // ES256
    {"admin_token", Taken::kAsAdmin},        // EdDSA
    {"roleless_token", Taken::kWithoutRole},
    {"expired_token", Taken::kForNobody},
    {"early_token", Taken::kForNobody},
    {"issuer_token", Taken::kForNobody},     // of another
    {"audience_token", Taken::kForNobody},   // for others
    {"strangers_token", Taken::kForNobody},  // of another key that calls itself the same
    {"unsigned_token", Taken::kForNobody},   // algorithm "none"
    {"hmac_token", Taken::kForNobody},       // HS256
    {"mixed_token", Taken::kForNobody},      // says RS256, and is signed by ES256's key
    {"revoked_token", Taken::kForNobody},    // its key was in the key set when the server started
    {"rotated_token", Taken::kAsUploader},   // its key came into the key set later
    {"reader_certificate", Taken::kAsReader, true},
    {"uploader_certificate", Taken::kAsUploader, true},  // a URI
    {"admin_certificate", Taken::kAsAdmin, true},
    {"unknown_certificate", Taken::kForNobody, true},
    {"expired_certificate", Taken::kForNobody, true},    // its entry has ended
    {"early_certificate", Taken::kForNobody, true},      // its entry has not begun
    {"revoked_certificate", Taken::kForNobody, true},    // its entry was there at the start
    {"rotated_certificate", Taken::kAsUploader, true},   // its entry came later
    {"outdated_certificate", Taken::kNoChannel, true},   // itself has expired, its entry has not
    {"premature_certificate", Taken::kNoChannel, true},  // itself is not valid yet
    {"strangers_certificate", Taken::kNoChannel, true},  // an admin's name, of another authority
    {"admin_key_beside_a_readers_certificate", Taken::kAsAdmin, true},
    {"reader_key_beside_an_admins_certificate", Taken::kAsReader, true},
    {"unknown_key_beside_an_admins_certificate", Taken::kForNobody, true},
};

// The role for a method; a method without one is open to everybody.
enum class Asked { kNothing, kRead, kUpscale, kAdmin };

enum class Cell { kDone, kUnauthenticated, kDenied, kUnconnected };

Cell Expected(Taken taken, Asked asked) {
  if (taken == Taken::kNoChannel) return Cell::kUnconnected;
  if (asked == Asked::kNothing) return Cell::kDone;
  if (taken == Taken::kForNobody) return Cell::kUnauthenticated;
  const int role = static_cast<int>(taken) - static_cast<int>(Taken::kAsReader);
  const int needed = static_cast<int>(asked) - static_cast<int>(Asked::kRead);
  return role >= needed ? Cell::kDone : Cell::kDenied;
}

// All credentials of callers, and the server's files of them. Made once.
class Callers {
 public:
  Callers() {
    for (const char* name :
         {"reader", "uploader", "admin", "unknown", "expired", "early", "revoked", "rotated"}) {
      keys_[name] = *NewApiKey();
      MakeCertificate(name, std::string(name) == "uploader" ? "URI:spiffe://example.org/uploader"
                                                            : HostOf(name));
    }
    MakeCertificate("server", "IP:127.0.0.1");
    MakeCertificate("authority", "authority.example.org");
    WriteText(folder_ / "clients.pem", authorities_);
    MakeCertificate("stranger", "authority.example.org");
    Sign("outdated", "outdated", {.authority = "authority", .to = "20010101000000Z"});
    Sign("premature", "premature", {.authority = "authority", .from = "29980101000000Z"});
    Sign("strangers", "admin", {.authority = "stranger"});
  }

  // Whether there are certificates.
  bool has_tls() const { return has_tls_; }

  // As the files are when the server starts, and later.
  void WriteFiles(bool later) const {
    json keys = {KeyOf("reader", "read"),
                 KeyOf("uploader", "upscale"),
                 KeyOf("admin", "admin"),
                 KeyOf("expired", "admin", {{"expires", "2000-01-01T00:00:00Z"}}),
                 KeyOf("early", "admin", {{"not_before", "2999-01-01T00:00:00Z"}}),
                 later ? KeyOf("rotated", "upscale") : KeyOf("revoked", "admin")};
    const json tokens = {{"issuer", "us"}, {"audience", "upscaled"}, {"key_set", "jwks.json"}};
    const json certificates = {
        CertificateOf("reader", "read"),
        CertificateOf("uploader", "upscale", {{"san", "URI:spiffe://example.org/uploader"}}),
        CertificateOf("admin", "admin"),
        CertificateOf("expired", "admin", {{"expires", "2000-01-01T00:00:00Z"}}),
        CertificateOf("early", "admin", {{"not_before", "2999-01-01T00:00:00Z"}}),
        CertificateOf("outdated", "admin"),
        CertificateOf("premature", "admin"),
        later ? CertificateOf("rotated", "upscale") : CertificateOf("revoked", "admin")};
    Replace(
        "jwks.json",
        {{"keys", {rsa_.Jwk(), ec_.Jwk(), ed_.Jwk(), later ? rotated_.Jwk() : revoked_.Jwk()}}});
    Replace("keys.json", {{"keys", keys}, {"tokens", tokens}, {"certificates", certificates}});
  }

  ServerConfig ConfigFor(const Caller& caller) const {
    ServerConfig config = TestConfig();
    config.auth_keys = folder_ / "keys.json";
    config.usage_db = folder_ / "usage.db";
    config.admin = "0.0.0.0:0";  // which can be reached, so that it asks, too
    if (!caller.tls) return config;
    config.tls = {.cert = folder_ / "server.pem",
                  .key = folder_ / "server.key",
                  .client_ca = folder_ / "clients.pem"};
    return config;
  }

  // The value of `authorization`; "": none.
  std::string Shown(const std::string& caller) const {
    const std::string shown = KeyOrToken(caller);
    return shown.empty() ? "" : "Bearer " + shown;
  }

  TlsClientFiles FilesOf(const std::string& caller) const {
    const std::string name = caller.find("an_admins") != std::string::npos   ? "admin"
                             : caller.find("a_readers") != std::string::npos ? "reader"
                                                                             : First(caller);
    return {folder_ / "server.pem", folder_ / (name + ".pem"), folder_ / (name + ".key")};
  }

 private:
  static std::string First(const std::string& caller) { return caller.substr(0, caller.find('_')); }

  static std::string HostOf(const std::string& name) { return name + ".example.org"; }

  void MakeCertificate(const std::string& name, const std::string& host) {
    has_tls_ = has_tls_ && test::MakeCertificate(folder_.path(), name, host);
    authorities_ += ReadText(folder_ / (name + ".pem"));
  }
  void Sign(const std::string& name, const std::string& holder,
            const test::CertificateTerms& terms) {
    has_tls_ = has_tls_ && test::MakeSignedCertificate(folder_.path(), name, HostOf(holder), terms);
  }
  void Replace(const std::string& name, const json& content) const {
    WriteText(folder_ / "new.json", content.dump());
    std::filesystem::rename(folder_ / "new.json", folder_ / name);
  }

  json KeyOf(const std::string& name, const std::string& role, const json& more = {}) const {
    json entry = {{"name", name + "-key"},
                  {"tenant", "shop"},
                  {"roles", {role}},
                  {"sha256", FormatKeyHash(*HashApiKey(keys_.at(name)))}};
    if (!more.empty()) entry.update(more);
    return entry;
  }
  static json CertificateOf(const std::string& name, const std::string& role,
                            const json& more = {}) {
    json entry = {{"name", name + "-certificate"},
                  {"san", "DNS:" + HostOf(name)},
                  {"tenant", "shop"},
                  {"roles", {role}}};
    if (!more.empty()) entry.update(more);
    return entry;
  }

  std::string KeyOrToken(const std::string& caller) const {
    if (caller == "malformed_key") return "password";
    if (caller.find("_key") != std::string::npos) return keys_.at(First(caller));
    return caller.find("_token") == std::string::npos ? "" : TokenOf(First(caller));
  }

  static json Claims(const std::string& role, const json& more = {}) {
    json claims = {{"iss", "us"},   {"aud", "upscaled"},
                   {"sub", "anna"}, {"tenant", "shop"},
                   {"roles", role}, {"exp", absl::ToUnixSeconds(absl::Now() + absl::Hours(1))}};
    if (!more.empty()) claims.update(more);
    return claims;
  }
  std::string TokenOf(const std::string& name) const {
    const int64_t now = absl::ToUnixSeconds(absl::Now());
    const std::string admin = Claims("admin").dump();
    const auto with_algorithm = [&](const TokenSigner& signer, const char* algorithm) {
      json header = signer.Header();
      header["alg"] = algorithm;
      return signer.Sign(header, admin);
    };
    if (name == "reader") return rsa_.Sign(Claims("read"));
    if (name == "uploader") return ec_.Sign(Claims("openid upscale"));
    if (name == "admin") return ed_.Sign(Claims("admin"));
    if (name == "roleless") return ed_.Sign(Claims("openid"));
    if (name == "expired") return ed_.Sign(Claims("admin", {{"exp", now - 60}}));
    if (name == "early") return ed_.Sign(Claims("admin", {{"nbf", now + 600}}));
    if (name == "strangers") return stranger_.Sign(Claims("admin"));
    if (name == "hmac") return with_algorithm(ed_, "HS256");
    if (name == "mixed") return with_algorithm(ec_, "RS256");
    if (name == "revoked") return revoked_.Sign(Claims("admin"));
    if (name == "rotated") return rotated_.Sign(Claims("upscale"));
    if (name == "unsigned") {
      const std::string token = with_algorithm(ed_, "none");
      return token.substr(0, token.rfind('.') + 1);
    }
    if (name == "issuer") return ed_.Sign(Claims("admin", {{"iss", "them"}}));
    return ed_.Sign(Claims("admin", {{"aud", "others"}}));
  }

  const TempFolder folder_;
  bool has_tls_ = true;
  std::string authorities_;
  std::map<std::string, std::string> keys_;
  const TokenSigner rsa_{"RS256", "rsa"}, ec_{"ES256", "ec"}, ed_{"EdDSA", "ed"},
      revoked_{"ES256", "revoked"}, rotated_{"ES256", "rotated"}, stranger_{"EdDSA", "ed"};
};

// --- A row's server ---

class IdentityTable : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    callers_ = std::make_unique<Callers>();
    std::mt19937 random = test::FreshRandom();
    image_ = std::make_unique<std::string>(
        *test::Encode(test::RandomImage({8, 6, 3, SampleType::kU8}, random).view(), {}));
  }
  static void TearDownTestSuite() {
    server_.reset();
    callers_.reset();
    image_.reset();
  }

  // One for all rows, with TLS or without, but for ten refusals of nobodies: an address with ten
  // wrong keys is told something else.
  static TestServer& ServerFor(const Caller& caller, Asked asked) {
    const int refusals = caller.taken == Taken::kForNobody && asked != Asked::kNothing ? 1 : 0;
    refusals_ += refusals;
    if (server_ != nullptr && tls_ == caller.tls && refusals_ <= 10) return *server_;
    refusals_ = refusals;
    server_.reset();
    callers_->WriteFiles(/*later=*/false);
    server_ = std::make_unique<TestServer>(callers_->ConfigFor(caller));
    callers_->WriteFiles(/*later=*/true);
    server_->server().Reload();
    tls_ = caller.tls;
    return *server_;
  }

  static inline std::unique_ptr<Callers> callers_;
  static inline std::unique_ptr<std::string> image_;

 private:
  static inline std::unique_ptr<TestServer> server_;
  static inline bool tls_ = false;
  static inline int refusals_ = 0;  // of server_, and that of this cell
};

// --- The columns of gRPC ---

struct GrpcClient {
  std::shared_ptr<grpc::Channel> channel, admin;
  const std::string& image;
};

// The end of a reflection call for all services.
grpc::Status Reflect(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context) {
  const auto stub = grpc::reflection::v1::ServerReflection::NewStub(channel);
  const auto stream = stub->ServerReflectionInfo(&context);
  grpc::reflection::v1::ServerReflectionRequest question;
  question.set_list_services("*");
  stream->Write(question);
  grpc::reflection::v1::ServerReflectionResponse answer;
  const bool answered = stream->Read(&answer);
  stream->WritesDone();
  grpc::Status status = stream->Finish();
  EXPECT_EQ(answered, status.ok());
  return status;
}

grpc::Status StreamImage(const GrpcClient& client, grpc::ClientContext& context) {
  const auto stream = pb::UpscaleService::NewStub(client.channel)->UpscaleImage(&context);
  if (stream->Write(StartMessage({})) && stream->Write(ChunkMessage(client.image))) {
    stream->WritesDone();
  }
  Outcome outcome;
  ReadToEnd(context, *stream, outcome);
  return outcome.status;
}

grpc::Status StreamTiles(const GrpcClient& client, grpc::ClientContext& context) {
  const auto stream = pb::UpscaleService::NewStub(client.channel)->UpscaleTiles(&context);
  pb::UpscaleTilesRequest request;
  request.mutable_start();
  stream->Write(request);
  stream->WritesDone();
  pb::UpscaleTilesResponse response;
  while (stream->Read(&response)) {
  }
  return stream->Finish();
}

// A unary call of `Service`.
template <typename Service, typename Request, typename Response>
grpc::Status Unary(grpc::Status (Service::StubInterface::*method)(grpc::ClientContext*,
                                                                  const Request&, Response*),
                   const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                   const Request& request = {}) {
  const std::unique_ptr<typename Service::StubInterface> stub = Service::NewStub(channel);
  Response response;
  return (stub.get()->*method)(&context, request, &response);
}

struct Method {
  const char* name;
  Asked asked;
  grpc::Status (*call)(const GrpcClient& client, grpc::ClientContext& context);
};
std::ostream& operator<<(std::ostream& out, const Method& method) { return out << method.name; }

using Upscaler = pb::UpscaleService;
const Method kMethods[] = {
    {"Health", Asked::kNothing,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       return Unary<grpc::health::v1::Health>(&grpc::health::v1::Health::StubInterface::Check,
                                              client.channel, context);
     }},
    {"ListModels", Asked::kRead,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       return Unary<Upscaler>(&Upscaler::StubInterface::ListModels, client.channel, context);
     }},
    {"GetModel", Asked::kRead,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       pb::GetModelRequest request;
       request.set_name("general-2x");
       return Unary<Upscaler>(&Upscaler::StubInterface::GetModel, client.channel, context, request);
     }},
    {"GetServerInfo", Asked::kRead,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       return Unary<Upscaler>(&Upscaler::StubInterface::GetServerInfo, client.channel, context);
     }},
    {"Upscale", Asked::kUpscale,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       pb::UpscaleRequest request;
       request.set_image(client.image);
       return Unary<Upscaler>(&Upscaler::StubInterface::Upscale, client.channel, context, request);
     }},
    {"UpscaleImage", Asked::kUpscale, StreamImage},
    {"UpscaleTiles", Asked::kUpscale, StreamTiles},
    {"ReloadModels", Asked::kAdmin,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       return Unary<pb::AdminService>(&pb::AdminService::StubInterface::ReloadModels, client.admin,
                                      context);
     }},
    {"AddModel", Asked::kAdmin,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       pb::AddModelResponse response;
       const auto writer = pb::AdminService::NewStub(client.admin)->AddModel(&context, &response);
       pb::AddModelRequest message;
       message.mutable_start()->set_file_name("no model's");
       writer->Write(message);
       writer->WritesDone();
       const grpc::Status status = writer->Finish();
       // An admitted caller gets an error about the name.
       return status.error_code() == StatusCode::INVALID_ARGUMENT ? grpc::Status() : status;
     }},
    {"ExportModel", Asked::kAdmin,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       pb::ExportModelRequest request;
       request.set_name("fast-2x");
       request.set_format(pb::MODEL_FORMAT_NCNN);
       const auto reader = pb::AdminService::NewStub(client.admin)->ExportModel(&context, request);
       pb::ExportModelResponse piece;
       while (reader->Read(&piece)) {
       }
       return reader->Finish();
     }},
    {"GetUsage", Asked::kAdmin,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       return Unary<pb::AdminService>(&pb::AdminService::StubInterface::GetUsage, client.admin,
                                      context);
     }},
    {"Reflection", Asked::kRead,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       return Reflect(client.channel, context);
     }},
    {"AdminReflection", Asked::kAdmin,
     [](const GrpcClient& client, grpc::ClientContext& context) {
       return Reflect(client.admin, context);
     }},
};

class GrpcIdentityTable : public IdentityTable,
                          public ::testing::WithParamInterface<std::tuple<Caller, Method>> {};

TEST_P(GrpcIdentityTable, Cell) {
  const auto& [caller, method] = GetParam();
  if (caller.tls && !callers_->has_tls()) GTEST_SKIP() << "no openssl";
  const TestServer& server = ServerFor(caller, method.asked);
  GrpcClient client{server.NewChannel(), server.NewAdminChannel(), *image_};
  if (caller.tls) {
    const TlsClientFiles files = callers_->FilesOf(caller.name);
    const auto credentials = grpc::SslCredentials({.pem_root_certs = ReadText(files.authority),
                                                   .pem_private_key = ReadText(files.key),
                                                   .pem_cert_chain = ReadText(files.certificate)});
    client.channel = server.NewChannel({}, credentials);
    client.admin = server.NewAdminChannel(credentials);
  }
  grpc::ClientContext context;
  const std::string shown = callers_->Shown(caller.name);
  if (!shown.empty()) context.AddMetadata("authorization", shown);
  const grpc::Status status = method.call(client, context);
  switch (Expected(caller.taken, method.asked)) {
    case Cell::kDone:
      EXPECT_TRUE(status.ok()) << status.error_message();
      break;
    case Cell::kUnauthenticated:
      EXPECT_TRUE(IsError(status, StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED", "API key"));
      break;
    case Cell::kDenied:
      EXPECT_TRUE(
          IsError(status, StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED", "lacks the role"));
      break;
    case Cell::kUnconnected:
      EXPECT_TRUE(IsError(status, StatusCode::UNAVAILABLE, "", ""));
      break;
  }
}

std::string CellName(const ::testing::TestParamInfo<std::tuple<Caller, Method>>& info) {
  return absl::StrCat(std::get<0>(info.param).name, "_", std::get<1>(info.param).name);
}
INSTANTIATE_TEST_SUITE_P(All, GrpcIdentityTable,
                         ::testing::Combine(ValuesIn(kCallers), ValuesIn(kMethods)), CellName);

// --- The columns of HTTP ---

struct Route {
  const char* name;
  Asked asked;
  const char* method;
  const char* target;
  int status;  // where the caller may
  bool has_image = false;
  bool admin = false;  // of the operators' port
};
std::ostream& operator<<(std::ostream& out, const Route& route) { return out << route.name; }

constexpr Route kRoutes[] = {
    {"Page", Asked::kNothing, "GET", "/", 200},
    {"Script", Asked::kNothing, "GET", "/app.js", 200},
    {"Docs", Asked::kNothing, "GET", "/docs", 200},
    {"OpenApi", Asked::kNothing, "GET", "/openapi.json", 200},
    {"Live", Asked::kNothing, "GET", "/v2/health/live", 200},
    {"AdminReady", Asked::kNothing, "GET", "/v2/health/ready", 200, false, true},
    {"Models", Asked::kRead, "GET", "/v1/models", 200},
    {"Model", Asked::kRead, "GET", "/v1/models/general-2x", 200},
    {"Info", Asked::kRead, "GET", "/v1/info", 200},
    {"Results", Asked::kRead, "GET", "/v1/results/none", 404},
    {"Progress", Asked::kRead, "GET", "/v1/progress/a%20b", 400},  // no id, so it is told at once
    {"Upscale", Asked::kUpscale, "POST", "/v1/upscale", 200, true},
    {"Job", Asked::kUpscale, "GET", "/v1/jobs/none", 404},
    {"JobResult", Asked::kUpscale, "GET", "/v1/jobs/none/result", 404},
    {"CancelJob", Asked::kUpscale, "DELETE", "/v1/jobs/none", 404},
    {"JobEvents", Asked::kUpscale, "GET", "/v1/jobs/none/events", 404},
    {"ListJobs", Asked::kUpscale, "GET", "/v1/jobs", 404},
    {"SubmitJobs", Asked::kUpscale, "POST", "/v1/jobs", 404, true},
    {"DryRun", Asked::kUpscale, "POST", "/v1/upscale?dry_run=true", 200, true},
    {"UpscaleHead", Asked::kUpscale, "HEAD", "/v1/upscale", 200, true},
    {"Usage", Asked::kAdmin, "GET", "/v1/usage", 200, false, true},
    {"Metrics", Asked::kAdmin, "GET", "/metrics", 200, false, true},
};

class HttpIdentityTable : public IdentityTable,
                          public ::testing::WithParamInterface<std::tuple<Caller, Route>> {};

TEST_P(HttpIdentityTable, Cell) {
  const auto& [caller, route] = GetParam();
  if (caller.tls && !callers_->has_tls()) GTEST_SKIP() << "no openssl";
  TestServer& server = ServerFor(caller, route.asked);
  const int port = route.admin ? server.server().admin_port() : server.server().http_port();
  HttpFields fields;
  const std::string shown = callers_->Shown(caller.name);
  if (!shown.empty()) fields["Authorization"] = shown;
  const std::string_view body = route.has_image ? std::string_view(*image_) : "";
  const HttpAnswer answer = caller.tls ? RequestOverTls(port, callers_->FilesOf(caller.name),
                                                        route.method, route.target, body, fields)
                                       : Request(port, route.method, route.target, body, fields);
  switch (Expected(caller.taken, route.asked)) {
    case Cell::kDone:
      EXPECT_EQ(answer.status, route.status) << answer.body;
      break;
    case Cell::kUnauthenticated:
      EXPECT_EQ(answer.status, 401) << answer.body;
      EXPECT_EQ(answer.fields.at("WWW-Authenticate"), "Bearer");
      break;
    case Cell::kDenied:
      EXPECT_EQ(answer.status, 403) << answer.body;
      break;
    case Cell::kUnconnected:
      EXPECT_EQ(answer.status, 0) << answer.body;
      break;
  }
}

std::string RouteCellName(const ::testing::TestParamInfo<std::tuple<Caller, Route>>& info) {
  return absl::StrCat(std::get<0>(info.param).name, "_", std::get<1>(info.param).name);
}
INSTANTIATE_TEST_SUITE_P(All, HttpIdentityTable,
                         ::testing::Combine(ValuesIn(kCallers), ValuesIn(kRoutes)), RouteCellName);

}  // namespace
}  // namespace upscaled::server
