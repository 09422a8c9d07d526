// Requests as clients, proxies and attackers write them.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/http_server.h"
#include "tests/server/http/http_client.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpRequestsTest : public ::testing::Test {
 protected:
  HttpRequestsTest() {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0",
         .title = "a test",
         .routes = {{.method = "GET",
                     .path = "/echo",
                     .description = "repeats the query",
                     .handler = Echo},
                    {.method = "GET", .path = "/peer", .description = "who asks", .handler = Peer},
                    {.method = "GET", .path = "/throws", .description = "fails", .handler = Throw},
                    {.method = "GET",
                     .path = "/later",
                     .description = "answers when told",
                     .handler =
                         [this](const HttpRequest&, auto writer) {
                           later_ = std::move(writer);
                           asked_.Notify();
                         }}}},
        table_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  static void Echo(const HttpRequest& request, std::unique_ptr<HttpResponseWriter> writer) {
    writer->Send(TextResponse(200, absl::StrCat("[", request.query, "]")));
  }
  static void Peer(const HttpRequest& request, std::unique_ptr<HttpResponseWriter> writer) {
    writer->Send(TextResponse(
        200, absl::StrCat(request.peer, " ", std::string(request.Field("user-agent")))));
  }
  static void Throw(const HttpRequest&, std::unique_ptr<HttpResponseWriter>) {
    throw std::bad_alloc();
  }

  int port() const { return server_->port(); }

  ConnectionTable table_{ConnectionLimits()};
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpResponseWriter> later_;
  absl::Notification asked_;
};

TEST_F(HttpRequestsTest, AConnectionServesManyRequests) {
  Client client(port());
  for (int i = 0; i < 50; ++i) {
    client.Send(absl::StrCat("GET /echo?", i, "& HTTP/1.1\r\nHost: a\r\n\r\n"));
    const std::string answer = client.ReadUntil("]");
    EXPECT_THAT(answer,
                AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith(absl::StrCat("[", i, "&]")),
                      Not(HasSubstr("Connection: close"))));
    EXPECT_THAT(answer, ContainsRegex("\r\nDate: [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} "
                                      "[0-9]{2}:[0-9]{2}:[0-9]{2} GMT\r\n"));
  }
}

TEST_F(HttpRequestsTest, PipelinedRequestsAreAnsweredInOrder) {
  Client client(port());
  std::string requests, expected;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&requests, "GET /echo?", i, " HTTP/1.1\r\nHost: a\r\n",
                    i == 299 ? "Connection: close\r\n" : "", "\r\n");
    absl::StrAppend(&expected, "[", i, "]");
  }
  client.Send(requests);
  const std::string answers = client.ReadAll();
  std::string bodies;
  for (size_t at = 0; (at = answers.find("\r\n\r\n[", at)) != std::string::npos;) {
    at += 4;
    bodies += answers.substr(at, answers.find(']', at) - at + 1);
  }
  EXPECT_EQ(bodies, expected);
}

TEST_F(HttpRequestsTest, AnHttp10ConnectionIsClosedUnlessItAsks) {
  const std::string answer = Exchange(port(), "GET /echo?a HTTP/1.0\r\n\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.0 200 OK\r\n"), EndsWith("[a]")));
  Client client(port());
  for (int i = 0; i < 2; ++i) {
    client.Send("GET /echo?b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_THAT(client.ReadUntil("]"), HasSubstr("Connection: keep-alive\r\n"));
  }
}

