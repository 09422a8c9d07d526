// Clients pipeline, cut, end their half and go: no request outlives its connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/http/http_server.h"
#include "server/spool/spool.h"
#include "tests/client/temp_folder.h"
#include "tests/server/http/http_client.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

// Long enough to keep stalls from ending a request within a test.
constexpr absl::Duration kStallTimeout = absl::Hours(1);

// Counts the exchanges between their beginning and their end.
class HttpGoneTest : public ::testing::Test {
 protected:
  using Work = std::function<void(HttpExchange&)>;

  ~HttpGoneTest() override { End(); }
  void End() {
    server_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void Serve(const Work& work, size_t spool_bytes = size_t{1} << 20) {
    HttpServerOptions options{.address = "127.0.0.1:0",
                              .title = "a test",
                              .limits = {.header_timeout = kStallTimeout,
                                         .idle_timeout = kStallTimeout,
                                         .stall_timeout = kStallTimeout}};
    const BodyBudgetOptions bodies{.spool_dir = folder_.path(), .spool_bytes = spool_bytes};
    options.budget = spool_.emplace(bodies, timer_).budget();
    for (const std::string method : {"POST", "GET"}) {
      options.routes.push_back({.method = method,
                                .path = "/stream",
                                .stream =
                                    [this, work](std::unique_ptr<HttpExchange> exchange) {
                                      ++in_flight_;
                                      exchange->OnGone([this] { ++gone_; });
                                      threads_.emplace_back(
                                          [this, work, exchange = std::move(exchange)]() mutable {
                                            work(*exchange);
                                            exchange.reset();
                                            --in_flight_;
                                          });
                                    },
                                .max_body_bytes = uint64_t{100} << 20});
    }
    options.routes.push_back(
        {.method = "GET", .path = "/plain", .handler = [](const HttpRequest&, auto writer) {
           writer->Send(TextResponse(200, "p"));
         }});
    auto server = HttpServer::Start(std::move(options), table_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  int port() const { return server_->port(); }

  // Reads the body, then answers at once or as a stream.
  static void Answer(HttpExchange& exchange) {
    std::vector<uint8_t> piece(1000);
    while (exchange.Read(piece).value_or(0) > 0) {
    }
    if (exchange.request().query.empty()) return exchange.Send(TextResponse(200, "whole"));
    if (!exchange.Begin({}, {}).ok()) return;
    (void)exchange.Write(piece);
    (void)exchange.Settle();
    exchange.Finish({});
  }

  client::TempFolder folder_;
  Timer timer_;
  std::optional<Spool> spool_;  // since Serve
  ConnectionTable table_{ConnectionLimits()};
  std::atomic<int> in_flight_ = 0, gone_ = 0;
  std::vector<std::thread> threads_;  // added on the server's thread alone
  std::unique_ptr<HttpServer> server_;
};

constexpr char kCutPost[] =
    "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 852\r\n\r\nthe beginning";

// The end of the input may come while the first answer is written and not yet sent.
TEST_F(HttpGoneTest, ACutRequestBehindAnotherEndsWithItsConnection) {
  Serve(Answer);
  for (int i = 0; i < 300; ++i) {
    Client client(port());
    client.Send(absl::StrCat("HEAD /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", kCutPost));
    client.EndOutput();
    if (i % 2 == 0) client.ReadUntil("\r\n\r\n");
  }
  test::Await([&] { return table_.counts().open == 0 && in_flight_ == 0; });
}

TEST_F(HttpGoneTest, NothingStaysOfRandomPipelines) {
  Serve(Answer);
  std::mt19937 random = test::FreshRandom();
  const auto below = [&](size_t n) { return random() % n; };
  for (int i = 0; i < 400; ++i) {
    std::string bytes;
    for (size_t requests = 1 + below(4); requests > 0; --requests) {
      const std::string body(below(3) == 0 ? below(40'000) : below(200), 'x');
      const std::string target = below(2) == 0 ? "/stream" : "/stream?pieces";
      switch (below(5)) {
        case 0:
          bytes += "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n";
          break;
        case 1:
          absl::StrAppend(&bytes, "HEAD ", target, " HTTP/1.1\r\nHost: a\r\n\r\n");
          break;
        case 2:
          absl::StrAppend(&bytes, "POST ", target,
                          " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ", "chunked\r\n\r\n",
                          absl::Hex(body.size() + 1), "\r\nx", body, "\r\n0\r\n\r\n");
          break;
        default:
          absl::StrAppend(&bytes, "POST ", target,
                          " HTTP/1.1\r\nHost: a\r\nContent-Length: ", body.size(), "\r\n\r\n",
                          body);
      }
    }
    if (below(3) != 0) bytes.resize(below(bytes.size()) + 1);
    Client client(port());
    const timeval patience = {.tv_sec = 0, .tv_usec = 5000};
    setsockopt(client.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const size_t first = below(2) == 0 ? bytes.size() : below(bytes.size());
    client.TrySend(std::string_view(bytes).substr(0, first));
    if (first < bytes.size()) client.TrySend(std::string_view(bytes).substr(first));
    if (below(2) == 0) client.EndOutput();
    if (below(2) == 0) client.ReadUntil("\r\n\r\n");  // or until nothing comes
    if (below(4) == 0) {
      const linger reset = {.l_onoff = 1, .l_linger = 0};
      setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
  }
  test::Await([&] { return table_.counts().open == 0 && in_flight_ == 0; });
}

TEST_F(HttpGoneTest, AClientThatGoesBehindMoreBytesThanAreReadAheadIsNoticed) {
  absl::Notification over;
  Serve([&](HttpExchange& exchange) {
    std::vector<uint8_t> piece(100);
    EXPECT_TRUE(exchange.Read(piece).ok());
    over.WaitForNotification();
  });
  {
    Client client(port());
    client.Send("POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    client.Send(std::string(100'000, 'x'));
    test::Await([&] { return in_flight_ == 1; });
  }
  test::Await([&] { return gone_ == 1; });
  over.Notify();
  End();
}

TEST_F(HttpGoneTest, AClientThatGoesBehindABodyThatWaitsIsNoticed) {
  absl::Notification over;
  Serve([&](HttpExchange&) { over.WaitForNotification(); }, /*spool_bytes=*/0);
  {
    Client client(port());
    client.Send("POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
    client.Send(std::string(1'200'000, 'x'));  // more than waits in memory
    test::Await([&] { return in_flight_ == 1; });
  }
  test::Await([&] { return gone_ == 1; });
  over.Notify();
  End();
}

}  // namespace
}  // namespace upscaled::server
