// The routes of operators over a real connection.
#include "server/http/http_server.h"

#include <atomic>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/http_router.h"
#include "server/http/operator_routes.h"
#include "tests/server/http/http_client.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0",
         .title = "a test",
         .routes = AdminRoutes(
             {[this] { return live_ ? "" : "dead"; }, [this] { return ready_ ? "" : "asleep"; },
              [this] { return notes_ ? "warning: awake" : ""; }},
             [] { return "answer 42\n"; })},
        table_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string Request(std::string_view method, std::string_view path) {
    return Fetch(server_->port(), method, path);
  }

  std::atomic<bool> live_ = true, ready_ = false, notes_ = false;
  ConnectionTable table_{ConnectionLimits()};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HealthFollowsItsFunctions) {
  EXPECT_THAT(Request("GET", "/v2/health/live"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Request("GET", "/v2/health/ready"), StartsWith("HTTP/1.1 503 "));
  ready_ = true;
  EXPECT_THAT(Request("GET", "/v2/health/ready"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Request("GET", "/v2/health/ready"), EndsWith("\r\n\r\nok\n"));
  notes_ = true;
  EXPECT_THAT(Request("GET", "/v2/health/ready"), EndsWith("\r\n\r\nok\nwarning: awake\n"));
  EXPECT_THAT(Request("GET", "/v2/health/live"), EndsWith("\r\n\r\nok\n"));
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
  EXPECT_THAT(Request("HEAD", "/metrics"), HasSubstr("Content-Length: 10\r\n"));
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

TEST(HttpRouterTest, AllowsEachMethodOnce) {
  const HttpHandler none = [](const HttpRequest&, std::unique_ptr<HttpResponseWriter>) {};
  const HttpRouter router("a test", {{.method = "GET", .path = "/", .handler = none},
                                     {.method = "GET", .path = "/", .handler = none},
                                     {.method = "DELETE", .path = "/", .handler = none}});
  HttpRequest request;
  request.method = "PUT";
  request.path = "/";
  const auto found = router.Find(request);
  ASSERT_TRUE(std::holds_alternative<HttpFault>(found));
  EXPECT_THAT(std::string(std::get<HttpFault>(found).error.message()),
              HasSubstr("takes GET, HEAD, DELETE, not PUT"));
}

TEST(HttpRouterTest, NamesEachPathOnce) {
  const HttpHandler none = [](const HttpRequest&, std::unique_ptr<HttpResponseWriter>) {};
  const HttpRouter router(
      "a test", {{.method = "POST", .path = "/b", .description = "", .handler = none},
                 {.method = "GET", .path = "/b", .description = "reads", .handler = none},
                 {.method = "DELETE", .path = "/b", .description = "ends", .handler = none},
                 {.method = "GET", .path = "/b/c", .description = "reads more", .handler = none}});
  HttpRequest request;
  request.method = "GET";
  request.path = "/d";
  const auto found = router.Find(request);
  ASSERT_TRUE(std::holds_alternative<HttpFault>(found));
  EXPECT_THAT(std::string(std::get<HttpFault>(found).error.message()),
              EndsWith("there are /, /b, /b/c"));
}

TEST_F(HttpServerTest, MetricsAreNotAmongTheRoutesOfHealth) {
  const auto health =
      HttpServer::Start({.address = "127.0.0.1:0",
                         .title = "health",
                         .routes = HealthRoutes({[] { return ""; }, [] { return ""; }})},
                        table_);
  ASSERT_TRUE(health.ok()) << health.status();
  EXPECT_THAT(Fetch((*health)->port(), "GET", "/v2/health/ready"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Fetch((*health)->port(), "GET", "/metrics"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Fetch((*health)->port(), "GET", "/nothing"),
              AllOf(HasSubstr("there are /, /v2/health/live"), Not(HasSubstr("/metrics"))));
}

TEST_F(HttpServerTest, ATakenOrMalformedAddressIsAnError) {
  const auto start = [this](const std::string& address) {
    return HttpServer::Start({.address = address}, table_).status();
  };
  const std::string taken = absl::StrCat("127.0.0.1:", server_->port());
  EXPECT_EQ(start(taken).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(start(taken).message()),
              StartsWith(absl::StrCat("cannot listen on ", taken, ": Address already in use")));
  for (const std::string address : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", ":-1", ""}) {
    EXPECT_EQ(start(address).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(start(address).message(),
              absl::StrCat("\"", address,
                           "\": the address must be HOST:PORT with a port from 0 to 65535, such as "
                           "127.0.0.1:8001 or [::1]:8001, or unix:PATH"));
  }
}

TEST_F(HttpServerTest, SlowClientsHoldUpNobody) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<Client>(server_->port()));
    clients.back()->Send(i % 2 ? "GET /metr" : "");
  }
  EXPECT_THAT(Request("GET", "/v2/health/live"), StartsWith("HTTP/1.1 200 OK\r\n"));
  server_.reset();
  for (const auto& client : clients) EXPECT_EQ(client->ReadAll(), "");
}

}  // namespace
}  // namespace upscaled::server