TEST_F(HttpRequestsTest, TakesAbsoluteTargetsAndPercentEncoding) {
  EXPECT_THAT(Fetch(port(), "GET", "http://test:80/echo?x"), EndsWith("\r\n\r\n[x]"));
  EXPECT_THAT(Fetch(port(), "GET", "/%65ch%6F?%78"), EndsWith("\r\n\r\n[%78]"));
  EXPECT_THAT(Fetch(port(), "GET", "/echo%2f"), StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(Fetch(port(), "GET", "/%zz"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Fetch(port(), "CONNECT", "test:80"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Fetch(port(), "OPTIONS", "*"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpRequestsTest, TellsWhoAsks) {
  EXPECT_THAT(Exchange(port(),
                       "GET /peer HTTP/1.1\r\nHost: a\r\nUser-Agent: me\r\n"
                       "Connection: close\r\n\r\n"),
              EndsWith("\r\n\r\n127.0.0.1 me"));
}

TEST_F(HttpRequestsTest, MalformedRequestsAreRefusedAndEndTheConnection) {
  const std::pair<std::string, int> kCases[] = {
      {"hello\r\n\r\n", 400},
      {"\x16\x03\x01\x02\x01\r\n\r\n", 400},  // the beginning of TLS
      {"GET /echo\r\n\r\n", 400},
      {"GET  /echo HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\n\r\n", 400},                             // no Host
      {"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},       // two
      {"GET /echo HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", 400},         // space before the colon
      {"GET /echo HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400},             // no colon
      {"GET /echo HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400},       // control byte
      {"GET /echo HTTP/1.1\nHost: a\n\nGET / HTTP/1.1\r\n\r\n", 505},  // bare line feeds
      {"GET /ec\x01ho HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /echo HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"BREW /echo HTTP/1.1\r\nHost: a\r\n\r\n", 501},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      // Requests with different readings by a proxy and by us.
      {"GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
       400},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
      {"GET /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
  };
  for (const auto& [request, status] : kCases) {
    EXPECT_THAT(Exchange(port(), request),
                AllOf(StartsWith(absl::StrCat("HTTP/1.1 ", status, " ")),
                      HasSubstr("Connection: close\r\n"), Not(HasSubstr("["))))
        << request;
  }
}

TEST_F(HttpRequestsTest, ABodyIsRefusedUnread) {
  const std::string chunked =
      "GET /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  EXPECT_THAT(Exchange(port(), chunked), StartsWith("HTTP/1.1 413 "));
  const std::string smuggled =
      "GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n"
      "GET /echo?b HTTP/1.1\r\nHost: a\r\n\r\n";
  EXPECT_THAT(Exchange(port(), smuggled),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("Connection: close\r\n"),
                    Not(HasSubstr("[b]"))));
  EXPECT_THAT(Exchange(port(),
                       "GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
                       "Connection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
  // A client with all bytes sent before it reads still gets the answer.
  Client client(port());
  client.Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n");
  client.TrySend(std::string(500'000, 'x'));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 405 "));
}

TEST_F(HttpRequestsTest, OversizedHeadersAreRefused) {
  const std::string filler(17 * 1024, 'x');
  std::string many;
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&many, "X: y\r\n");
  const std::string requests[] = {absl::StrCat("GET / HTTP/1.1\r\nX: ", filler, "\r\n\r\n"),
                                  absl::StrCat("GET /", filler, " HTTP/1.1\r\nHost: a\r\n\r\n"),
                                  absl::StrCat("GET / HTTP/1.1\r\n", many, "\r\n"),
                                  absl::StrCat("GET / HTTP/1.1\r\nX: ", std::string(200'000, 'x'))};
  for (const std::string& request : requests) {
    EXPECT_THAT(Exchange(port(), request),
                AllOf(StartsWith("HTTP/1.1 431 "), HasSubstr("longer than 16384 bytes")));
  }
  const std::string large = absl::StrCat(
      "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: ", std::string(16'000, 'x'),
      "\r\n\r\n");
  EXPECT_THAT(Exchange(port(), large), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpRequestsTest, AHalfRequestIsNotAnswered) {
  Client client(port());
  client.Send("GET /echo HTTP/1.1\r\nHo");
  client.EndOutput();
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(HttpRequestsTest, AClientThatEndsItsOutputGetsItsAnswer) {
  Client client(port());
  client.Send("GET /echo?a HTTP/1.1\r\nHost: a\r\n\r\n");
  client.EndOutput();
  EXPECT_THAT(client.ReadAll(), EndsWith("[a]"));
}

TEST_F(HttpRequestsTest, AHandlerThatFailsCostsItsRequestAlone) {
  EXPECT_THAT(Fetch(port(), "GET", "/throws"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(Fetch(port(), "GET", "/echo"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpRequestsTest, AHandlerMayAnswerLaterAndElsewhere) {
  Client client(port());
  client.Send("GET /later HTTP/1.1\r\nHost: a\r\n\r\nGET /echo?next HTTP/1.1\r\nHost: a\r\n\r\n");
  asked_.WaitForNotification();
  EXPECT_THAT(Fetch(port(), "GET", "/echo"), StartsWith("HTTP/1.1 200 "));  // nobody waits for it
  std::thread([&] { later_->Send(TextResponse(200, "late\n")); }).join();
  EXPECT_THAT(client.ReadUntil("late\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(client.ReadUntil("[next]"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpRequestsTest, AnAnswerAfterTheServersEndIsDropped) {
  Client client(port());
  client.Send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  asked_.WaitForNotification();
  server_.reset();
  later_->Send(TextResponse(200, "late\n"));
  later_.reset();
  EXPECT_EQ(client.ReadAll(), "");
}

}  // namespace
}  // namespace upscaled::server
