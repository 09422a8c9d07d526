// HTTP/1.1 and HTTP/2 on one port.
#include "server/http/protocol_choice.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/http_server.h"
#include "server/http/operator_routes.h"
#include "server/net/http2_port.h"
#include "tests/server/http/http_client.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

using ::testing::StartsWith;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class ProtocolChoiceTest : public ::testing::Test {
 protected:
  std::unique_ptr<HttpServer> StartServer(const HttpLimits& limits = {}) {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0",
         .title = "a test",
         .routes = HealthRoutes({[] { return ""; }, [] { return ""; }}),
         .limits = limits,
         .on_http2 =
             [this](AcceptedConnection connection) {
               absl::MutexLock lock(&mutex_);
               http2_ = std::make_unique<AcceptedConnection>(std::move(connection));
             }},
        table_);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  std::unique_ptr<AcceptedConnection> AwaitHttp2() {
    absl::MutexLock lock(&mutex_);
    const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return http2_ != nullptr; };
    mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(10));
    return std::move(http2_);
  }

  ConnectionTable table_{ConnectionLimits()};
  absl::Mutex mutex_;
  std::unique_ptr<AcceptedConnection> http2_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(ProtocolChoiceTest, ThePrefaceIsHandedOverUnread) {
  const auto server = StartServer();
  Client client(server->port());
  // Byte by byte: the first of them could be those of POST.
  for (const char byte : kPreface) client.Send({&byte, 1});
  const std::unique_ptr<AcceptedConnection> connection = AwaitHttp2();
  ASSERT_NE(connection, nullptr);
  EXPECT_EQ(connection->peer.host, "127.0.0.1");
  EXPECT_TRUE(connection->place);
  std::string bytes(kPreface.size(), '\0');
  for (size_t at = 0; at < bytes.size();) {  // the socket does not block
    const ssize_t count = recv(connection->socket.get(), bytes.data() + at, bytes.size() - at, 0);
    if (count > 0) at += static_cast<size_t>(count);
  }
  EXPECT_EQ(bytes, kPreface);
  EXPECT_EQ(send(connection->socket.get(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(client.ReadUntil("x"), "x");
}

TEST_F(ProtocolChoiceTest, APortOfHttp2MayServeThem) {
  absl::Notification served;
  UniqueFd socket;
  auto http2 = Http2Port::Start({.on_connection =
                                     [&](UniqueFd server, const PeerAddress& peer) {
                                       EXPECT_EQ(peer.host, "127.0.0.1");
                                       socket = std::move(server);
                                       served.Notify();
                                     }},
                                table_);
  ASSERT_TRUE(http2.ok()) << http2.status();
  const auto server = StartServer();
  Client client(server->port());
  client.Send(kPreface);
  std::unique_ptr<AcceptedConnection> connection = AwaitHttp2();
  ASSERT_NE(connection, nullptr);
  (*http2)->Take(std::move(*connection));
  served.WaitForNotification();
  EXPECT_EQ(send(socket.get(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(client.ReadUntil("x"), "x");
  EXPECT_EQ(table_.counts().open, 1);
  (*http2)->StopAccepting();
  (*http2)->Close(absl::ZeroDuration());
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_EQ(table_.counts().open, 0);
}

TEST_F(ProtocolChoiceTest, OthersAreHttp1) {
  const auto server = StartServer();
  EXPECT_THAT(Fetch(server->port(), "GET", "/v2/health/live"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Fetch(server->port(), "POST", "/v2/health/live"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Exchange(server->port(), "PRI * HTTP/2.1\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  Client dripping(server->port());
  for (const char byte : std::string_view("GET / HTTP/1.0\r\n\r\n")) dripping.Send({&byte, 1});
  EXPECT_THAT(dripping.ReadAll(), StartsWith("HTTP/1.0 200 "));
}

TEST_F(ProtocolChoiceTest, WhoSendsTooLittleIsClosed) {
  const auto server = StartServer({.header_timeout = absl::Milliseconds(200)});
  Client silent(server->port()), begun(server->port());
  begun.Send("PRI * HTT");
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(begun.ReadAll(), "");
  Client ended(server->port());
  ended.EndOutput();
  EXPECT_EQ(ended.ReadAll(), "");
  EXPECT_EQ(table_.counts().open, 0);
}

TEST_F(ProtocolChoiceTest, TheServersEndClosesWhoIsUndecided) {
  auto server = StartServer();
  Client client(server->port());
  client.Send("PRI");
  test::Await([&] { return table_.counts().open != 0; });
  server.reset();
  EXPECT_EQ(client.ReadAll(), "");
}

}  // namespace
}  // namespace upscaled::server
