#include "engine/model/ncnn_weights.h"

#include <cstring>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/model/half.h"

namespace upscaled {
namespace {

constexpr uint32_t kTagFloat32 = 0;
constexpr uint32_t kTagFloat16 = 0x01306B47;
constexpr uint32_t kTagInt8 = 0x000D4B38;

}  // namespace

absl::StatusOr<std::string_view> NcnnWeights::Take(int64_t bytes) {
  const int64_t left = static_cast<int64_t>(bytes_.size() - position_);
  if (bytes > left) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "weights end too early: needs %d bytes at offset %d, %d are left", bytes, position_, left));
  }
  const std::string_view taken = bytes_.substr(position_, bytes);
  position_ += bytes;
  return taken;
}

absl::StatusOr<std::vector<float>> NcnnWeights::ReadPlain(int64_t count) {
  ASSIGN_OR_RETURN(const std::string_view bytes, Take(count * int64_t{sizeof(float)}));
  std::vector<float> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

absl::StatusOr<std::vector<float>> NcnnWeights::ReadTagged(int64_t count) {
  ASSIGN_OR_RETURN(const std::string_view tag_bytes, Take(sizeof(uint32_t)));
  uint32_t tag = 0;
  std::memcpy(&tag, tag_bytes.data(), sizeof(tag));
  if (tag == kTagFloat32) return ReadPlain(count);
  if (tag != kTagFloat16) {
    return absl::UnimplementedError(
        absl::StrFormat("weight storage 0x%08X%s is not supported, only fp32 (0) and fp16 (0x%08X)",
                        tag, tag == kTagInt8 ? " (int8)" : "", kTagFloat16));
  }
  ASSIGN_OR_RETURN(const std::string_view bytes, Take((count + 1) / 2 * 4));
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, sizeof(half));
    values[i] = HalfToFloat(half);
  }
  return values;
}

absl::Status NcnnWeights::CheckEnd() const {
  if (position_ == bytes_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "weights have %d bytes, the layers use %d of them", bytes_.size(), position_));
}

}  // namespace upscaled
