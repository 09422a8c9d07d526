// Owners of the runtime's handles.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/backends/cuda/context.h"
#include "engine/graph/activation_cache.h"

namespace upscaled::cuda {

// A lost context's handles are gone with it: freeing one would hit an allocation of a new context.
template <auto kDestroy>
struct Release {
  std::shared_ptr<Context> context;

  template <typename T>
  void operator()(T* handle) const {
    if (context->Enter().ok()) context->Check(kDestroy(handle), "release").IgnoreError();
  }
};

using StreamHandle = std::unique_ptr<CUstream_st, Release<&cudaStreamDestroy>>;
using EventHandle = std::unique_ptr<CUevent_st, Release<&cudaEventDestroy>>;
using GraphHandle = std::unique_ptr<CUgraph_st, Release<&cudaGraphDestroy>>;
using GraphExecHandle = std::unique_ptr<CUgraphExec_st, Release<&cudaGraphExecDestroy>>;

// Memory of known size; contents are indeterminate until written.
template <auto kFree>
class Memory {
 public:
  Memory() = default;
  Memory(std::shared_ptr<Context> context, void* data, size_t bytes)
      : data_(static_cast<uint8_t*>(data), {std::move(context)}), bytes_(bytes) {}

  uint8_t* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<uint8_t, Release<kFree>> data_;
  size_t bytes_ = 0;
};

using DeviceMemory = Memory<&cudaFree>;      // the device's
using PinnedMemory = Memory<&cudaFreeHost>;  // the host's, which the device copies from and to

// The tensors of one tile of a network with global poolings. They are allocated for each image;
// freeing them waits for the device.
struct CachedTile final : ActivationCache {
  CachedTile(const void* executable, const std::shared_ptr<Context>& context)
      : ActivationCache(executable, {context, &context->kept()}) {}
  void FreeTensors() override { memory = {}; }

  DeviceMemory memory;
};

// The context is entered. RESOURCE_EXHAUSTED names the size and its use, `what`.
absl::StatusOr<DeviceMemory> AllocateDevice(const std::shared_ptr<Context>& context, size_t bytes,
                                            std::string_view what);
absl::StatusOr<PinnedMemory> AllocatePinned(const std::shared_ptr<Context>& context, size_t bytes,
                                            std::string_view what);
// With a copy of `values`.
absl::StatusOr<DeviceMemory> Upload(const std::shared_ptr<Context>& context,
                                    std::span<const std::byte> values, std::string_view what);

absl::StatusOr<StreamHandle> CreateStream(const std::shared_ptr<Context>& context);
// A waiting thread sleeps.
absl::StatusOr<EventHandle> CreateEvent(const std::shared_ptr<Context>& context);

// Captures the commands of `enqueue` on the stream as a graph, instead of running it.
absl::StatusOr<GraphExecHandle> Capture(const std::shared_ptr<Context>& context,
                                        cudaStream_t stream,
                                        absl::FunctionRef<absl::Status()> enqueue);

}  // namespace upscaled::cuda
