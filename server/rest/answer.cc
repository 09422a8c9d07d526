#include "server/rest/answer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "proto/json/message_json.h"
#include "server/base/error.h"
#include "server/options/contract_values.h"
#include "server/rest/entity_tags.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr char kSummary[] = "Upscale-Summary";
constexpr char kServerTiming[] = "Server-Timing";
constexpr char kWarning[] = "Upscale-Warning";
constexpr char kETag[] = "ETag";
constexpr size_t kMaxFileNameBytes = 200;

double Milliseconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) * 1e3 +
         static_cast<double>(duration.nanos()) / 1e6;
}

// "cat" of "C:\images\cat.jpeg".
std::string_view Stem(std::string_view file_name) {
  file_name = file_name.substr(file_name.find_last_of("/\\") + 1);  // npos + 1 is 0
  const size_t dot = file_name.rfind('.');
  return dot == 0 || dot == std::string_view::npos ? file_name : file_name.substr(0, dot);
}

std::string MediaType(std::optional<ImageFormat> format) {
  return std::string(format.has_value() ? FormatMediaType(*format) : "application/octet-stream");
}

// "upscaled-2x.png", "cat-1.5x.png".
std::string SuggestedName(const pb::UpscaleImageHeader& header, std::string_view source_name) {
  const double scale =
      static_cast<double>(header.result_width_px()) / std::max(header.source_width_px(), 1);
  const std::string_view stem = Stem(source_name);
  const std::optional<ImageFormat> format = FromProto(header.format());
  return absl::StrCat(stem.empty() ? "upscaled" : ToAbsl(stem), "-", std::round(scale * 100) / 100,
                      "x.", format.has_value() ? ToAbsl(FormatExtension(*format)) : "bin");
}

// The first kMaxFileNameBytes of `name`, without a part of a character of UTF-8 at the end.
std::string_view Shortened(std::string_view name) {
  size_t bytes = std::min(name.size(), kMaxFileNameBytes);
  while (bytes > 0 && bytes < name.size() && (name[bytes] & 0xC0) == 0x80) --bytes;
  return name.substr(0, bytes);
}

bool IsAttributeCharacter(char c) {  // RFC 8187
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("!#$&+-.^_`|~").find(c) != std::string_view::npos;
}

// A text fit for a quoted string of a field.
std::string FieldText(absl::string_view text) {
  std::string safe(text);
  std::replace_if(
      safe.begin(), safe.end(),
      [](char c) {
        return !absl::ascii_isprint(static_cast<unsigned char>(c)) || c == '"' || c == '\\';
      },
      '?');
  return safe;
}

// Upscale-Warning, a list of strings of RFC 8941.
template <typename Sentences>
HttpField FieldOfWarnings(const Sentences& sentences) {
  return {kWarning, absl::StrJoin(sentences, ", ", [](std::string* out, const std::string& text) {
            absl::StrAppend(out, "\"", FieldText(text), "\"");
          })};
}

std::string CacheControl(const pb::UpscaleImageHeader& header,
                         std::optional<absl::Duration> public_for) {
  if (public_for.has_value()) {
    return absl::StrCat("public, max-age=", absl::ToInt64Seconds(*public_for));
  }
  return header.etag().empty() ? "no-store" : "no-cache";
}

}  // namespace

HttpField WarningField(const std::vector<std::string>& sentences) {
  return FieldOfWarnings(sentences);
}

std::string ContentDisposition(std::string_view kind, std::string_view file_name) {
  std::string plain, encoded;
  bool ascii = true;
  for (const char c : Shortened(file_name)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool harmless = byte >= 0x20 && byte != 0x7F && c != '"' && c != '\\' && c != '/';
    const char safe = harmless ? c : '_';
    ascii = ascii && byte < 0x80;
    plain.push_back(byte < 0x80 ? safe : '_');
    if (IsAttributeCharacter(safe)) {
      encoded.push_back(safe);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(safe));
    }
  }
  std::string value = absl::StrCat(ToAbsl(kind), "; filename=\"", plain, "\"");
  if (!ascii) absl::StrAppend(&value, "; filename*=UTF-8''", encoded);
  return value;
}

HttpResponse ImageResponse(const pb::UpscaleImageHeader& header,
                           const UpscaleParameters& parameters, std::string_view source_name,
                           absl::Duration planning, std::optional<absl::Duration> public_for) {
  const bool save = !parameters.download.empty();
  HttpResponse response{
      .status = header.not_modified() ? 304 : 200,
      .fields = {
          {"Content-Type", MediaType(FromProto(header.format()))},
          {"X-Content-Type-Options", "nosniff"},
          {"Content-Disposition",
           save ? ContentDisposition("attachment", parameters.download)
                : ContentDisposition("inline", SuggestedName(header, source_name))},
          {"Cache-Control", CacheControl(header, public_for)},
          {"Vary", "Accept"},
          {"X-Request-Id", header.request_id()},
          {"Upscale-Model", header.model()},
          {"Upscale-Width", absl::StrCat(header.result_width_px())},
          {"Upscale-Height", absl::StrCat(header.result_height_px())},
          {"Upscale-Tiles", absl::StrCat(header.tiles())},
          {"Upscale-Header", MessageToJson(header)},
          {kServerTiming, absl::StrFormat("plan;dur=%.1f", absl::ToDoubleMilliseconds(planning))},
      }};
  if (!header.etag().empty()) response.fields.push_back({kETag, QuotedTag(header.etag())});
  if (!header.warnings().empty()) response.fields.push_back(FieldOfWarnings(header.warnings()));
  return response;
}

HttpResponse OriginalResponse(std::optional<ImageFormat> format, const absl::Status& error,
                              std::string_view request_id) {
  return {.status = 200,
          .fields = {
              {"Content-Type", MediaType(format)},
              {"X-Content-Type-Options", "nosniff"},
              {"Cache-Control", "no-store"},
              {"X-Request-Id", std::string(request_id)},
              {"Upscale-Error", std::string(ErrorReasonName(ReasonOf(error)))},
              {"Warning", absl::StrCat("199 upscaled \"the image is as it was sent: ",
                                       FieldText(error.message()), "\"")},
          }};
}

std::vector<HttpField> SummaryFields(const pb::UpscaleSummary& summary, std::string summary_json,
                                     std::vector<std::string> unsent_warnings) {
  const pb::StageTimings& timings = summary.timings();
  std::vector<HttpField> fields = {
      {kServerTiming,
       absl::StrFormat("queue;dur=%.1f, decode;dur=%.1f, infer;dur=%.1f, encode;dur=%.1f, "
                       "total;dur=%.1f",
                       Milliseconds(timings.queue()), Milliseconds(timings.decode()),
                       Milliseconds(timings.infer()), Milliseconds(timings.encode()),
                       Milliseconds(timings.total()))},
      {kSummary, std::move(summary_json)}};
  if (!summary.etag().empty()) fields.push_back({kETag, QuotedTag(summary.etag())});
  unsent_warnings.insert(unsent_warnings.end(), summary.warnings().begin(),
                         summary.warnings().end());
  if (!unsent_warnings.empty()) fields.push_back(FieldOfWarnings(unsent_warnings));
  return fields;
}

std::vector<std::string> SummaryFieldNames(const pb::UpscaleImageHeader& header) {
  std::vector<std::string> names = {kServerTiming, kSummary, kWarning};
  if (header.etag().empty()) names.push_back(kETag);  // it may come at the end
  return names;
}

}  // namespace upscaled::server
