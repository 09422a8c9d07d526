// The proven kernels on the devices of this machine, and their file.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/proof/prover.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {

struct KernelProofOptions {
  std::filesystem::path file;  // of verdicts; "": none is kept, and nothing proves itself
  bool prove = false;          // or only the file's verdicts count
  std::string build;           // of the program: another one's verdicts do not count
};

// Thread safe. A verdict holds for a device's description, its driver, and the builds of the
// program and of the device's plugin.
class KernelProofs {
 public:
  using Verdicts = std::map<std::string, KernelVerdict>;  // by kernel

  // Has a kernel prove itself on a device, by its name.
  using Prove = std::function<KernelVerdict(const std::string& device, const std::string& kernel)>;

  // Reads the file, if there is one; another program's file is left alone, and nothing counts as
  // proven, nor is proven. `logger` must outlive it.
  KernelProofs(KernelProofOptions options, Prove prove, Logger& logger);

  // Returns the servable `kernels` on the device, whose kernels are those of this `build`. Unknown
  // ones prove themselves first, in seconds. Verdicts are written to the file, and do not count if
  // they cannot be written. "failed" is not: another process tries again.
  std::vector<std::string> ProvenOn(const std::string& device, const std::string& description,
                                    const std::string& build,
                                    const std::vector<std::string>& kernels)
      ABSL_LOCKS_EXCLUDED(proving_, mutex_);

  // Returns the verdicts of the last ProvenOn for a device. Waits for no proof.
  Verdicts VerdictsOn(const std::string& device) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Load();
  // Returns the kernel's verdict, after it has proven itself if need be.
  KernelVerdict Judge(const std::string& key, const std::string& device, const std::string& kernel)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(proving_);
  bool Save() ABSL_EXCLUSIVE_LOCKS_REQUIRED(proving_);
  void Log(const std::string& device, const std::string& kernel, const KernelVerdict& verdict);

  KernelProofOptions options_;
  std::string no_file_ = "no record lies next to --tune-file";  // why there is none to write
  const Prove prove_;
  Logger& logger_;
  absl::Mutex proving_;  // held while a kernel proves itself: one after the other
  std::map<std::string, Verdicts> known_ ABSL_GUARDED_BY(proving_);  // by device, driver and builds
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(proving_);
  std::map<std::string, Verdicts> on_device_ ABSL_GUARDED_BY(mutex_);  // by its name
};

// The version of the machine's NVIDIA driver, as its kernel module tells it; "" without one.
std::string NvidiaDriver();

}  // namespace upscaled::server
