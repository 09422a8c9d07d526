#include "server/fetch/fetcher.h"

#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/fetch/test_origin.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::string RedirectTo(const std::string& location, int status = 302) {
  return absl::StrCat("HTTP/1.1 ", status, " Found\r\nLocation: ", location,
                      "\r\nContent-Length: 5\r\n\r\nmoved");
}

FetchOptions PrivateOptions(const std::vector<std::string>& prefixes) {
  return {.allowed_private = *ParseUrlPrefixes(prefixes)};
}

absl::StatusOr<std::string> ReadAll(ByteSource& source) {
  std::string all;
  std::vector<uint8_t> piece(5000);
  while (true) {
    const absl::StatusOr<size_t> count = source.Read(piece);
    if (!count.ok()) return count.status();
    if (*count == 0) return all;
    all.append(piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*count));
  }
}

// All bytes at `url`.
absl::StatusOr<std::string> Get(const FetchOptions& options, const std::string& text) {
  const Fetcher fetcher(options);
  Cancellation cancellation;
  const absl::StatusOr<SourceUrl> url = fetcher.Check(text);
  if (!url.ok()) return url.status();
  const absl::StatusOr<FetchedSource> source = fetcher.Fetch(*url, cancellation);
  if (!source.ok()) return source.status();
  return ReadAll(*source->bytes);
}

absl::StatusOr<std::string> Get(const TestOrigin& origin) {
  return Get(PrivateOptions({origin.Url("")}), origin.Url("/a.png"));
}

