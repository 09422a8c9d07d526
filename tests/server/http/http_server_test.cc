#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A connection to 127.0.0.1.
class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Client() {
    if (fd_ >= 0) close(fd_);
  }

  void Send(std::string_view text) {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  // Until the server closes.
  std::string ReadAll() {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = recv(fd_, buffer, sizeof(buffer), 0)) > 0;) text.append(buffer, n);
    return text;
  }

 private:
  int fd_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    auto server = HttpServer::Start("127.0.0.1:0", {.live = [this] { return live_.load(); },
                                                    .ready = [this] { return ready_.load(); },
                                                    .metrics = [] { return "answer 42\n"; }});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string Request(std::string_view method, std::string_view path) {
    Client client(server_->port());
    client.Send(absl::StrCat(std::string(method), " ", std::string(path),
                             " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
    return client.ReadAll();
  }

  std::atomic<bool> live_ = true, ready_ = false;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HealthFollowsItsFunctions) {
  EXPECT_THAT(Request("GET", "/v2/health/live"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Request("GET", "/v2/health/ready"), StartsWith("HTTP/1.1 503 "));
  ready_ = true;
  EXPECT_THAT(Request("GET", "/v2/health/ready"), StartsWith("HTTP/1.1 200 OK\r\n"));
  live_ = false;
  EXPECT_THAT(Request("GET", "/v2/health/live?verbose=1"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(HttpServerTest, ServesMetricsAsPrometheusText) {
  const std::string response = Request("GET", "/metrics");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(response, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_THAT(response, EndsWith("\r\n\r\nanswer 42\n"));
  EXPECT_THAT(Request("HEAD", "/metrics"), EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, SaysWhatThereIs) {
  EXPECT_THAT(Request("GET", "/"), HasSubstr("/v2/health/ready"));
  const std::string missing = Request("GET", "/v2/health");
  EXPECT_THAT(missing, StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(missing, HasSubstr("/metrics"));
  EXPECT_THAT(Request("GET", "/../../etc/passwd"), Not(HasSubstr("root:")));
  const std::string posted = Request("POST", "/metrics");
  EXPECT_THAT(posted, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(posted, HasSubstr("Allow: GET, HEAD\r\n"));
}

TEST_F(HttpServerTest, ATakenOrMalformedAddressIsAnError) {
  const auto start = [](const std::string& address) {
    return HttpServer::Start(address, {[] { return true; }, [] { return true; }, [] { return ""; }})
        .status();
  };
  const std::string taken = absl::StrCat("127.0.0.1:", server_->port());
  EXPECT_EQ(start(taken).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(start(taken).message(),
            absl::StrCat("cannot serve HTTP on ", taken, ": Address already in use"));
  for (const std::string address : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", ":-1", ""}) {
    EXPECT_EQ(start(address).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(start(address).message(), absl::StrCat("\"", address, "\" is no host:port"));
  }
}

TEST_F(HttpServerTest, SlowClientsHoldUpNobody) {
  std::vector<Client> clients;
  for (int i = 0; i < 30; ++i) {
    clients.emplace_back(server_->port());
    clients.back().Send(i % 2 ? "GET /metr" : "");
  }
  EXPECT_THAT(Request("GET", "/v2/health/live"), StartsWith("HTTP/1.1 200 OK\r\n"));
  server_.reset();
  for (Client& client : clients) EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(HttpServerTest, OversizedHeadersAreRefused) {
  Client client(server_->port());
  client.Send(absl::StrCat("GET / HTTP/1.1\r\nX: ", std::string(17 * 1024, 'x'), "\r\n\r\n"));
  EXPECT_THAT(client.ReadAll(), Not(HasSubstr("200 OK")));
}

}  // namespace
}  // namespace upscaled::server
