#include "server/http/request_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace upscaled::server {
namespace {

constexpr size_t kMaxHeaderBytes = 1024;

std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct Outcome {
  int fault = 0;
  bool header_done = false, body_done = false;
  std::string content;
  std::string rest;
};

// Gives `text` to a parser in pieces. Their content goes to a sink of `sink_bytes` a call.
Outcome Parse(std::string_view text, size_t piece_bytes, size_t sink_bytes = 1000) {
  HttpRequestParser parser(kMaxHeaderBytes);
  Outcome outcome;
  std::string buffer;
  while (!text.empty() && !parser.fault()) {
    buffer.append(text.substr(0, piece_bytes));
    text.remove_prefix(std::min(piece_bytes, text.size()));
    if (!parser.header_done()) buffer.erase(0, parser.ReadHeader(AsBytes(buffer)));
    for (size_t taken = 1; taken > 0 && parser.header_done() && !parser.body_done();) {
      if (parser.fault()) break;
      taken = parser.ReadBody(AsBytes(buffer), [&](std::span<const uint8_t> bytes) {
        const size_t n = std::min(bytes.size(), sink_bytes);
        outcome.content.append(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
        return n;
      });
      buffer.erase(0, taken);
    }
  }
  outcome.fault = parser.fault() ? parser.fault()->status : 0;
  outcome.header_done = parser.header_done();
  outcome.body_done = parser.header_done() && parser.body_done();
  outcome.rest = buffer + std::string(text);
  return outcome;
}

TEST(RequestParserTest, HowBytesComeDoesNotMatter) {
  const std::string request =
      "POST /a?b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;x=\"y\"\r\nhello\r\nA\r\n, chunked \r\n5\r\nworld\r\n000\r\nX: y\r\nZ: a\r\n\r\nGET";
  for (const size_t piece_bytes : {1, 2, 3, 5, 7, 50, 1000}) {
    for (const size_t sink_bytes : {1, 3, 1000}) {
      const Outcome outcome = Parse(request, piece_bytes, sink_bytes);
      EXPECT_EQ(outcome.fault, 0);
      EXPECT_TRUE(outcome.body_done) << piece_bytes;
      EXPECT_EQ(outcome.content, "hello, chunked world");
      EXPECT_EQ(outcome.rest, "GET");
    }
  }
}

TEST(RequestParserTest, AHeaderIsBoundedHoweverItComes) {
  std::string request = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 300; ++i) request += "X: y\r\n";
  request += "\r\n";
  for (const size_t piece_bytes : {1, 6, 100, 10'000}) {
    EXPECT_EQ(Parse(request, piece_bytes).fault, 431) << piece_bytes;
  }
}

TEST(RequestParserTest, EmptyLinesBeforeARequestArePassedOver) {
  for (const std::string lines : {"\r\n", "\r\n\r\n\r\n"}) {
    const std::string request =
        lines + "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET";
    for (const size_t piece_bytes : {1, 2, 3, 5, 1000}) {
      const Outcome outcome = Parse(request, piece_bytes);
      EXPECT_EQ(outcome.fault, 0) << piece_bytes;
      EXPECT_EQ(outcome.content, "hi");
      EXPECT_EQ(outcome.rest, "GET");
    }
  }
  std::string endless;
  for (int i = 0; i < 2000; ++i) endless += "\r\n";
  for (const size_t piece_bytes : {1, 100, 10'000}) {
    EXPECT_EQ(Parse(endless, piece_bytes).fault, 431) << "they count as the header";
  }
  EXPECT_EQ(Parse("\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 1000).fault, 400);
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\n\r\nHost: a\r\n\r\n", 1000).fault, 400) << "not after";
}

TEST(RequestParserTest, FieldsHaveOneLine) {
  for (const char* const fields :
       {"Transfer-Encoding:\r\n chunked\r\n", "Transfer-Encoding: chunked\r\n , identity\r\n",
        "Content-Length:\r\n\t2\r\n", "X: y\r\n Content-Length: 2\r\n", "X: y\r\n \r\n"}) {
    for (const size_t piece_bytes : {1, 7, 1000}) {
      const Outcome outcome = Parse(
          "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n2\r\nhi\r\n", piece_bytes);
      EXPECT_EQ(outcome.fault, 400) << fields;
    }
  }
}

TEST(RequestParserTest, TellsOfTheBody) {
  const auto parse = [](std::string_view fields) {
    HttpRequestParser parser(kMaxHeaderBytes);
    const std::string text = "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
    EXPECT_EQ(parser.ReadHeader(AsBytes(text)), text.size());
    EXPECT_FALSE(parser.fault());
    return std::move(parser.parsed());
  };
  EXPECT_FALSE(parse("").request.has_body);
  EXPECT_EQ(parse("").request.content_length, 0u);
  EXPECT_FALSE(parse("Content-Length: 0\r\nExpect: 100-continue\r\n").expects_continue);
  EXPECT_EQ(parse("Content-Length: 7\r\n").request.content_length, 7u);
  EXPECT_TRUE(parse("Content-Length: 7\r\nExpect: 100-Continue\r\n").expects_continue);
  EXPECT_TRUE(parse("Transfer-Encoding: chunked\r\n").request.has_body);
  EXPECT_EQ(parse("Transfer-Encoding: chunked\r\n").request.content_length, std::nullopt);
}

TEST(RequestParserTest, TrailersDoNotBecomeFields) {
  HttpRequestParser parser(kMaxHeaderBytes);
  const std::string text =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n";
  const size_t taken = parser.ReadHeader(AsBytes(text));
  parser.ReadBody(AsBytes(text).subspan(taken),
                  [](std::span<const uint8_t> bytes) { return bytes.size(); });
  EXPECT_TRUE(parser.body_done());
  EXPECT_EQ(parser.parsed().request.Field("X"), "");
}

}  // namespace
}  // namespace upscaled::server
