#include "client/channel.h"

#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/upscale_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"
#include "tests/client/temp_folder.h"
#include "tests/support/certificates.h"

// Debian's c-ares, gRPC's library for names, loses a copy of each name it finds in /etc/hosts.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares"; }

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseEndpointsTest, SplitsLists) {
  EXPECT_THAT(ParseEndpoints("a:1, b , [::1]:3,unix:/run/x.sock").value(),
              ElementsAre("a:1", "b", "[::1]:3", "unix:/run/x.sock"));
}

TEST(ParseEndpointsTest, RefusesWhatIsNoEndpoint) {
  for (const char* list : {"", ",", "a:", "a:0", "a:65536", "a:x", ":1", "[::1", "a:1,,b:2"}) {
    const absl::Status status = ParseEndpoints(list).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << list;
    EXPECT_THAT(std::string(status.message()), HasSubstr("endpoint '")) << list;
  }
}

TEST(ChannelTest, SpreadsCallsOverAllEndpointsThatAreUp) {
  FakeServer a, b;
  const std::string localhost =
      absl::StrCat("localhost", b.endpoint().substr(b.endpoint().find(':')));
  ClientOptions options;
  options.channel.endpoints = {a.endpoint(), localhost, "127.0.0.1:1"};
  const auto client = UpscaleClient::Create(options);
  ASSERT_TRUE(client.ok()) << client.status();
  // The first calls may come before both are connected.
  for (int calls = 0; a.calls() == 0 || b.calls() == 0; ++calls) {
    ASSERT_LT(calls, 10'000);
    ASSERT_TRUE((*client)->ListModels().ok());
  }
}

TEST(ChannelTest, OneNameIsEnough) {
  FakeServer server;
  ClientOptions options;
  options.channel.endpoints = {
      absl::StrCat("localhost", server.endpoint().substr(server.endpoint().find(':')))};
  EXPECT_TRUE(UpscaleClient::Create(options).value()->ListModels().ok());
}

TEST(ChannelTest, UnknownNamesOfAListAreErrors) {
  const absl::Status status =
      MakeChannel({.endpoints = {"127.0.0.1:1", "no-such-host.invalid:1"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'no-such-host.invalid'"));
}

TEST(ChannelTest, TlsOptionsMustFitTogether) {
  ChannelOptions options{.tls = TlsOptions{.cert_file = "cert.pem"}};
  EXPECT_EQ(MakeChannel(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.tls = TlsOptions{.ca_file = "/none/ca.pem"};
  EXPECT_EQ(MakeChannel(options).status(),
            absl::NotFoundError("cannot read the TLS file /none/ca.pem"));
  options.tls = TlsOptions{};
  options.endpoints = {"a:1", "b:1"};
  EXPECT_EQ(MakeChannel(options).status().code(), absl::StatusCode::kInvalidArgument);
}

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::MakeCertificate(folder_.path(), "cert", "image.example")) {
      GTEST_SKIP() << "no openssl command here";
    }
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = ReadText(folder_ / "cert.pem");
    options.pem_key_cert_pairs = {{ReadText(folder_ / "cert.key"), options.pem_root_certs}};
    server_ = std::make_unique<FakeServer>(grpc::SslServerCredentials(options));
  }

  // The outcome of a call with the right certificates, changed by `change`.
  absl::Status Call(const std::function<void(TlsOptions&)>& change = [](TlsOptions&) {}) {
    TlsOptions tls{.ca_file = folder_ / "cert.pem",
                   .cert_file = folder_ / "cert.pem",
                   .key_file = folder_ / "cert.key",
                   .server_name = "image.example"};
    change(tls);
    ClientOptions options;
    options.channel.endpoints = {server_->endpoint()};
    options.channel.tls = tls;
    options.retry.max_retries = 0;
    auto client = UpscaleClient::Create(options);
    return client.ok() ? (*client)->ListModels().status() : client.status();
  }

  TempFolder folder_;
  std::unique_ptr<FakeServer> server_;
};

TEST_F(TlsTest, BothSidesProveWhoTheyAre) {
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(Call([](TlsOptions& tls) { tls.server_name = "other.example"; }).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call([](TlsOptions& tls) { tls.ca_file.clear(); }).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call([](TlsOptions& tls) {
              tls.cert_file.clear();
              tls.key_file.clear();
            }).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace upscaled::client
