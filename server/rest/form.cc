#include "server/rest/form.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

absl::StatusOr<std::string> Decode(absl::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i] == '+' ? ' ' : text[i]);
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) ||
        !absl::ascii_isxdigit(text[i + 2])) {
      return InvalidForm("a '%' of the query is not followed by two hex digits");
    }
    decoded.append(absl::HexStringToBytes(text.substr(i + 1, 2)));
    i += 2;
  }
  return decoded;
}

}  // namespace

absl::Status InvalidForm(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption, message);
}

absl::StatusOr<std::vector<FormField>> ParseQuery(std::string_view query) {
  std::vector<FormField> fields;
  for (const absl::string_view part : absl::StrSplit(ToAbsl(query), '&', absl::SkipEmpty())) {
    if (fields.size() == kMaxFormFields) {
      return InvalidForm(absl::StrCat("the query has more than ", kMaxFormFields, " fields"));
    }
    const size_t equals = part.find('=');
    FormField field;
    ASSIGN_OR_RETURN(field.name, Decode(part.substr(0, equals)));
    if (equals != absl::string_view::npos) {
      ASSIGN_OR_RETURN(field.value, Decode(part.substr(equals + 1)));
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string PercentEncode(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || (c != '\0' && absl::StrContains("-._~", c))) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace upscaled::server
