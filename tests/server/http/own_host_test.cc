#include "server/http/own_host.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/http/http_server.h"
#include "server/http/operator_routes.h"
#include "tests/server/http/http_client.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(OwnHostTest, KnowsThisMachine) {
  for (const char* const host :
       {"127.0.0.1", "127.0.0.1:8002", "[::1]:8002", "[::1]", "localhost", "upscaled:8002",
        "LOCALHOST:1", "admin.localhost", "10.1.2.3:80", "Ops.internal"}) {
    EXPECT_TRUE(IsOwnHost(host, "ops.internal")) << host;
  }
  for (const char* const host :
       {"", ":8002", "evil.example", "evil.example:8002", "localhost.evil.example",
        "127.0.0.1.evil.example", "127.1", "[::1", "[evil.example]", "::1"}) {
    EXPECT_FALSE(IsOwnHost(host, "ops.internal")) << host;
    EXPECT_FALSE(IsOwnHost(host, "")) << host;
  }
}

TEST(OwnHostTest, APageOfAnotherNameReadsNoMetrics) {
  ConnectionTable table{ConnectionLimits()};
  auto server = HttpServer::Start(
      {.address = "127.0.0.1:0",
       .title = "a test",
       .routes = AdminRoutes({[] { return ""; }, [] { return ""; }}, [] { return "secret 42\n"; }),
       .guard = OwnHostGuard("")},
      table);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto fetch = [&](const std::string& host, const std::string& path) {
    Client client((*server)->port());
    client.Send(
        absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", host, "\r\nConnection: close\r\n\r\n"));
    return client.ReadAll();
  };
  EXPECT_THAT(fetch("127.0.0.1", "/metrics"), HasSubstr("secret 42"));
  const std::string refused = fetch("evil.example", "/metrics");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(refused, HasSubstr("the host \"evil.example\" is not this machine"));
  EXPECT_THAT(fetch("probe.example", "/v2/health/live"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(fetch("", "/metrics"), StartsWith("HTTP/1.1 421 "));

  const auto fetch_without = [&](const std::string& fields) {
    Client client((*server)->port());
    client.Send(absl::StrCat("GET /metrics HTTP/1.0\r\n", fields, "\r\n"));
    return client.ReadAll();
  };
  EXPECT_THAT(fetch_without(""), HasSubstr("secret 42")) << "no browser asks so";
  EXPECT_THAT(fetch_without("Host: evil.example\r\n"), HasSubstr(" 421 "));
}

}  // namespace
}  // namespace upscaled::server
