#include "server/http/http_message.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/http/http_fault.h"

namespace upscaled::server {

std::string_view HttpRequest::Field(std::string_view name) const {
  return FindField(name).value_or("");
}

std::optional<std::string_view> HttpRequest::FindField(std::string_view name) const {
  for (const HttpField& field : fields) {
    if (absl::EqualsIgnoreCase(field.name, ToAbsl(name))) return field.value;
  }
  return std::nullopt;
}

std::string HttpRequest::AllFields(std::string_view name) const {
  std::string values;
  for (const HttpField& field : fields) {
    if (!absl::EqualsIgnoreCase(field.name, ToAbsl(name))) continue;
    absl::StrAppend(&values, values.empty() ? "" : ", ", field.value);
  }
  return values;
}

int64_t HttpRequest::Count(std::string_view name) const {
  return std::ranges::count_if(fields, [name](const HttpField& field) {
    return absl::EqualsIgnoreCase(field.name, ToAbsl(name));
  });
}

std::string_view HttpRequest::OnlyField(std::string_view name) const {
  return Count(name) == 1 ? Field(name) : "";
}

std::string_view HttpReason(int status) {
  namespace http = boost::beast::http;
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return {reason.data(), reason.size()};
}

bool IsSendable(const HttpField& field) {
  constexpr std::string_view kOthersOfToken = "!#$%&'*+-.^_`|~";
  const auto is_token = [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kOthersOfToken.find(c) != std::string_view::npos;
  };
  const auto ends_line = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  return !field.name.empty() && std::all_of(field.name.begin(), field.name.end(), is_token) &&
         std::none_of(field.value.begin(), field.value.end(), ends_line);
}

HttpResponse TextResponse(int status, std::string text) {
  return {.status = status,
          .fields = {{"Content-Type", "text/plain; charset=utf-8"}, {"Cache-Control", "no-store"}},
          .body = std::move(text)};
}

std::string Quoted(std::string_view sent) {
  constexpr size_t kMaxBytes = 100;
  const char* const end = sent.size() > kMaxBytes ? "...\"" : "\"";
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(ToAbsl(sent.substr(0, kMaxBytes))), end);
}

HttpResponse FaultText(const HttpFault& fault, const HttpRequest&) {
  HttpResponse response = TextResponse(fault.status, absl::StrCat(fault.error.message(), "\n"));
  response.fields.insert(response.fields.end(), fault.fields.begin(), fault.fields.end());
  if (const std::optional<absl::Duration> delay = RetryDelayOf(fault.error)) {
    response.fields.push_back(
        {"Retry-After", absl::StrCat(absl::ToInt64Seconds(absl::Ceil(*delay, absl::Seconds(1))))});
  }
  return response;
}

}  // namespace upscaled::server
