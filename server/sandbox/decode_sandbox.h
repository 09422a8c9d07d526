// Decodes each image in its own process, in a cage (see cage.h). A hostile image fails only itself,
// even if it breaks a decoder.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/cancellation.h"
#include "engine/base/clock.h"
#include "engine/base/cpu_info.h"
#include "engine/image/codec.h"
#include "server/base/decode_account.h"
#include "server/sandbox/decode_turns.h"
#include "server/sandbox/worker_process.h"
#include "server/sandbox/worker_zygote.h"

namespace upscaled::server {

// The server's own program, in the folder of this one.
std::filesystem::path DecodeWorkerProgram();

// A worker decodes one image and ends: no image meets another one's remains. Thread safe; must
// outlive its decoders.
class DecodeSandbox {
 public:
  // Decodes on `cpus`. UNAVAILABLE: a first image, of one pixel, does not get through.
  static absl::StatusOr<std::unique_ptr<DecodeSandbox>> Start(std::filesystem::path program,
                                                              int cpus = AvailableCpuCount());

  // As ImageOpener: OpenImageDecoder elsewhere, with its errors. INVALID_ARGUMENT (kInvalidImage)
  // also if the worker crashes (ReadRows may return it, too); RESOURCE_EXHAUSTED (kOverloaded) if
  // no process can start. The decoder computes in turn with others (see decode_turns.h), one for
  // each core.
  absl::StatusOr<std::unique_ptr<ImageDecoder>> Open(const ImageHeader& header, ByteSource& source,
                                                     const DecodeLimits& limits,
                                                     Cancellation* cancellation,
                                                     const DecodeAccount& account = {});

  int64_t crashes() const { return crashes_; }  // images that brought a worker down

 private:
  DecodeSandbox(std::filesystem::path program, int cpus);
  absl::StatusOr<WorkerProcess> StartWorker();

  // Forks one worker at a time. Its zygote starts for the first one, and again after a kill.
  struct Nursery {
    absl::Mutex mutex;
    std::optional<WorkerZygote> zygote ABSL_GUARDED_BY(mutex);
  };

  const std::filesystem::path program_;
  DecodeTurns turns_;
  std::atomic<int64_t> crashes_ = 0;
  std::vector<Nursery> nurseries_;
  std::atomic<size_t> next_nursery_ = 0;
};

}  // namespace upscaled::server
