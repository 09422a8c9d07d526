// The buffers that a tile's tensors live in while it is computed: as AssignSlots numbers them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/graph/activation_cache.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

class TileSlots {
 public:
  // Each grows to `bytes`; a new one is filled by `zero`, in whose precision tensors are stored.
  absl::Status Reserve(const Context& context, Launcher& launcher, const KernelFunction& zero,
                       Precision precision, std::span<const size_t> bytes);

  const cl::Buffer& operator[](size_t slot) const { return buffers_[slot]; }

 private:
  std::vector<cl::Buffer> buffers_;
  std::vector<size_t> bytes_;
};

// The cache of one tile of a network with global poolings.
struct CachedTile final : ActivationCache {
  CachedTile(const void* executable, const std::shared_ptr<Context>& context)
      : ActivationCache(executable, {context, &context->kept}) {}
  void FreeTensors() override { slots = {}; }

  TileSlots slots;
};

}  // namespace upscaled::opencl
