#include "server/http/http_answer.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

void AppendField(std::string& header, std::string_view name, std::string_view value) {
  absl::StrAppend(&header, ToAbsl(name), ": ", ToAbsl(value), "\r\n");
}

// RFC 9110, section 8.6: answers without a body, where a length would say something else.
bool TellsLength(int status) { return status >= 200 && status != 204 && status != 304; }

}  // namespace

std::string HttpAnswerHeader(const HttpResponse& response, const HttpFrame& frame, absl::Time now) {
  std::string header = absl::StrCat("HTTP/1.", frame.minor_version, " ", response.status, " ",
                                    ToAbsl(HttpReason(response.status)), "\r\n");
  for (const HttpField& field : response.fields) AppendField(header, field.name, field.value);
  AppendField(header, "Date",
              absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", now, absl::UTCTimeZone()));
  if (!frame.keep_alive) {
    AppendField(header, "Connection", "close");
  } else if (frame.minor_version == 0) {
    AppendField(header, "Connection", "keep-alive");
  }
  if (frame.framing == HttpFraming::kLength && TellsLength(response.status)) {
    AppendField(header, "Content-Length", absl::StrCat(frame.body_bytes));
  } else if (frame.framing == HttpFraming::kChunked) {
    AppendField(header, "Transfer-Encoding", "chunked");
    if (!frame.trailer_names.empty()) {
      AppendField(header, "Trailer", absl::StrJoin(frame.trailer_names, ", "));
    }
  }
  return header.append("\r\n");
}

std::string HttpChunk(std::string_view bytes) {
  return absl::StrCat(absl::Hex(bytes.size()), "\r\n", ToAbsl(bytes), "\r\n");
}

std::string HttpLastChunk(const std::vector<HttpField>& trailers,
                          const std::vector<std::string>& names) {
  std::string chunk = "0\r\n";
  for (const HttpField& trailer : trailers) {
    const bool announced = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return absl::EqualsIgnoreCase(name, trailer.name);
    });
    if (announced && IsSendable(trailer)) AppendField(chunk, trailer.name, trailer.value);
  }
  return chunk.append("\r\n");
}

}  // namespace upscaled::server
