// HTTPS.
#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/http_server.h"
#include "server/http/operator_routes.h"
#include "tests/client/temp_folder.h"
#include "tests/server/http/http_client.h"
#include "tests/support/certificates.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsClient {
 public:
  explicit TlsClient(int port)
      : client_(port), context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    SSL_set_fd(ssl_, client_.fd());
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool Connect() { return SSL_connect(ssl_) == 1; }
  void SetVersion(int version) { SSL_set_max_proto_version(ssl_, version); }
  void Send(const std::string& text) {
    EXPECT_EQ(SSL_write(ssl_, text.data(), static_cast<int>(text.size())), std::ssize(text));
  }
  std::string ReadSome() {
    char buffer[4096];
    const int n = SSL_read(ssl_, buffer, sizeof(buffer));
    return std::string(buffer, static_cast<size_t>(std::max(n, 0)));
  }
  std::string ReadAll() {
    std::string text;
    char buffer[4096];
    errno = 0;
    for (int n; (n = SSL_read(ssl_, buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
    reset_ = errno == ECONNRESET;
    ended_properly_ = SSL_get_error(ssl_, 0) == SSL_ERROR_ZERO_RETURN;
    return text;
  }
  bool ended_properly() const { return ended_properly_; }
  bool reset() const { return reset_; }

 private:
  Client client_;
  SSL_CTX* const context_;
  SSL* const ssl_;
  bool ended_properly_ = false, reset_ = false;
};

class HttpTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::MakeCertificate(folder_.path(), "server", "localhost")) {
      GTEST_SKIP() << "no openssl command";
    }
    auto tls = TlsContext::Load(
        {.cert = folder_.path() / "server.pem", .key = folder_.path() / "server.key"});
    ASSERT_TRUE(tls.ok()) << tls.status();
    tls_ = *std::move(tls);
    auto server = HttpServer::Start({.address = "127.0.0.1:0",
                                     .title = "a test",
                                     .routes = Routes(),
                                     .limits = {.header_timeout = absl::Milliseconds(500)},
                                     .tls = tls_.get()},
                                    table_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  ~HttpTlsTest() override {
    server_.reset();
    if (echo_.joinable()) echo_.join();
  }

  std::vector<HttpRoute> Routes() {
    std::vector<HttpRoute> routes = HealthRoutes({[] { return ""; }, [] { return ""; }});
    routes.push_back({.method = "POST",
                      .path = "/echo",
                      .description = "",
                      .stream =
                          [this](std::unique_ptr<HttpExchange> exchange) {
                            echo_ = std::thread(Echo, std::move(exchange));
                          },
                      .max_body_bytes = uint64_t{100} << 20});
    return routes;
  }
  static void Echo(std::unique_ptr<HttpExchange> exchange) {
    EXPECT_TRUE(exchange->Begin({}, {}).ok());
    std::vector<uint8_t> piece(100'000);
    while (true) {
      const absl::StatusOr<size_t> n = exchange->Read(piece);
      if (!n.ok() || !exchange->Write(std::span(piece).first(*n)).ok()) return;
      if (*n == 0) return exchange->Finish({});
    }
  }

  std::thread echo_;
  client::TempFolder folder_;
  ConnectionTable table_{ConnectionLimits()};
  std::unique_ptr<TlsContext> tls_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, ServesHealth) {
  TlsClient client(server_->port());
  ASSERT_TRUE(client.Connect());
  client.Send(
      "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /v2/health/ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                                      HasSubstr("ok\nHTTP/1.1 200 OK\r\n"), EndsWith("ok\n")));
  EXPECT_TRUE(client.ended_properly());
}

TEST_F(HttpTlsTest, StreamsBodiesAndAnswers) {
  TlsClient client(server_->port());
  ASSERT_TRUE(client.Connect());
  constexpr size_t kBytes = 700'000;  // what the server holds without a disk
  client.Send(absl::StrCat(
      "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ", kBytes,
      "\r\n\r\n"));
  client.Send(std::string(kBytes, 'x'));
  const std::string answer = client.ReadAll();
  EXPECT_EQ(std::count(answer.begin(), answer.end(), 'x'), static_cast<ptrdiff_t>(kBytes));
  EXPECT_THAT(answer, EndsWith("\r\n0\r\n\r\n"));
  EXPECT_TRUE(client.ended_properly());
}

// A client without an eye on close_notify would take a cut answer for a whole one.
TEST_F(HttpTlsTest, ForHttp10ACutIsAReset) {
  TlsClient client(server_->port());
  ASSERT_TRUE(client.Connect());
  client.Send("POST /echo HTTP/1.0\r\nContent-Length: 10\r\n\r\nhello");
  EXPECT_THAT(client.ReadSome(), StartsWith("HTTP/1.0 200 OK\r\n"));
  server_->Close(absl::ZeroDuration());
  client.ReadAll();
  EXPECT_TRUE(client.reset());
}

TEST_F(HttpTlsTest, RefusesPlainTextAndOldVersions) {
  EXPECT_THAT(Fetch(server_->port(), "GET", "/"), testing::Not(HasSubstr("HTTP/1.1 200")));
  TlsClient old(server_->port());
  old.SetVersion(TLS1_1_VERSION);
  EXPECT_FALSE(old.Connect());
}

TEST_F(HttpTlsTest, AHandshakeOrHeaderThatDoesNotComeEndsTheConnection) {
  Client silent(server_->port());
  EXPECT_EQ(silent.ReadAll(), "");
  TlsClient client(server_->port());
  ASSERT_TRUE(client.Connect());
  EXPECT_EQ(client.ReadAll(), "");
  TlsClient begun(server_->port());
  ASSERT_TRUE(begun.Connect());
  begun.Send("GET / HTTP/1.1\r\n");
  EXPECT_THAT(begun.ReadAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_GE(table_.counts().ended[static_cast<size_t>(Offence::kHandshakeTimeout)], 2);
}

}  // namespace
}  // namespace upscaled::server
