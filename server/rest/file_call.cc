#include "server/rest/file_call.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/rest/answer.h"
#include "server/rest/byte_range.h"
#include "server/rest/entity_tags.h"

namespace upscaled::server {
namespace {

bool Has(const std::vector<std::string>& tags, const std::string& name) {
  return std::any_of(tags.begin(), tags.end(),
                     [&](const std::string& tag) { return tag == name || tag == "*"; });
}

std::optional<ByteRange> RangeOf(const HttpRequest& request, const std::string& name,
                                 int64_t bytes) {
  const std::string_view condition = request.Field("If-Range");
  if (!condition.empty() && condition != QuotedTag(name)) return std::nullopt;
  return ParseRange(request.Field("Range"), bytes);
}

HttpResponse WholeResponse(const FileAnswer& answer) {
  HttpResponse response{.status = 200,
                        .fields = {{"Content-Type", answer.media_type},
                                   {"X-Content-Type-Options", "nosniff"},
                                   {"ETag", QuotedTag(answer.name)},
                                   {"Cache-Control", answer.cache_control},
                                   {"Accept-Ranges", "bytes"}}};
  if (!answer.warnings.empty()) response.fields.push_back(WarningField(answer.warnings));
  return response;
}

HttpFault NoSuchPart(int64_t bytes) {
  return {416,
          MakeError(absl::StatusCode::kOutOfRange, ErrorReason::kUnspecified,
                    absl::StrCat("Range names no byte of the image, which has ", bytes),
                    {{"field", "Range"}}),
          {{"Content-Range", absl::StrCat("bytes */", bytes)}}};
}

HttpResponse PartResponse(const FileAnswer& answer, int64_t bytes, const ByteRange& range) {
  HttpResponse response = WholeResponse(answer);
  response.status = 206;
  response.fields.push_back(
      {"Content-Range", absl::StrCat("bytes ", range.begin, "-", range.end - 1, "/", bytes)});
  return response;
}

}  // namespace

void FileCall::Run() {
  const absl::Status status = GuardHandler(record(), [this] { return Answer(); });
  Conclude(status);
  if (!status.ok()) return Fail(status);
  sink().Finish({});
}

absl::Status FileCall::Send(const FileAnswer& answer, const ResultFile& file) {
  if (absl::Status status = CheckIfMatch(request(), answer.name); !status.ok()) {
    return KeepFault({412, status});
  }
  HttpResponse response = WholeResponse(answer);
  ByteRange part{0, file.bytes()};
  if (Has(ParseTags(request().AllFields("If-None-Match")), answer.name)) {
    response.status = 304;
    part = {};
  } else if (const auto range = request().method == "HEAD"
                                    ? std::nullopt  // RFC 9110, section 14.2
                                    : RangeOf(request(), answer.name, file.bytes())) {
    part = *range;
    if (part.empty()) return KeepFault(NoSuchPart(file.bytes()));
    response = PartResponse(answer, file.bytes(), part);
  }
  if (!part.empty()) response.length = static_cast<uint64_t>(part.end - part.begin);
  sink().Open(WithCors(std::move(response)), {});
  if (request().method == "HEAD") return absl::OkStatus();
  std::vector<uint8_t> bytes(kPieceBytes);
  while (!part.empty()) {
    const auto wanted = static_cast<size_t>(
        std::min<int64_t>(part.end - part.begin, static_cast<int64_t>(bytes.size())));
    ASSIGN_OR_RETURN(const size_t count, file.ReadAt(part.begin, std::span(bytes).first(wanted)));
    if (count == 0) return absl::DataLossError("a stored result is shorter than it was");
    RETURN_IF_ERROR(sink().Write(std::span(bytes).first(count)));
    part.begin += static_cast<int64_t>(count);
    record().sent_bytes += static_cast<int64_t>(count);
  }
  return sink().Settle();
}

}  // namespace upscaled::server
