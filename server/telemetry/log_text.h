// Formats untrusted text for a log line: bounded, escaped, on one line.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace upscaled::server {

// Cut after 512 bytes.
inline std::string Bounded(std::string_view text) {
  constexpr size_t kMaxStringBytes = 512;
  if (text.size() <= kMaxStringBytes) return std::string(text);
  std::string cut(text.substr(0, kMaxStringBytes));
  cut += "...";
  return cut;
}

// ASCII on one line, of a nlohmann::json or ordered_json; broken UTF-8 becomes U+FFFD.
template <typename Json>
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

inline std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

// To the microsecond.
inline double Milliseconds(absl::Duration duration) {
  return std::round(absl::ToDoubleMicroseconds(duration)) / 1000;
}

}  // namespace upscaled::server
