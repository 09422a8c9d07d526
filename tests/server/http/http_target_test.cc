#include "server/http/http_target.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

void ExpectTarget(std::string_view text, std::string_view path, std::string_view query) {
  const absl::StatusOr<HttpTarget> target = ParseHttpTarget(text);
  ASSERT_TRUE(target.ok()) << text << ": " << target.status();
  EXPECT_EQ(target->path, path) << text;
  EXPECT_EQ(target->query, query) << text;
}

TEST(HttpTargetTest, TakesEveryFormOfAPath) {
  ExpectTarget("/", "/", "");
  ExpectTarget("/a/b?c=d&e=%20?/", "/a/b", "c=d&e=%20?/");
  ExpectTarget("/a?", "/a", "");
  ExpectTarget("//a", "//a", "");
  ExpectTarget("/../a", "/../a", "");
  ExpectTarget("http://host:1/a?b", "/a", "b");
  ExpectTarget("HTTPS://host", "/", "");
  ExpectTarget("http://host?b", "/", "b");
  ExpectTarget("/http://host/", "/http://host/", "");
  ExpectTarget("*", "*", "");
}

TEST(HttpTargetTest, DecodesThePathAlone) {
  ExpectTarget("/%6d%65trics", "/metrics", "");
  ExpectTarget("/a%2Bb+c%25?%6d", "/a+b+c%", "%6d");
  ExpectTarget("/%C3%a9", "/\xc3\xa9", "");
  ExpectTarget("/%2e%2e/", "/../", "");
}

TEST(HttpTargetTest, RefusesWhatHasTwoReadings) {
  for (const char* text :
       {"", "a", "host:80", "ftp://host/", "http:/a", "/%", "/%4", "/%4g", "/%g4", "/a%", "/a%2",
        "/%2fa", "/%2F", "/%00", "/a#b", "/a?b#c", "?a", "**"}) {
    const absl::StatusOr<HttpTarget> target = ParseHttpTarget(text);
    EXPECT_EQ(target.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace upscaled::server
