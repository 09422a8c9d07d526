#include "engine/model/pytorch/pickle_reader.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"

namespace upscaled::pytorch {

PickleReader::PickleReader(std::string_view bytes)
    : bytes_(bytes.substr(0, kMaxPickleBytes)), capped_(bytes.size() > kMaxPickleBytes) {}

absl::StatusOr<std::string_view> PickleReader::Take(uint64_t count) {
  const size_t left = bytes_.size() - position_;
  if (count > left && capped_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the pickle is longer than ", kMaxPickleBytes, " bytes, the limit"));
  }
  if (count > left) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pickle is cut short: ", count, " bytes are needed, ", left, " are left"));
  }
  position_ += count;
  return bytes_.substr(position_ - count, count);
}

absl::StatusOr<uint64_t> PickleReader::Number(int bytes) {
  ASSIGN_OR_RETURN(const std::string_view taken, Take(bytes));
  uint64_t number = 0;
  std::memcpy(&number, taken.data(), taken.size());
  return number;
}

absl::StatusOr<std::string_view> PickleReader::Line() {
  const size_t end = bytes_.find('\n', position_);
  if (end == std::string_view::npos) {
    return absl::InvalidArgumentError("the pickle is cut short in a name");
  }
  ASSIGN_OR_RETURN(const std::string_view line, Take(end + 1 - position_));
  return line.substr(0, line.size() - 1);
}

}  // namespace upscaled::pytorch
