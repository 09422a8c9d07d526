#include "client/http/event_stream.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace upscaled::client {

void EventStream::Feed(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const absl::string_view part = bytes.substr(0, end);
    absl::StrAppend(&line_, part.substr(0, kMaxLineBytes - std::min(kMaxLineBytes, line_.size())));
    if (end == absl::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    OnLine(absl::StripSuffix(line_, "\r"));
    line_.clear();
  }
}

void EventStream::OnLine(absl::string_view line) {
  if (line.empty()) {
    if (!data_.empty()) listener_(name_, data_);
    name_.clear();
    data_.clear();
    return;
  }
  const size_t colon = line.find(':');
  if (colon == 0 || colon == absl::string_view::npos) return;  // a comment, or a bare name
  const absl::string_view field = line.substr(0, colon);
  const absl::string_view value = absl::StripPrefix(line.substr(colon + 1), " ");
  if (field == "event") name_ = std::string(value);
  if (field == "data" && data_.size() < kMaxLineBytes) {
    absl::StrAppend(&data_, data_.empty() ? "" : "\n", value);
  }
}

}  // namespace upscaled::client
