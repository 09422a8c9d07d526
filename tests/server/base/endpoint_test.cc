#include "server/base/endpoint.h"

#include <gmock/gmock.h>

#include "engine/base/unix_address.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(EndpointTest, ReadsNamesAndAddresses) {
  struct Case {
    const char* text;
    const char* host;
    int port;
  };
  for (const auto& [text, host, port] :
       {Case{"127.0.0.1:8001", "127.0.0.1", 8001}, Case{"[::1]:65535", "::1", 65535},
        Case{"some-host:0", "some-host", 0}, Case{"[fe80::1%eth0]:1", "fe80::1%eth0", 1}}) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    ASSERT_TRUE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint->host, host);
    EXPECT_EQ(endpoint->port, port);
    EXPECT_EQ(FormatEndpoint(*endpoint), text);
  }
}

TEST(EndpointTest, RefusesWhatIsNone) {
  for (const char* text : {"", ":", ":80", "host", "host:", "host:-1", "host:65536", "host:x",
                           "::1:80", "[::1:80", "::1]:80", "[]:80", "[::1]", "[::1]80"}) {
    EXPECT_THAT(std::string(ParseEndpoint(text).status().message()), HasSubstr("HOST:PORT"))
        << text;
  }
}

TEST(EndpointTest, ReadsPathsOfUnixSockets) {
  for (const std::string& path : {std::string("/run/upscaled/grpc.sock"), std::string("a b:8001"),
                                  std::string(kMaxSocketPathBytes, 'x')}) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint("unix:" + path);
    ASSERT_TRUE(endpoint.ok()) << path;
    EXPECT_TRUE(endpoint->is_unix());
    EXPECT_EQ(endpoint->path, path);
    EXPECT_EQ(FormatEndpoint(*endpoint), "unix:" + path);
  }
}

TEST(EndpointTest, RefusesPathsThatNoSocketCanHave) {
  const std::string longest(kMaxSocketPathBytes + 1, 'x');
  EXPECT_THAT(std::string(ParseEndpoint("unix:" + longest).status().message()),
              AllOf(HasSubstr("108 bytes"), HasSubstr("at most 107")));
  for (const std::string& path : {std::string(), std::string("a\0b", 3)}) {
    EXPECT_THAT(std::string(ParseEndpoint("unix:" + path).status().message()),
                HasSubstr("must have a path"));
  }
}

TEST(EndpointTest, KnowsLoopback) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example.org", "127.example.org"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace upscaled::server
