#include "engine/model/json_shape.h"

#include "absl/strings/str_cat.h"
#include "engine/model/limits.h"

namespace upscaled {

absl::Status CheckJsonShape(std::string_view text) {
  int depth = 0;
  size_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
      continue;
    }
    const bool opens = c == '[' || c == '{';
    if (opens) ++depth;
    if (c == ']' || c == '}') --depth;
    if (opens || c == ',') ++values;
    if (depth > kMaxJsonDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("is nested more than ", kMaxJsonDepth, " levels deep"));
    }
    if (values > kMaxJsonValues) {
      return absl::ResourceExhaustedError(
          absl::StrCat("has more than ", kMaxJsonValues, " values, the limit"));
    }
  }
  return absl::OkStatus();
}

}  // namespace upscaled
