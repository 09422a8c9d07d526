// How much memory packed weights may take.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/model/network.h"

namespace upscaled {

// The limit for all layers together; the largest network in use needs half of it.
inline constexpr size_t kMaxPackedBytes = size_t{1} << 30;

class WeightBudget {
 public:
  // Before a layer is packed into at most `bound` bytes. RESOURCE_EXHAUSTED names it, with what
  // there would be and the limit.
  absl::Status Check(const Layer& layer, size_t bound) const {
    if (bytes_ + bound <= kMaxPackedBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("layer '", layer.name, "' brings the packed weights to ",
                     (bytes_ + bound) >> 20, " MiB, the limit is ", kMaxPackedBytes >> 20));
  }
  void Add(size_t bytes) { bytes_ += bytes; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace upscaled
