// The shared state of one device: its place in the runtime, whether it still works.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/backends/backend.h"
#include "engine/backends/cuda/device.h"
#include "engine/base/byte_budget.h"
#include "engine/graph/activation_cache.h"

namespace upscaled::cuda {

// Thread safe. The runtime has one context a device and process: an error that spoils it (an
// illegal access, an uncorrectable memory error) ends every Context of the device, and their
// contents are lost. A new one starts afresh, once no thread works with the others any more, and
// where the driver gives the process another.
class Context {
 public:
  // UNAVAILABLE: the device cannot be used, or the kernels were not compiled for it; a message with
  // a request to restart: not by this process any more. Of `options` it takes answer_limit and
  // repairs, and allows the proven and the forced kernels.
  static absl::StatusOr<std::shared_ptr<Context>> Create(const Device& device,
                                                         const BackendOptions& options = {});

  Context(const Device& device, const BackendOptions& options)
      : device_(device),
        answer_limit_(options.answer_limit),
        repairs_(options.repairs),
        allowed_kernels_(options.proven_kernels),
        kept_(device.memory_bytes / kCachedShare) {
    allowed_kernels_.push_back(options.kernel);
  }

  const Device& device() const { return device_; }
  // Whether kernels never run on our devices may run on this one.
  bool Allows(std::string_view kernel) const {
    return std::ranges::find(allowed_kernels_, kernel) != allowed_kernels_.end();
  }
  bool repairs() const { return repairs_; }  // BackendOptions::repairs
  // Makes the device the calling thread's; before any other call to the runtime. UNAVAILABLE, with
  // its cause, for a lost context.
  absl::Status Enter();
  // The status of a runtime call's answer: see ToStatus. Records an error if it loses the context.
  absl::Status Check(cudaError_t error, std::string_view call);
  // Waits for an event behind `cost` multiply-adds of `work`. DEADLINE_EXCEEDED after GiveUp, and
  // when the slowest device were done with them, and answer_limit has passed: as GiveUp.
  absl::Status Await(cudaEvent_t event, int64_t cost, std::string_view work);
  // Loses the context, and the device for this process: calls to its driver may never return.
  // Everything is DEADLINE_EXCEEDED from now on, and says `why`.
  void GiveUp(std::string_view why);
  // Another one at every call.
  int64_t NextId() { return next_id_++; }
  // The budget of the activation caches.
  ByteBudget& kept() { return kept_; }

 private:
  absl::Status lost() {
    absl::MutexLock lock(&mutex_);
    return lost_;
  }
  // The status of everything from now on, unless there is one.
  void Lose(const absl::Status& status);

  const Device device_;
  const absl::Duration answer_limit_;
  const bool repairs_;
  std::vector<std::string> allowed_kernels_;
  std::atomic<int64_t> next_id_ = 0;
  ByteBudget kept_;
  absl::Mutex mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // OK while the context works
};

}  // namespace upscaled::cuda
