#include "client/worker/url_file.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/client/fake_http_server.h"

namespace upscaled::client {
namespace {

absl::Status PostTo(const std::string& answer) {
  const FakeHttpServer server([&](const FakeHttpRequest&) { return answer; });
  return Post(server.url(), {}, "body", /*allowed=*/nullptr, {});
}

TEST(PostTest, AnEndlessAnswerIsCut) {
  const std::string body(100'000, 'x');  // and no end
  EXPECT_EQ(PostTo(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", body)),
            absl::OkStatus())
      << "it was taken";
  const absl::Status refused =
      PostTo(absl::StrCat("HTTP/1.1 404 Not Found\r\nContent-Length: 1000000000000\r\n\r\n", body));
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound) << refused;
}

TEST(PostTest, AnEndlessHeaderIsNoAnswer) {
  for (const char* const begin : {"HTTP/1.1 200 OK\r\n", "HTTP/1.1 404 Not Found\r\n"}) {
    std::string answer = begin;
    for (int i = 0; i < 100; ++i)
      absl::StrAppend(&answer, "X-", i, ": ", std::string(1000, 'x'), "\r\n");
    EXPECT_FALSE(PostTo(answer + "Content-Length: 0\r\n\r\n").ok());
  }
  std::string waits;
  for (int i = 0; i < 3000; ++i) waits += "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n";
  EXPECT_EQ(PostTo(waits + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(PostTo("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            absl::OkStatus());
}

}  // namespace
}  // namespace upscaled::client
