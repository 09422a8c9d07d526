// Decodes images in processes of their own, in a cage (see cage.h): whatever a hostile image does
// to a decoder fails that image and nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/cancellation.h"
#include "engine/image/codec.h"
#include "server/sandbox/worker_process.h"

namespace upscaled::server {

struct DecodeSandboxOptions {
  std::filesystem::path worker;        // upscaled-decode
  std::vector<std::string> arguments;  // the worker's
  // Workers started ahead, so that an image does not wait for one.
  int spare_workers = 2;
};

// The worker that comes with the server: beside this program.
std::filesystem::path DecodeWorkerProgram();

// A worker decodes one image and ends: no image meets another one's remains. Thread safe; must
// outlive its decoders.
class DecodeSandbox {
 public:
  // UNAVAILABLE: a first image, of one pixel, does not get through.
  static absl::StatusOr<std::unique_ptr<DecodeSandbox>> Start(DecodeSandboxOptions options);

  // As ImageOpener: OpenImageDecoder elsewhere, with its errors. INVALID_ARGUMENT (kInvalidImage)
  // also when the worker crashes, which ReadRows may return as well; RESOURCE_EXHAUSTED
  // (kOverloaded) when there is no process to be had.
  absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(const ImageHeader& header, ByteSource& source,
                                                     const DecodeLimits& limits,
                                                     Cancellation* cancellation)
      ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t crashes() const { return crashes_; }  // images that brought a worker down

 private:
  explicit DecodeSandbox(DecodeSandboxOptions options) : options_(std::move(options)) {}
  absl::StatusOr<WorkerProcess> StartWorker() const {
    return WorkerProcess::Start(options_.worker, options_.arguments);
  }
  // A spare worker, or a fresh one.
  absl::StatusOr<WorkerProcess> TakeWorker() ABSL_LOCKS_EXCLUDED(mutex_);
  void AddSpares() ABSL_LOCKS_EXCLUDED(mutex_);

  const DecodeSandboxOptions options_;
  std::atomic<int64_t> crashes_ = 0;
  absl::Mutex mutex_;
  std::deque<WorkerProcess> spares_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
