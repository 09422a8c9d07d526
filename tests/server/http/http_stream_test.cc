// Bodies and answers as streams, over real connections.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/sanitized.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/http/http_server.h"
#include "server/spool/spool.h"
#include "tests/client/temp_folder.h"
#include "tests/server/http/http_client.h"
#include "tests/support/peak_memory.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uint64_t kMaxBodyBytes = uint64_t{300} << 20;

std::string NoiseText(size_t bytes) {
  std::mt19937 random(7);
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return noise;
}

// The content of a chunked body, and the bytes behind it.
std::string Unchunk(std::string_view body) {
  std::string content;
  while (true) {
    const size_t line_end = body.find("\r\n");
    uint64_t bytes = 0;
    if (line_end == std::string_view::npos ||
        !absl::SimpleHexAtoi(std::string(body.substr(0, line_end)), &bytes)) {
      return absl::StrCat(content, "[no chunk]");
    }
    body.remove_prefix(line_end + 2);
    if (bytes == 0) return absl::StrCat(content, "|", std::string(body));
    content.append(body.substr(0, bytes));
    body.remove_prefix(std::min<size_t>(bytes + 2, body.size()));
  }
}

std::string BodyOf(const std::string& answer) {
  const size_t header_end = answer.find("\r\n\r\n");
  return header_end == std::string::npos ? "[no header]" : answer.substr(header_end + 4);
}

// Runs each exchange on a thread of its own.
class HttpStreamTest : public ::testing::Test {
 protected:
  using Work = std::function<void(HttpExchange&)>;

  ~HttpStreamTest() override { End(); }

