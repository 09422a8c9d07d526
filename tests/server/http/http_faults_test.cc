// Refusals by the port itself are told in its host's form.
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/http/http_server.h"
#include "tests/server/http/http_client.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::Duration kHeaderTimeout = absl::Seconds(2);

class HttpFaultsTest : public ::testing::Test {
 protected:
  HttpFaultsTest() {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0",
         .title = "a test",
         .routes = {{.method = "GET", .path = "/plain", .handler = Plain},
                    {.method = "POST", .path = "/drops", .stream = Drop, .max_body_bytes = 100},
                    {.method = "POST", .path = "/reads", .stream = Read, .max_body_bytes = 100}},
         .fault_answer = Tell,
         .limits = {.header_timeout = kHeaderTimeout}},
        table_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  static HttpResponse Tell(const HttpFault& fault, const HttpRequest& request) {
    HttpResponse response = FaultText(fault, request);
    response.fields.push_back({"From", std::string(request.Field("Origin"))});
    response.fields.push_back({"Reason", std::string(ErrorReasonName(ReasonOf(fault.error)))});
    return response;
  }
  static void Plain(const HttpRequest&, std::unique_ptr<HttpResponseWriter> writer) {
    writer->Send(TextResponse(200, "plain"));
  }
  static void Drop(std::unique_ptr<HttpExchange>) {}
  static void Read(std::unique_ptr<HttpExchange> exchange) {
    std::thread([exchange = std::move(exchange)] {
      uint8_t byte;
      while (exchange->Read({&byte, 1}).value_or(0) > 0) {
      }
    }).detach();
  }

  int port() const { return server_->port(); }

  ConnectionTable table_{{}};
  std::unique_ptr<HttpServer> server_;
};

// The request has "Origin: o" behind its first line.
std::string Sent(std::string_view line, std::string_view rest = "\r\n") {
  return absl::StrCat(std::string(line),
                      " HTTP/1.1\r\nHost: a\r\nOrigin: o\r\nConnection: close\r\n",
                      std::string(rest));
}

TEST_F(HttpFaultsTest, AreToldInTheHostsForm) {
  const std::string filler(17 * 1024, 'x');
  const struct {
    std::string request;
    int status;
    std::string reason, text;
  } kCases[] = {
      {Sent("GET /none"), 404, "UNSPECIFIED", "there is no \"/none\""},
      {Sent("POST /plain"), 405, "UNSPECIFIED", "\"/plain\" takes GET, HEAD, not POST"},
      {Sent("GET /plain", "Content-Length: 3\r\n\r\nabc"), 413, "LIMIT_EXCEEDED",
       "a body of 3 bytes; \"/plain\" takes 0 bytes"},
      {Sent("GET /plain", "X\r\n\r\n"), 400, "UNSPECIFIED", "no HTTP request"},
      {Sent("GET /plain", "Host: b\r\n\r\n"), 400, "UNSPECIFIED", "there are 2"},
      {Sent("GET /a%2fb"), 400, "UNSPECIFIED", ""},
      {Sent("BREW /plain"), 501, "UNSPECIFIED", "\"BREW\""},
      {Sent("GET /plain", "Transfer-Encoding: gzip\r\n\r\n"), 501, "UNSPECIFIED", "\"gzip\""},
      {Sent("POST /reads", "Content-Length: 3\r\nExpect: more\r\n\r\nabc"), 417, "UNSPECIFIED",
       "\"more\""},
      {Sent("POST /reads", "Transfer-Encoding: chunked\r\n\r\nx\r\n"), 400, "UNSPECIFIED",
       "the body is malformed"},
      {Sent("GET /plain", absl::StrCat("X: ", filler, "\r\n\r\n")), 431, "LIMIT_EXCEEDED",
       "longer than 16384 bytes"},
      {Sent("GET /plain", "X: y"), 408, "STALLED", "no whole header after 2s"},
      {Sent("POST /drops"), 500, "INTERNAL", "no answer"},
  };
  for (const auto& c : kCases) {
    Client client(port());
    client.Send(c.request);
    EXPECT_THAT(
        client.ReadAll(),
        AllOf(StartsWith(absl::StrCat("HTTP/1.1 ", c.status, " ")), HasSubstr("From: o\r\n"),
              HasSubstr(absl::StrCat("Reason: ", c.reason, "\r\n")), HasSubstr(c.text)))
        << c.request.substr(0, 200);
  }
}

TEST_F(HttpFaultsTest, HaveNoBodyInAnswerToHead) {
  const std::string filler(17 * 1024, 'x');
  const std::pair<std::string, int> kCases[] = {
      {Sent("HEAD /none"), 404},
      {Sent("HEAD /plain", "Content-Length: 3\r\n\r\nabc"), 413},
      {Sent("HEAD /plain", "X\r\n\r\n"), 400},
      {Sent("HEAD /plain", "Host: b\r\n\r\n"), 400},
      {absl::StrCat("HEAD /", filler), 431},
      {"HEAD /pl", 408},
  };
  for (const auto& [request, status] : kCases) {
    EXPECT_THAT(
        Exchange(port(), request),
        AllOf(StartsWith(absl::StrCat("HTTP/1.1 ", status, " ")), HasSubstr("Content-Length: "),
              Not(HasSubstr("Content-Length: 0\r\n")), EndsWith("\r\n\r\n")))
        << request.substr(0, 200);
  }
}

// However long and strange it is.
TEST_F(HttpFaultsTest, RepeatOnlyABitOfThePath) {
  const std::string answer =
      Exchange(port(), Sent(absl::StrCat("GET /%01%22", std::string(5000, 'y'))));
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("\"/\\x01\\\"yyy"),
                            HasSubstr("yyy...\"; there are /")));
  EXPECT_LT(answer.size(), 1000u);
}

}  // namespace
}  // namespace upscaled::server
