// The binary half of an ncnn model: weights one after the other, in the order of the layers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled {

// Borrows the bytes of a .bin file. Checks every count against the remaining bytes before
// allocating.
class NcnnWeights {
 public:
  explicit NcnnWeights(std::string_view bytes) : bytes_(bytes) {}

  // `count` values behind a storage tag: fp32 (0) or fp16 (0x01306B47), padded to four bytes.
  // UNIMPLEMENTED for quantised storage.
  absl::StatusOr<std::vector<float>> ReadTagged(int64_t count);
  // `count` fp32 values without a tag.
  absl::StatusOr<std::vector<float>> ReadPlain(int64_t count);
  // INVALID_ARGUMENT when bytes are left over.
  absl::Status CheckEnd() const;

 private:
  absl::StatusOr<std::string_view> Take(int64_t bytes);

  std::string_view bytes_;
  size_t position_ = 0;
};

}  // namespace upscaled