  // Before the objects of the exchanges go.
  void End() {
    server_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void Serve(Work work, const HttpLimits& limits = {}, size_t spool_bytes = size_t{300} << 20,
             uint64_t max_body_bytes = kMaxBodyBytes) {
    HttpServerOptions options{.address = address_, .title = "a test", .limits = limits};
    const BodyBudgetOptions bodies{.spool_dir = folder_.path(), .spool_bytes = spool_bytes};
    options.budget = spool_.emplace(bodies, timer_).budget();
    for (const std::string method : {"POST", "GET"}) {
      options.routes.push_back({.method = method,
                                .path = "/stream",
                                .description = "",
                                .stream =
                                    [this, work](std::unique_ptr<HttpExchange> exchange) {
                                      Start(work, std::move(exchange));
                                    },
                                .max_body_bytes = max_body_bytes});
    }
    for (const std::string path : {"/items/{name}", "/items/{name}/part"}) {
      options.routes.push_back(
          {.method = "GET",
           .path = path,
           .description = "",
           .handler = [last = path.back()](const HttpRequest& request, auto writer) {
             writer->Send(TextResponse(200, "<" + request.parameter + (last == '}' ? ">" : ">s")));
           }});
    }
    auto server = HttpServer::Start(std::move(options), table_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void Start(const Work& work, std::unique_ptr<HttpExchange> exchange) {
    ++begun_;
    exchange->OnGone([this] { ++gone_; });
    threads_.emplace_back([this, work, exchange = std::move(exchange)]() mutable {
      work(*exchange);
      exchange.reset();
      ++ended_;
    });
  }

  // Waits for at most 10 s.
  static void Await(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (!condition() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(2));
    EXPECT_TRUE(condition());
  }
  int64_t Stalled() const { return table_.counts().ended[static_cast<size_t>(Offence::kStalled)]; }

  // Reads the body and repeats it piece by piece.
  static void Echo(HttpExchange& exchange) {
    if (!exchange.Begin({}, {"X-Bytes"}).ok()) return;  // the client has gone
    std::vector<uint8_t> piece(100'000);
    size_t bytes = 0;
    while (true) {
      const absl::StatusOr<size_t> n = exchange.Read(piece);
      if (!n.ok()) return;
      if (*n == 0) break;
      bytes += *n;
      if (!exchange.Write(std::span(piece).first(*n)).ok()) return;
    }
    exchange.Finish({{"X-Bytes", absl::StrCat(bytes)}, {"X-Not-Announced", "1"}});
  }
  // Reads the body and tells its length, or its fault.
  static void Count(HttpExchange& exchange) {
    std::vector<uint8_t> piece(100'000);
    size_t bytes = 0;
    while (true) {
      const absl::StatusOr<size_t> n = exchange.Read(piece);
      if (!n.ok()) return exchange.Send(TextResponse(422, n.status().ToString()));
      if (*n == 0) return exchange.Send(TextResponse(200, absl::StrCat("[", bytes, "]")));
      bytes += *n;
    }
  }

  int port() const { return server_->port(); }

  client::TempFolder folder_;
  Timer timer_;
  std::optional<Spool> spool_;  // since Serve
  std::string address_ = "127.0.0.1:0";
  ConnectionTable table_{ConnectionLimits()};
  std::atomic<int> begun_ = 0, gone_ = 0, ended_ = 0;
  std::vector<std::thread> threads_;  // added on the server's thread alone
  std::unique_ptr<HttpServer> server_;
};

std::string Post(size_t length, std::string_view more = "") {
  return absl::StrCat("POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: ", length, "\r\n",
                      std::string(more), "\r\n");
}
constexpr char kChunked[] =
    "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

TEST_F(HttpStreamTest, EchoesBodiesOfBothKindsOnOneConnection) {
  Serve(Echo);
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    client.Send(Post(5) + "hello");
    const std::string answer = client.ReadUntil("X-Bytes: 5\r\n\r\n");
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Trailer: X-Bytes\r\n"),
                              HasSubstr("Transfer-Encoding: chunked\r\n"),
                              Not(HasSubstr("Connection: close"))));
    EXPECT_EQ(Unchunk(BodyOf(answer)), "hello|X-Bytes: 5\r\n\r\n");
  }
  client.Send(absl::StrCat(
      kChunked, "5;a=b\r\nhello\r\n1;c=\"d\"\r\n,\r\n6\r\n world\r\n0\r\nX-Digest: 1\r\n\r\n"));
  EXPECT_EQ(Unchunk(BodyOf(client.ReadAll())), "hello, world|X-Bytes: 12\r\n\r\n");
}

TEST_F(HttpStreamTest, TakesABodyByteByByte) {
  Serve(Echo);
  Client client(port());
  const std::string request = absl::StrCat(kChunked, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
  for (const char byte : request) client.Send({&byte, 1});
  EXPECT_EQ(Unchunk(BodyOf(client.ReadAll())), "abc|X-Bytes: 3\r\n\r\n");
  Client empty(port());
  for (const char byte : absl::StrCat(kChunked, "0\r\n\r\n")) empty.Send({&byte, 1});
  EXPECT_EQ(Unchunk(BodyOf(empty.ReadAll())), "|X-Bytes: 0\r\n\r\n");
}

TEST_F(HttpStreamTest, AClientThatSendsAllBeforeItReadsIsServed) {
  Serve(Echo);
  const std::string noise = NoiseText(size_t{27} << 20);
  Client client(port());
  client.Send(Post(noise.size(), "Connection: close\r\n"));
  client.Send(noise);  // waits until all has been taken
  // Not EXPECT_EQ, since it would print both.
  EXPECT_TRUE(Unchunk(BodyOf(client.ReadAll())) ==
              absl::StrCat(noise, "|X-Bytes: ", noise.size(), "\r\n\r\n"));
  Await([&] { return server_->spool_bytes_in_use() == 0; });
}

TEST_F(HttpStreamTest, ALongEchoTakesLittleMemory) {
  Serve(Echo);
  constexpr size_t kPieceBytes = size_t{1} << 20;
  constexpr int kPieces = 200;
  Client client(port());
  const std::string piece = NoiseText(kPieceBytes);
  const test::PeakMemory memory;
  client.Send(Post(kPieces * kPieceBytes, "Connection: close\r\n"));
  for (int i = 0; i < kPieces; ++i) client.Send(piece);
  size_t received = 0;
  std::vector<char> buffer(kPieceBytes);
  for (ssize_t n; (n = recv(client.fd(), buffer.data(), buffer.size(), 0)) > 0;) {
    received += static_cast<size_t>(n);
  }
  EXPECT_GT(received, kPieces * kPieceBytes);
  if (kSanitized) return;  // keeps what is freed
  EXPECT_LT(memory.grown_bytes(), int64_t{8} << 20);
}

TEST_F(HttpStreamTest, AskedForTheBodyAClientGetsContinue) {
  absl::Notification read;
  Serve([&](HttpExchange& exchange) {
    read.WaitForNotification();
    Count(exchange);
  });
  Client client(port());
  client.Send(Post(3, "Expect: 100-continue\r\n"));
  char byte;
  EXPECT_EQ(recv(client.fd(), &byte, 1, MSG_DONTWAIT), -1);
  read.Notify();
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_THAT(client.ReadUntil("]"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("[3]"),
                                           Not(HasSubstr("Connection: close"))));
  // A client without a wait for it gets none.
  client.Send(Post(3, "Expect: 100-continue\r\n") + "abc");
  EXPECT_THAT(client.ReadUntil("]"), HasSubstr("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Exchange(port(), Post(3, "Expect: miracles\r\n")), StartsWith("HTTP/1.1 417 "));
  End();
}

TEST_F(HttpStreamTest, AnEarlyAnswerComesInsteadOfContinue) {
  Serve([](HttpExchange& exchange) { exchange.Send(TextResponse(401, "who?")); });
  Client client(port());
  client.Send(Post(300'000, "Expect: 100-continue\r\n"));
  EXPECT_THAT(client.ReadAll(),
              AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("Connection: close\r\n")));
}

TEST_F(HttpStreamTest, AnEarlyAnswerLeavesTheConnectionForTheNextRequest) {
  Serve([](HttpExchange& exchange) { exchange.Send(TextResponse(401, "who?")); });
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    client.Send(Post(3'000'000));
    EXPECT_THAT(client.ReadUntil("who?"), StartsWith("HTTP/1.1 401 "));
    client.Send(std::string(3'000'000, 'x'));
  }
  client.Send("GET /items/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), EndsWith("<a>"));
}

TEST_F(HttpStreamTest, ATooLongBodyIsTheHandlersToRefuse) {
  Serve(Count, {}, 0, /*max_body_bytes=*/1000);
  EXPECT_THAT(Exchange(port(), Post(1000, "Connection: close\r\n") + std::string(1000, 'x')),
              EndsWith("[1000]"));
  EXPECT_THAT(Exchange(port(), Post(1001)),
              AllOf(StartsWith("HTTP/1.1 422 "), HasSubstr("Connection: close\r\n"),
                    HasSubstr("OUT_OF_RANGE: the body has 1001 bytes, more than the 1000 bytes")));
  EXPECT_THAT(Exchange(port(), absl::StrCat(kChunked, "3e9\r\n", std::string(1001, 'x'), "\r\n")),
              AllOf(StartsWith("HTTP/1.1 422 "), HasSubstr("OUT_OF_RANGE: the body has more")));
  // Also when the client sends all before it reads.
  EXPECT_THAT(Exchange(port(), Post(800'000) + std::string(800'000, 'x')),
              StartsWith("HTTP/1.1 422 "));
}

TEST_F(HttpStreamTest, ChunkGamesEndTheConnection) {
  Serve(Count);
  std::string tiny, padded;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&tiny, "1\r\nx\r\n");
  const std::string extension = absl::StrCat(";", std::string(100, 'a'));
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&padded, "1", extension, "\r\nx\r\n");
  EXPECT_THAT(Exchange(port(), absl::StrCat(kChunked, tiny, "0\r\n\r\n")), EndsWith("[1000]"));
  const std::string games[] = {
      "x\r\n",
      "-1\r\nx\r\n",
      "0x1\r\nx\r\n\r\n",
      " 1\r\nx\r\n",
      "1\nx\n0\n\n\r\n\r\n",
      "1 \r\nx\r\n0\r\n\r\n",
      "1;\r\nx\r\n",
      "1\r\nxy\r\n\r\n",
      "ffffffffffffffffffff\r\nx\r\n",
      absl::StrCat("1;", std::string(20'000, 'a')),
      absl::StrCat("0\r\nX: ", std::string(20'000, 'a')),
      "0\r\nContent-Length: 3\r\n\r\n",
      "0\r\nX\r\n\r\n",
      padded,
  };
  for (const std::string& game : games) {
    EXPECT_THAT(
        Exchange(port(), absl::StrCat(kChunked, game)),
        AllOf(StartsWith("HTTP/1.1 400 Bad Request\r\n"), HasSubstr("Connection: close\r\n")))
        << game.substr(0, 100);
  }
  Await([&] { return gone_ == static_cast<int>(std::size(games)); });
}

TEST_F(HttpStreamTest, ABadChunkCutsAnAnswerThatHasBegun) {
  Serve(Echo);
  Client client(port());
  client.Send(absl::StrCat(kChunked, "5\r\nhello\r\n"));
  client.ReadUntil("hello\r\n");
  client.Send("oh\r\n");
  EXPECT_THAT(client.ReadAll(), Not(HasSubstr("0\r\n")));
  Await([&] { return ended_ == 1 && gone_ == 1; });
}

TEST_F(HttpStreamTest, PipelinedRequestsWaitForTheirTurn) {
  Serve(Count);
  Client client(port());
  std::string requests, expected;
  for (int i = 0; i < 50; ++i) absl::StrAppend(&requests, Post(1000), std::string(1000, 'x'));
  client.Send(requests + "GET /items/last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string answers = client.ReadAll();
  size_t count = 0;
  for (size_t at = 0; (at = answers.find("[1000]", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 50u);
  EXPECT_THAT(answers, EndsWith("<last>"));
}

TEST_F(HttpStreamTest, HeadGetsTheHeaderAlone) {
  Serve([](HttpExchange& exchange) {
    EXPECT_EQ(exchange.request().method, "HEAD");
    if (exchange.request().query == "whole") return exchange.Send(TextResponse(200, "12345"));
    EXPECT_TRUE(exchange.Begin({}, {}).ok());
    const std::vector<uint8_t> bytes(1000);
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(exchange.Write(bytes).ok());
    exchange.Finish({});
  });
  Client client(port());
  client.Send("HEAD /stream?whole HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Content-Length: 5\r\n"));
  client.Send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  client.Send("HEAD /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), EndsWith("\r\n\r\n"));
}

TEST_F(HttpStreamTest, AStreamWhoseLengthIsKnownTellsIt) {
  Serve([](HttpExchange& exchange) {
    EXPECT_TRUE(exchange.Begin({.length = 200'000}, {"X-Trailer"}).ok());
    if (exchange.request().method == "HEAD") return exchange.Finish({});
    const std::vector<uint8_t> bytes(100'000, 'x');
    EXPECT_TRUE(exchange.Write(bytes).ok());
    EXPECT_TRUE(exchange.Write(bytes).ok());
    EXPECT_EQ(exchange.Write(std::span(bytes).first(1)).code(), absl::StatusCode::kOutOfRange);
    exchange.Finish({{"X-Trailer", "1"}});
  });
  Client client(port());
  for (const std::string version : {"1", "0"}) {
    client.Send("GET /stream HTTP/1." + version + "\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_THAT(client.ReadUntil("\r\n\r\n"),
                AllOf(HasSubstr("Content-Length: 200000\r\n"), Not(HasSubstr("chunked")),
                      Not(HasSubstr("Trailer"))));
    std::string body(200'000, 0);
    EXPECT_EQ(recv(client.fd(), body.data(), body.size(), MSG_WAITALL), 200'000);
    EXPECT_EQ(body, std::string(200'000, 'x'));
  }
  client.Send("HEAD /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadAll(),
              AllOf(HasSubstr("Content-Length: 200000\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpStreamTest, AnAnswerShorterThanItsLengthIsCut) {
  Serve([](HttpExchange& exchange) {
    EXPECT_TRUE(exchange.Begin({.length = 2}, {}).ok());
    const uint8_t byte = 'x';
    EXPECT_TRUE(exchange.Write({&byte, 1}).ok());
    exchange.Finish({});
  });
  Client client(port());
  client.Send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(client.EndsByReset());
}

TEST_F(HttpStreamTest, ForHttp10AStreamLastsUntilTheConnectionsEnd) {
  Serve(Echo);
  const std::string answer = Exchange(
      port(), "POST /stream HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.0 200 OK\r\n"), HasSubstr("Connection: close\r\n"),
                            Not(HasSubstr("chunked")), EndsWith("\r\n\r\nhello")));
}

TEST_F(HttpStreamTest, AnAnswerWithoutItsEndIsCut) {
  Serve([](HttpExchange& exchange) {
    if (exchange.request().query == "nothing") return;
    EXPECT_TRUE(exchange.Begin({}, {}).ok());
    const std::vector<uint8_t> bytes(100, 'x');
    EXPECT_TRUE(exchange.Write(bytes).ok());
    absl::SleepFor(absl::Milliseconds(20));
  });
  EXPECT_THAT(Fetch(port(), "GET", "/stream?nothing"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(Fetch(port(), "GET", "/stream"), Not(HasSubstr("\r\n0\r\n")));
}

// A proper end would be taken for the body's.
TEST_F(HttpStreamTest, ForHttp10EveryCutIsAReset) {
  absl::Notification over;
  Serve(
      [&](HttpExchange& exchange) {
        const std::vector<uint8_t> bytes(100'000, 'x');
        EXPECT_TRUE(exchange.Begin({}, {}).ok());
        EXPECT_TRUE(exchange.Write(bytes).ok());
        if (exchange.request().query == "stall") {
          while (exchange.Write(bytes).ok()) {
          }
        } else if (exchange.request().query == "handler") {
          EXPECT_TRUE(exchange.Settle().ok());  // and no Finish
        } else {
          over.WaitForNotification();
        }
      },
      {.stall_timeout = absl::Milliseconds(300), .min_progress_bytes = 100'000},
      /*spool_bytes=*/0);
  const auto ask = [this](const std::string& query) {
    Client client(port());
    client.Send("GET /stream?" + query + " HTTP/1.0\r\n\r\n");
    client.ReadUntil("x");
    return client;
  };
  EXPECT_TRUE(ask("handler").EndsByReset());
  Client slow = ask("stall");
  Await([&] { return Stalled() == 1; });
  EXPECT_TRUE(slow.EndsByReset());
  Client half = ask("");
  half.EndOutput();
  EXPECT_TRUE(half.EndsByReset());
  Client drained = ask("");
  server_->Close(absl::Milliseconds(50));
  EXPECT_TRUE(drained.EndsByReset());
  over.Notify();
  End();
}

TEST_F(HttpStreamTest, OverUnixSocketsHttp10GetsStreamsOfToldLengthAlone) {
  const std::string path = folder_.path() / "http.sock";
  address_ = "unix:" + path;
  absl::Status unframed;
  const auto work = [&](HttpExchange& exchange) {
    const HttpRequest& request = exchange.request();
    const std::vector<uint8_t> bytes(5, 'x');
    HttpResponse response;
    if (request.query == "told") response.length = bytes.size();
    absl::Status status = exchange.Begin(std::move(response), {});
    if (status.ok()) status = exchange.Write(bytes);
    if (status.ok()) status = exchange.Settle();
    if (request.query == "unframed") {
      unframed = status;
    } else {
      EXPECT_TRUE(status.ok()) << status;
    }
    exchange.Finish({});
  };
  Serve(work, {}, /*spool_bytes=*/0);
  const auto ask = [&path](const std::string& request) {
    Client client(path);
    client.Send(request + "\r\nHost: a\r\nConnection: close\r\n\r\n");
    return client.ReadAll();
  };
  EXPECT_THAT(ask("GET /stream?unframed HTTP/1.0"),
              AllOf(StartsWith("HTTP/1.0 505 "), HasSubstr("Content-Length: "),
                    HasSubstr("proxy_http_version 1.1")));
  EXPECT_THAT(ask("GET /stream?told HTTP/1.0"),
              AllOf(StartsWith("HTTP/1.0 200 "), EndsWith("\r\n\r\nxxxxx")));
  EXPECT_THAT(ask("HEAD /stream HTTP/1.0"), StartsWith("HTTP/1.0 200 "));
  EXPECT_THAT(ask("GET /items/a HTTP/1.0"), EndsWith("<a>"));
  EXPECT_THAT(ask("GET /stream HTTP/1.1"), EndsWith("xxxxx\r\n0\r\n\r\n"));
  End();
  EXPECT_EQ(unframed.code(), absl::StatusCode::kUnimplemented) << unframed;
}

TEST_F(HttpStreamTest, FieldsThatBreakTheHeaderAreNotSent) {
  Serve([](HttpExchange& exchange) {
    EXPECT_EQ(exchange.Begin({.fields = {{"X", "a\r\nY: b"}}}, {}).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(exchange.Begin({}, {"X: "}).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(exchange.Write({}).code(), absl::StatusCode::kFailedPrecondition);
    exchange.Send({.fields = {{"X", "a\nb"}}});
    exchange.Send(TextResponse(200, "two"));
  });
  EXPECT_THAT(Fetch(port(), "GET", "/stream"),
              AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("two"))));
}

TEST_F(HttpStreamTest, AClientThatGoesWhileNothingMovesIsNoticed) {
  absl::Notification read, over;
  Serve([&](HttpExchange& exchange) {
    std::vector<uint8_t> piece(100);
    EXPECT_EQ(*exchange.Read(piece), 5u);
    EXPECT_EQ(*exchange.Read(piece), 0u);
    read.Notify();
    over.WaitForNotification();
    EXPECT_EQ(exchange.Begin({}, {}).code(), absl::StatusCode::kCancelled);
  });
  {
    Client client(port());
    client.Send(Post(5) + "hello" + "GET /items/next HTTP/1.1\r\n");
    read.WaitForNotification();
    EXPECT_EQ(gone_, 0);
  }
  Await([&] { return gone_ == 1; });
  over.Notify();
  End();
}

TEST_F(HttpStreamTest, AClientThatGoesEndsReadsAndWrites) {
  Serve(Echo);
  { Client(port()).Send(Post(100) + "hello"); }
  Await([&] { return ended_ == 1 && gone_ == 1; });
  {
    Client client(port());
    client.Send(Post(10'000'000));
    client.Send(std::string(10'000'000, 'x'));
  }
  Await([&] { return ended_ == 2 && gone_ == 2; });
  Await([&] { return table_.counts().open == 0; });
  Await([&] { return server_->spool_bytes_in_use() == 0; });
}

TEST_F(HttpStreamTest, CancelEndsWaitingReadsAndWrites) {
  std::atomic<HttpExchange*> exchange = nullptr;
  absl::Status read, written;
  Serve([&](HttpExchange& mine) {
    exchange = &mine;
    std::vector<uint8_t> piece(1000);
    while (read.ok()) read = mine.Read(piece).status();
    mine.Send(TextResponse(504, "late"));
  });
  Client client(port());
  client.Send(Post(10) + "hello");
  Await([&] { return exchange != nullptr; });
  exchange.load()->Cancel(absl::DeadlineExceededError("too late"));
  EXPECT_THAT(client.ReadUntil("late"), StartsWith("HTTP/1.1 504 "));
  EXPECT_EQ(read, absl::DeadlineExceededError("too late"));
  End();
}

TEST_F(HttpStreamTest, ASlowBodyStalls) {
  Serve(Count, {.stall_timeout = absl::Milliseconds(300), .min_progress_bytes = 1000});
  Client client(port());
  client.Send(Post(1'000'000));
  // Bytes come all the time, but too few.
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (Stalled() == 0 && absl::Now() < end && client.TrySend("x")) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_THAT(client.ReadAll(),
              AllOf(StartsWith("HTTP/1.1 422 "), HasSubstr("Connection: close\r\n"),
                    HasSubstr("ABORTED: the client sends less than 1000 bytes in 300ms")));
  EXPECT_EQ(Stalled(), 1);
}

TEST_F(HttpStreamTest, ABodyThatComesFastEnoughMayTakeLongerThanTheStallTimeout) {
  Serve(Count, {.stall_timeout = absl::Milliseconds(400), .min_progress_bytes = 1000});
  Client client(port());
  client.Send(Post(20'000, "Connection: close\r\n"));
  for (int i = 0; i < 20; ++i) {
    client.Send(std::string(1000, 'x'));
    absl::SleepFor(absl::Milliseconds(40));
  }
  EXPECT_THAT(client.ReadAll(), EndsWith("[20000]"));
}

TEST_F(HttpStreamTest, ASlowReaderStalls) {
  absl::Notification over;
  Serve(
      [&](HttpExchange& exchange) {
        EXPECT_TRUE(exchange.Begin({}, {}).ok());
        const std::vector<uint8_t> bytes(100'000);
        absl::Status status;
        while (status.ok()) status = exchange.Write(bytes);
        EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
        EXPECT_EQ(ReasonOf(status), ErrorReason::kStalled);
        over.Notify();
      },
      {.stall_timeout = absl::Milliseconds(300), .min_progress_bytes = 100'000});
  Client client(port());
  client.Send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  char bytes[100];
  while (!over.HasBeenNotified() && recv(client.fd(), bytes, sizeof(bytes), 0) > 0) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  over.WaitForNotification();
  EXPECT_EQ(Stalled(), 1);
  Await([&] { return gone_ == 1; });
  End();
}

TEST_F(HttpStreamTest, TheDiskHoldsTheAnswerOfAClientThatReadsLater) {
  const std::string text = NoiseText((size_t{24} << 20) + 12'345);  // more than sockets hold
  Serve([&](HttpExchange& exchange) {
    ASSERT_TRUE(exchange.Begin({}, {}).ok());
    for (size_t begin = 0; begin < text.size(); begin += 60'000) {
      const std::string piece = text.substr(begin, 60'000);
      ASSERT_TRUE(
          exchange.Write({reinterpret_cast<const uint8_t*>(piece.data()), piece.size()}).ok());
    }
    ASSERT_TRUE(exchange.Settle().ok());
    exchange.Finish({});
  });
  Client client(port());
  client.Send("GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  Await([&] { return ended_ == 1; });  // the handler, before the client reads
  EXPECT_GT(server_->spool_bytes_in_use(), 0);
  EXPECT_EQ(Unchunk(BodyOf(client.ReadAll())), text + "|\r\n");
  Await([&] { return server_->spool_bytes_in_use() == 0; });
}

TEST_F(HttpStreamTest, AFullDiskHasTheHandlerWaitForItsClient) {
  const std::string text = NoiseText(size_t{24} << 20);
  Serve(
      [&](HttpExchange& exchange) {
        ASSERT_TRUE(exchange.Begin({}, {}).ok());
        for (size_t begin = 0; begin < text.size(); begin += 1 << 18) {
          const std::string piece = text.substr(begin, 1 << 18);
          ASSERT_TRUE(
              exchange.Write({reinterpret_cast<const uint8_t*>(piece.data()), piece.size()}).ok());
        }
        exchange.Finish({});
      },
      {}, /*spool_bytes=*/size_t{1} << 20);
  Client client(port());
  client.Send("GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  constexpr int64_t kShare = (3 << 20) / 4;  // of one client
  Await([&] { return server_->spool_bytes_in_use() == kShare; });
  EXPECT_EQ(ended_, 0);
  EXPECT_EQ(Unchunk(BodyOf(client.ReadAll())), text + "|\r\n");
}

TEST_F(HttpStreamTest, AHandlerIsToldWhenASlowBodyIsThere) {
  std::atomic<bool> told = false;
  Serve([&](HttpExchange& exchange) {
    absl::Notification whole;
    exchange.OnBody([&] { whole.Notify(); });
    whole.WaitForNotification();
    told = true;
    std::vector<uint8_t> bytes(16);
    const absl::StatusOr<size_t> count = exchange.Read(bytes);
    exchange.Send(TextResponse(200, absl::StrCat(count.value_or(0), " bytes\n")));
  });
  Client client(port());
  client.Send(
      "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  client.Send("123456789");
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(told);
  client.Send("0");
  EXPECT_THAT(client.ReadAll(), HasSubstr("10 bytes"));
}

TEST_F(HttpStreamTest, SettleWaitsUntilTheSystemHasTakenAll) {
  constexpr size_t kBytes = size_t{32} << 20;  // more than sockets hold
  const std::vector<uint8_t> bytes(kBytes, 'x');
  std::vector<absl::Status> settled;
  std::atomic<int> written = 0;
  Serve(
      [&](HttpExchange& exchange) {
        ASSERT_TRUE(exchange.Begin({}, {}).ok());
        ASSERT_TRUE(exchange.Settle().ok()) << "nothing was written yet";
        ASSERT_TRUE(exchange.Write(bytes).ok());
        ++written;
        settled.push_back(exchange.Settle());
        exchange.Finish({});
      },
      {}, /*spool_bytes=*/0);
  const std::string request = "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  {
    Client reader(port());
    reader.Send(request);
    EXPECT_EQ(Unchunk(BodyOf(reader.ReadAll())).size(), kBytes + std::string("|\r\n").size());
    Await([&] { return ended_ == 1; });
    Client idler(port());
    idler.Send(request);
    Await([&] { return written == 2; });
  }
  End();
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_TRUE(settled[0].ok()) << settled[0];
  EXPECT_EQ(settled[1].code(), absl::StatusCode::kCancelled);
}

TEST_F(HttpStreamTest, WhoSendsNeedNotRead) {
  // The answer waits for longer than a stall takes, since the client is still sending.
  Serve(Echo, {.stall_timeout = absl::Seconds(1), .min_progress_bytes = 1000});
  Client client(port());
  constexpr size_t kBytes = size_t{12} << 20;
  client.Send(Post(kBytes + 50'000, "Connection: close\r\n"));
  client.Send(std::string(kBytes, 'x'));
  for (int i = 0; i < 50; ++i) {
    client.Send(std::string(1000, 'x'));
    absl::SleepFor(absl::Milliseconds(40));
  }
  EXPECT_THAT(client.ReadAll(), EndsWith(absl::StrCat("X-Bytes: ", kBytes + 50'000, "\r\n\r\n")));
}

TEST_F(HttpStreamTest, WithoutASpoolAFullQueueHoldsTheClientUp) {
  absl::Notification read;
  Serve(
      [&](HttpExchange& exchange) {
        read.WaitForNotification();
        Count(exchange);
      },
      {}, /*spool_bytes=*/0);
  Client client(port());
  constexpr size_t kBytes = size_t{40} << 20;
  client.Send(Post(kBytes, "Connection: close\r\n"));
  const std::string piece(100'000, 'x');
  size_t sent = 0;
  for (int idle = 0; idle < 100;) {
    const ssize_t n = send(client.fd(), piece.data(), std::min(piece.size(), kBytes - sent),
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<size_t>(n);
    if (n <= 0) absl::SleepFor(absl::Milliseconds(2));
    idle = n > 0 ? 0 : idle + 1;
  }
  EXPECT_LT(sent, kBytes);
  read.Notify();
  for (; sent < kBytes; sent += std::min(piece.size(), kBytes - sent)) {
    client.Send(std::string_view(piece).substr(0, kBytes - sent));
  }
  EXPECT_THAT(client.ReadAll(), EndsWith(absl::StrCat("[", kBytes, "]")));
  End();
}

TEST_F(HttpStreamTest, ExchangesSurviveTheServersEnd) {
  absl::Notification answering, ended;
  Serve([&](HttpExchange& exchange) {
    std::vector<uint8_t> piece(1000);
    absl::StatusOr<size_t> n = 0;
    if (exchange.request().query == "write") {
      EXPECT_TRUE(exchange.Begin({}, {}).ok());
      answering.Notify();
      absl::Status status;
      while (status.ok()) status = exchange.Write(piece);
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    } else {
      do n = exchange.Read(piece);
      while (n.ok());
      EXPECT_EQ(n.status().code(), absl::StatusCode::kCancelled);
    }
    ended.WaitForNotification();
    EXPECT_FALSE(exchange.Read(piece).ok());
    EXPECT_FALSE(exchange.Write(piece).ok());
    exchange.Finish({});
  });
  Client reading(port()), writing(port());
  reading.Send(Post(1000) + "x");
  writing.Send("GET /stream?write HTTP/1.1\r\nHost: a\r\n\r\n");
  Await([&] { return begun_ == 2; });
  answering.WaitForNotification();
  server_.reset();
  ended.Notify();
  EXPECT_EQ(gone_, 2);
  End();
}

TEST_F(HttpStreamTest, CloseWaitsForWhatHasBegun) {
  absl::Notification go;
  Serve([&](HttpExchange& exchange) {
    go.WaitForNotification();
    Count(exchange);
  });
  Client busy(port()), idle(port());
  idle.Send("GET /items/a HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(idle.ReadUntil("<a>"), Not(HasSubstr("Connection: close")));
  server_->StartDraining();
  // Kept connections end with the next answer, and new ones are still taken.
  idle.Send("GET /items/b HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(idle.ReadAll(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("<b>")));
  Client silent(port());
  busy.Send(Post(5) + "he");
  Await([&] { return begun_ == 1; });
  std::thread close([&] { server_->Close(absl::Seconds(20)); });
  EXPECT_EQ(silent.ReadAll(), "");
  go.Notify();
  busy.Send("llo");
  EXPECT_THAT(busy.ReadAll(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("[5]")));
  close.join();
  EXPECT_EQ(gone_, 0);
  EXPECT_EQ(table_.counts().open, 0);
  End();
}

TEST_F(HttpStreamTest, CloseEndsWhatTakesTooLong) {
  Serve([&](HttpExchange& exchange) { Count(exchange); });
  Client client(port());
  client.Send(Post(5));
  Await([&] { return begun_ == 1; });
  server_->Close(absl::Milliseconds(50));
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_EQ(gone_, 1);
  End();
}

TEST_F(HttpStreamTest, RoutesMayHaveANameInTheMiddle) {
  Serve(Count);
  EXPECT_THAT(Fetch(port(), "GET", "/items/a%20b/part"), EndsWith("<a b>s"));
  EXPECT_THAT(Fetch(port(), "GET", "/items/part"), EndsWith("<part>"));
  EXPECT_THAT(Fetch(port(), "GET", "/items/part/part"), EndsWith("<part>s"));
  for (const std::string path : {"/items//part", "/items/a/b/part", "/items/a/parts"}) {
    EXPECT_THAT(Fetch(port(), "GET", path), StartsWith("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(HttpStreamTest, RoutesMayEndInAName) {
  Serve(Count);
  EXPECT_THAT(Fetch(port(), "GET", "/items/a%20b"), EndsWith("<a b>"));
  EXPECT_THAT(Fetch(port(), "GET", "/items/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Fetch(port(), "GET", "/items"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Fetch(port(), "GET", "/items/a/b"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Fetch(port(), "POST", "/items/a"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
}

}  // namespace
}  // namespace upscaled::server
