#include "server/rest/result_call.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/handlers/call_steps.h"
#include "server/handlers/result_sharing.h"
#include "server/rest/byte_range.h"
#include "server/rest/entity_tags.h"

namespace upscaled::server {
namespace {

constexpr size_t kFilePieceBytes = size_t{64} << 10;

absl::Status NoResult() {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnspecified,
                   "no result of this name is stored here");
}

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

// `for_all`: whoever asks may have it, and not only those with a key.
HttpResponse ResponseFor(const StoredResult& result, bool for_all) {
  return {.status = 200,
          .fields = {{"Content-Type", result.media_type},
                     {"X-Content-Type-Options", "nosniff"},
                     {"ETag", QuotedTag(result.name)},
                     {"Cache-Control", absl::StrCat(for_all ? "public" : "private",
                                                    ", max-age=31536000, immutable")},
                     {"Accept-Ranges", "bytes"}}};
}

// The answer that has a part of the result, or says that there is no such part.
HttpResponse PartResponse(const StoredResult& result, const ByteRange& range, bool for_all) {
  if (range.empty()) {
    return {.status = 416,
            .fields = {{"Cache-Control", "no-store"},
                       {"Content-Range", absl::StrCat("bytes */", result.bytes)}}};
  }
  HttpResponse response = ResponseFor(result, for_all);
  response.status = 206;
  response.fields.push_back({"Content-Range", absl::StrCat("bytes ", range.begin, "-",
                                                           range.end - 1, "/", result.bytes)});
  return response;
}

}  // namespace

void ResultCall::Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange) {
  std::make_shared<ResultCall>(host, std::move(exchange))
      ->Start(AnswerSink::kPieceBytes + kFilePieceBytes);
}

void ResultCall::Run() {
  const absl::Status status = GuardHandler(record(), [this] { return Answer(); });
  Conclude(status);
  if (!status.ok()) return Fail(status);
  sink().Finish({});
}

absl::Status ResultCall::Answer() {
  ResultSharing* const sharing = host().handlers.sharing;
  if (sharing == nullptr || sharing->store() == nullptr) return NoResult();
  const std::optional<ResultStore::Found> found =
      sharing->store()->Find(request().parameter, payer().tenant);
  if (!found.has_value()) return NoResult();
  const StoredResult& result = found->result;
  const bool for_all = request().caller == nullptr;
  HttpResponse response = ResponseFor(result, for_all);
  ByteRange part{0, result.bytes};
  if (Has(ParseTags(request().Field("If-None-Match")), result.name)) {
    response.status = 304;
    part = {};
  } else if (const auto range = RangeOf(request(), result.name, result.bytes)) {
    part = *range;
    response = PartResponse(result, part, for_all);
  }
  if (!part.empty()) response.length = static_cast<uint64_t>(part.end - part.begin);
  sink().Open(WithCors(std::move(response)), {});
  if (request().method == "HEAD") return absl::OkStatus();
  std::vector<uint8_t> bytes(kFilePieceBytes);
  while (!part.empty()) {
    const auto wanted = static_cast<size_t>(
        std::min<int64_t>(part.end - part.begin, static_cast<int64_t>(bytes.size())));
    ASSIGN_OR_RETURN(const size_t count,
                     found->file.ReadAt(part.begin, std::span(bytes).first(wanted)));
    if (count == 0) return absl::DataLossError("a stored result is shorter than it was");
    RETURN_IF_ERROR(sink().Write(std::span(bytes).first(count)));
    part.begin += static_cast<int64_t>(count);
    record().sent_bytes += static_cast<int64_t>(count);
  }
  return sink().Settle();
}

}  // namespace upscaled::server
