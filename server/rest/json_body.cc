#include "server/rest/json_body.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"
#include "server/rest/scalar_reader.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxShownKeyBytes = 64;

absl::StatusOr<std::string> DecodeBase64(absl::string_view text) {
  std::string bytes;
  if (absl::Base64Unescape(text, &bytes) || absl::WebSafeBase64Unescape(text, &bytes)) return bytes;
  return InvalidForm("the image is no base64 text (RFC 4648)");
}

absl::StatusOr<std::string> DecodeImage(const std::string& text) {
  return IsDataUrl(text) ? DecodeDataUrl(text) : DecodeBase64(text);
}

class Reader final : public ScalarReader {
 public:
  absl::StatusOr<JsonBody> Finish(bool parsed) {
    RETURN_IF_ERROR(End(parsed));
    return std::move(body_);
  }

  bool start_object(size_t) override {
    if (std::exchange(open_, true)) return Refuse(absl::StrCat(Name(), " is an object"));
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(size_t) override {
    return Refuse(open_ ? absl::StrCat(Name(), " is an array") : NoObject());
  }
  bool end_array() override { return true; }

 private:
  static std::string NoObject() { return "the JSON is no object"; }
  std::string Name() const { return absl::StrCat("\"", name_.substr(0, kMaxShownKeyBytes), "\""); }
  bool Take(std::optional<std::string> value) override {
    if (!open_) return Refuse(NoObject());
    if (name_ != "image" && name_ != "file") {
      if (body_.fields.size() == kMaxFormFields) {
        return Refuse(absl::StrCat("the JSON has more than ", kMaxFormFields, " fields"));
      }
      if (value.has_value()) body_.fields.push_back({std::move(name_), std::move(value)});
      return true;
    }
    if (!value.has_value() || value->empty()) return true;
    if (body_.image.has_value()) return Refuse("the JSON has two images; there can be one");
    absl::StatusOr<std::string> bytes = DecodeImage(*value);
    error_ = bytes.status();
    if (bytes.ok()) body_.image = *std::move(bytes);
    return error_.ok();
  }

  JsonBody body_;
  bool open_ = false;  // the object
};

}  // namespace

absl::StatusOr<JsonBody> ParseJsonBody(std::string_view text) {
  Reader reader;
  const bool parsed = json::sax_parse(text.begin(), text.end(), &reader);
  return reader.Finish(parsed);
}

bool IsJson(std::string_view content_type) {
  const absl::string_view type = absl::StripAsciiWhitespace(
      ToAbsl(content_type.substr(0, std::min(content_type.find(';'), content_type.size()))));
  return absl::EqualsIgnoreCase(type, "application/json");
}

bool IsDataUrl(std::string_view url) { return absl::StartsWithIgnoreCase(ToAbsl(url), "data:"); }

absl::StatusOr<std::string> DecodeDataUrl(std::string_view url) {
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos) return InvalidForm("the data: URL has no comma");
  if (!absl::EndsWithIgnoreCase(ToAbsl(url.substr(0, comma)), ";base64")) {
    return InvalidForm("the data: URL is not in base64 (data:image/png;base64,...)");
  }
  std::string text(url.substr(comma + 1));
  std::replace(text.begin(), text.end(), ' ', '+');  // as a query's decoder makes of each plus
  return DecodeBase64(text);
}

}  // namespace upscaled::server
