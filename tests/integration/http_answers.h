// Requests over HTTP/1.1 on a connection of their own, and their answers.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/server/net/test_socket.h"

namespace upscaled::server {

using HttpFields = std::map<std::string, std::string>;

struct HttpAnswer {
  int status = 0;
  HttpFields fields, trailers;
  std::string body;
  bool whole = false;  // as its length or its last chunk says
};

// The lines of a header up to an empty one. `text` then begins behind it.
inline HttpFields TakeFields(std::string_view& text) {
  const size_t end = std::min(text.find("\r\n\r\n"), text.size());
  HttpFields fields;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), end), "\r\n", absl::SkipEmpty())) {
    const std::pair<std::string, std::string> field =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    fields.insert(field);
  }
  text.remove_prefix(std::min(end + 4, text.size()));
  return fields;
}

inline void TakeChunks(std::string_view text, HttpAnswer& answer) {
  while (true) {
    const size_t line = text.find("\r\n");
    if (line == std::string_view::npos || line == 0) return;
    const size_t size = std::stoul(std::string(text.substr(0, line)), nullptr, 16);
    text.remove_prefix(line + 2);
    if (size == 0) {
      answer.whole = text.ends_with("\r\n");
      if (text != "\r\n") answer.trailers = TakeFields(text);
      return;
    }
    answer.body.append(text.substr(0, size));
    text.remove_prefix(std::min(size + 2, text.size()));
  }
}

// The answer of a connection until it was closed.
inline HttpAnswer ParseAnswer(std::string_view text) {
  HttpAnswer answer;
  while (text.starts_with("HTTP/1.1 100")) TakeFields(text);
  if (!text.starts_with("HTTP/1.1 ")) return answer;
  answer.status = std::stoi(std::string(text.substr(9, 3)));
  answer.fields = TakeFields(text);
  if (answer.fields.contains("Transfer-Encoding")) {
    TakeChunks(text, answer);
  } else {
    answer.body = text;
    answer.whole = answer.fields["Content-Length"] == std::to_string(text.size());
  }
  return answer;
}

// The header of a request, with its connection's end after it.
inline std::string RequestHeader(std::string_view method, std::string_view target,
                                 size_t body_bytes, const HttpFields& fields = {}) {
  std::string header = absl::StrCat(absl::string_view(method.data(), method.size()), " ",
                                    absl::string_view(target.data(), target.size()),
                                    " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
  if (body_bytes > 0) absl::StrAppend(&header, "Content-Length: ", body_bytes, "\r\n");
  for (const auto& [name, value] : fields) absl::StrAppend(&header, name, ": ", value, "\r\n");
  return header + "\r\n";
}

// All bytes until the server closes.
inline std::string ReadAll(const TestSocket& socket) {
  std::string text, piece;
  do {
    piece = socket.Read(size_t{64} << 10);
    text += piece;
  } while (!piece.empty());
  return text;
}

// Sends all of it before it reads anything.
inline HttpAnswer Request(int port, std::string_view method, std::string_view target,
                          std::string_view body = "", const HttpFields& fields = {}) {
  const TestSocket socket = TestSocket::Connect(port);
  socket.Write(RequestHeader(method, target, body.size(), fields));
  socket.Write(body);
  return ParseAnswer(ReadAll(socket));
}

}  // namespace upscaled::server
