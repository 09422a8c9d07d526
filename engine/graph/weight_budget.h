// How much memory packed weights may take.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/network.h"

namespace upscaled {

// The limit for all layers together; the largest network in use needs half of it.
inline constexpr size_t kMaxPackedBytes = size_t{1} << 30;

// The packed weights of a network's layers, one by one. RESOURCE_EXHAUSTED names the layer beyond
// the limit, the total with it and the limit.
class WeightBudget {
 public:
  // Whether `bytes` more, or an upper bound of them, still fit.
  absl::Status Check(const Layer& layer, size_t bytes) const {
    const size_t total = bytes_ + bytes;
    if (total <= kMaxPackedBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("layer '", layer.name,
                                                     "' brings the packed weights to ", total >> 20,
                                                     " MiB, the limit is ", kMaxPackedBytes >> 20));
  }
  // The layer's real size, once it is packed.
  absl::Status Add(const Layer& layer, size_t bytes) {
    RETURN_IF_ERROR(Check(layer, bytes));
    bytes_ += bytes;
    return absl::OkStatus();
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace upscaled