void ExpectRefused(const absl::Status& status, const std::string& part) {
  EXPECT_EQ(ReasonOf(status), ErrorReason::kSourceRefused) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

void ExpectFailed(const absl::Status& status, const std::string& part) {
  EXPECT_EQ(ReasonOf(status), ErrorReason::kSourceFailed) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(FetcherTest, FetchesNothingWithoutASetting) {
  const Fetcher fetcher(FetchOptions{});
  ExpectRefused(fetcher.Check("https://a.example/").status(), "--fetch-allow");
}

TEST(FetcherTest, ChecksUrlsAgainstTheList) {
  const Fetcher fetcher({.allowed = *ParseUrlPrefixes({"https://a.example/public/"})});
  EXPECT_TRUE(fetcher.Check("https://a.example/public/b.png").ok());
  const absl::Status status = fetcher.Check("https://a.example/private/b?secret").status();
  ExpectRefused(status, "\"https://a.example/private/b\"");
  EXPECT_EQ(MetadataOf(status).at("limit"), "fetch-allow");
  const absl::Status none = fetcher.Check("a.example/public/").status();
  EXPECT_EQ(ReasonOf(none), ErrorReason::kInvalidOption);
  EXPECT_THAT(std::string(none.message()), HasSubstr("must begin with https://"));
}

TEST(FetcherTest, AsksLikeNobodyInParticular) {
  TestOrigin origin(OkAnswer("body"));
  const auto body = Get(PrivateOptions({origin.Url("")}), origin.Url("/a%20b.png?c=d#e"));
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(*body, "body");
  ASSERT_THAT(origin.requests(), SizeIs(1));
  const std::string request = origin.requests().front();
  EXPECT_THAT(request, testing::StartsWith("GET /a%20b.png?c=d HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr(absl::StrCat("Host: 127.0.0.1:", origin.port(), "\r\n")));
  for (const char* field : {"Cookie", "Authorization", "Referer", "Accept-Encoding", "#e"}) {
    EXPECT_THAT(request, Not(HasSubstr(field)));
  }
}

TEST(FetcherTest, TellsTheLengthWhereItIsTold) {
  for (const bool told : {true, false}) {
    TestOrigin origin(told ? OkAnswer("12345") : "HTTP/1.1 200 OK\r\n\r\n12345");
    const Fetcher fetcher(PrivateOptions({origin.Url("")}));
    Cancellation cancellation;
    auto source = fetcher.Fetch(*fetcher.Check(origin.Url("/")), cancellation);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(source->total_bytes, told ? 5 : 0);
    EXPECT_EQ(*ReadAll(*source->bytes), "12345");
  }
}

TEST(FetcherTest, ReadsChunksAndEmptyBodies) {
  TestOrigin chunked(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(*Get(chunked), "abcde");
  EXPECT_EQ(*Get(TestOrigin(OkAnswer(""))), "");
  EXPECT_EQ(*Get(TestOrigin("HTTP/1.1 103 Early Hints\r\nLocation: /b\r\n\r\n" + OkAnswer("a"))),
            "a");
}

// Addresses are looked at after the look-up, under any name.
TEST(FetcherTest, ConnectsToNoPrivateAddressUnlessTold) {
  TestOrigin origin(OkAnswer("secret"));
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const std::string url = origin.Url("/", host);
    const absl::Status status = Get({.allowed = *ParseUrlPrefixes({url})}, url).status();
    ExpectRefused(status, "(private)");
    EXPECT_EQ(MetadataOf(status).at("limit"), "fetch-allow-private");
    EXPECT_EQ(*Get(PrivateOptions({url}), url), "secret") << host;
  }
  EXPECT_THAT(origin.requests(), SizeIs(2));
}

TEST(FetcherTest, ConnectsToNoSpecialAddressEvenIfPrivateOnesAreAllowed) {
  for (const std::string host : {"169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255",
                                 "[::ffff:127.0.0.1]", "[::]", "[fe80::1]", "[64:ff9b::7f00:1]"}) {
    const absl::Status status = Get(PrivateOptions({"http://" + host}), "http://" + host).status();
    // Or the machine has no IPv6 to try it with.
    if (host.starts_with('[') && ReasonOf(status) == ErrorReason::kSourceFailed) continue;
    ExpectRefused(status, "(special)");
  }
}

TEST(FetcherTest, FollowsRedirectsWithinTheList) {
  TestOrigin origin([&](const std::string& header, const TestSocket& connection) {
    if (absl::StartsWith(header, "GET /a/1 ")) connection.Write(RedirectTo("2"));
    if (absl::StartsWith(header, "GET /a/2 ")) connection.Write(RedirectTo("/a/b/3?x#y", 308));
    if (absl::StartsWith(header, "GET /a/b/3?x ")) connection.Write(OkAnswer("found"));
  });
  const auto body = Get(PrivateOptions({origin.Url("/a/")}), origin.Url("/a/1"));
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(*body, "found");
}

TEST(FetcherTest, FollowsNoRedirectOutOfTheList) {
  for (const std::string location :
       {"/private", "//127.0.0.1/a/", "https://127.0.0.1/a/", "http://evil.example/a/",
        "http://user@127.0.0.1/a/", "../b", "/a/%2e%2e/b", "file:///etc/passwd",
        "gopher://127.0.0.1/", "http://2130706433/", "\\\\evil.example\\a", "http:///"}) {
    TestOrigin origin(RedirectTo(location));
    const absl::Status status =
        Get(PrivateOptions({origin.Url("/a/")}), origin.Url("/a/1")).status();
    ExpectRefused(status, "redirects to");
    EXPECT_THAT(origin.requests(), SizeIs(1)) << location;
  }
}

TEST(FetcherTest, ChecksTheAddressesOfRedirectsByTheirOwnEntries) {
  TestOrigin inside(OkAnswer("secret"));
  TestOrigin outside(RedirectTo(inside.Url("/", "localhost")));
  FetchOptions options = PrivateOptions({outside.Url("")});
  options.allowed = *ParseUrlPrefixes({inside.Url("", "localhost")});
  ExpectRefused(Get(options, outside.Url("/")).status(), "(private)");
  EXPECT_THAT(inside.requests(), SizeIs(0));
}

TEST(FetcherTest, FollowsFewRedirects) {
  TestOrigin origin(RedirectTo("/again"));
  ExpectFailed(Get(origin).status(), "more than 3 times");
  EXPECT_THAT(origin.requests(), SizeIs(4));
}

TEST(FetcherTest, TakesNoOtherStatus) {
  for (const int status : {204, 206, 300, 304, 404, 500}) {
    TestOrigin origin(absl::StrCat("HTTP/1.1 ", status, " X\r\nContent-Length: 0\r\n\r\n"));
    const absl::Status error = Get(origin).status();
    ExpectFailed(error, absl::StrCat("the status ", status));
    EXPECT_EQ(MetadataOf(error).at("value"), absl::StrCat(status));
  }
  ExpectFailed(Get(TestOrigin("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n")).status(), "302");
}

TEST(FetcherTest, TellsWhatIsWrongWithAHost) {
  ExpectFailed(Get(TestOrigin("")).status(), "cannot fetch http://127.0.0.1");
  ExpectFailed(Get(TestOrigin("SSH-2.0-OpenSSH_9.2\r\n")).status(), "cannot fetch");
  ExpectFailed(Get(TestOrigin("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")).status(),
               "cannot fetch");
  ExpectFailed(
      Get(TestOrigin("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")).status(),
      "cannot fetch");
  std::string fields;
  for (int i = 0; i < 100; ++i)
    absl::StrAppend(&fields, "X-", i, ": ", std::string(1000, 'a'), "\r\n");
  ExpectFailed(Get(TestOrigin("HTTP/1.1 200 OK\r\n" + fields + "\r\n")).status(), "65536");
  ExpectFailed(Get(PrivateOptions({"http://127.0.0.1:1"}), "http://127.0.0.1:1/").status(),
               "cannot fetch");
}

TEST(FetcherTest, UsesNoProxyOfTheEnvironment) {
  TestOrigin proxy(OkAnswer("of the proxy")), origin(OkAnswer("of the host"));
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) {
    setenv(name, proxy.Url("").c_str(), 1);
  }
  EXPECT_EQ(*Get(origin), "of the host");
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) unsetenv(name);
  EXPECT_THAT(proxy.requests(), SizeIs(0));
}

TEST(FetcherTest, GivesUpAHostThatSaysNothing) {
  TestOrigin origin([](const std::string&, const TestSocket& connection) {
    EXPECT_TRUE(connection.Ends());  // when it is given up
  });
  FetchOptions options = PrivateOptions({origin.Url("")});
  options.stall_timeout = absl::Milliseconds(50);
  const absl::Status status = Get(options, origin.Url("/")).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kDeadline) << status;
  EXPECT_EQ(MetadataOf(status).at("limit"), "fetch-stall-timeout");
}

TEST(FetcherTest, GivesUpAHostThatDrips) {
  TestOrigin origin([](const std::string&, const TestSocket& connection) {
    connection.Write("HTTP/1.1 200 OK\r\n\r\n");
    while (connection.Write("a")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  for (const bool in_all : {false, true}) {
    FetchOptions options = PrivateOptions({origin.Url("")});
    (in_all ? options.timeout : options.stall_timeout) = absl::Milliseconds(50);
    const absl::Status status = Get(options, origin.Url("/")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_EQ(MetadataOf(status).at("limit"), in_all ? "fetch-timeout" : "fetch-stall-timeout");
  }
}

TEST(FetcherTest, EndsWithItsCall) {
  for (const bool begun : {false, true}) {
    Cancellation cancellation;
    std::atomic<bool> waits = false;
    TestOrigin origin([&](const std::string&, const TestSocket& connection) {
      if (begun) connection.Write("HTTP/1.1 200 OK\r\n\r\nabc");
      waits = true;
      EXPECT_TRUE(connection.Ends());
    });
    const Fetcher fetcher(PrivateOptions({origin.Url("")}));
    std::thread canceller([&] {
      test::Await([&] { return waits.load(); });
      cancellation.Cancel(absl::CancelledError("enough"));
    });
    auto source = fetcher.Fetch(*fetcher.Check(origin.Url("/")), cancellation);
    const absl::Status status = source.ok() ? ReadAll(*source->bytes).status() : source.status();
    EXPECT_EQ(status, absl::CancelledError("enough"));
    canceller.join();
  }
}

// A slow reader makes the host wait: its bytes are not kept here.
TEST(FetcherTest, LetsTheHostWaitForItsReader) {
  constexpr size_t kBytes = size_t{256} << 20;  // far more than the kernel's buffers take
  const std::string piece(size_t{1} << 20, 'a');
  std::atomic<size_t> sent = 0;
  TestOrigin origin([&](const std::string&, const TestSocket& connection) {
    connection.Write(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", kBytes, "\r\n\r\n"));
    while (sent < kBytes && connection.Write(piece)) sent += piece.size();
  });
  Cancellation cancellation;
  const Fetcher fetcher(PrivateOptions({origin.Url("")}));
  auto source = fetcher.Fetch(*fetcher.Check(origin.Url("/")), cancellation);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<uint8_t> some(size_t{1} << 20);
  size_t received = 0;
  while (received < 4 * some.size()) received += *source->bytes->Read(some);
  // It has stopped once two looks show the same.
  for (size_t before = ~size_t{0}; before != sent;) {
    before = sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LT(sent, kBytes / 2);
  cancellation.Cancel(absl::CancelledError("enough"));
  source->bytes.reset();
}

}  // namespace
}  // namespace upscaled::server
