// The state that everything of one device shares: its place in the runtime, whether it still works.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/cuda/device.h"
#include "engine/base/byte_budget.h"
#include "engine/graph/activation_cache.h"

namespace upscaled::cuda {

// Thread safe. The runtime has one context a device and process: an error that spoils it (an
// illegal access, an uncorrectable memory error) ends every Context of the device, and what they
// held is gone. A new one starts afresh, once nobody works with the others any more, and where the
// driver gives the process another.
class Context {
 public:
  // UNAVAILABLE: the device cannot be used, or the kernels were not compiled for it; a message that
  // asks for a restart: not by this process any more.
  static absl::StatusOr<std::shared_ptr<Context>> Create(const Device& device);

  explicit Context(const Device& device)
      : device_(device), kept_(device.memory_bytes / kCachedShare) {}

  const Device& device() const { return device_; }
  // Makes the device the calling thread's; before any other call to the runtime. UNAVAILABLE, with
  // the error that spoiled it, for a lost context.
  absl::Status Enter();
  // The status of a runtime call's answer: see ToStatus. Notes an error that loses the context.
  absl::Status Check(cudaError_t error, std::string_view call);
  // Another one at every call.
  int64_t NextId() { return next_id_++; }
  // The budget of the activation caches.
  ByteBudget& kept() { return kept_; }

 private:
  const Device device_;
  std::atomic<int64_t> next_id_ = 0;
  ByteBudget kept_;
  absl::Mutex mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // OK while the context works
};

}  // namespace upscaled::cuda
