// Runs upscaled-prove and reads its findings. It may compute wrongly, crash or hang.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace upscaled::server {

// Why a kernel may serve on a device, or not.
struct KernelVerdict {
  // "proven": it is right and no slower, so it serves. No other verdict lets it serve:
  //   "slow"             right, but slower than the shipped kernels
  //   "wrong"            a result differs
  //   "hung", "crashed"  as RunProver
  //   "failed"           it could not run
  //   "unproven"         no record tells, and none can be made
  std::string verdict;
  std::string reason;  // human-readable; "" when it is proven
  double speed = 0;    // times the shipped kernels', when it is right

  bool proven() const { return verdict == "proven"; }
};

// Starts `program` with `arguments`. It prints lines of JSON, {"verdict": ...} last, and waits for
// it. A process silent for `patience` is killed: "hung". One without a verdict at its end has
// "crashed"; one without a start has "failed".
KernelVerdict RunProver(const std::filesystem::path& program, std::vector<std::string> arguments,
                        absl::Duration patience = absl::Seconds(10));

}  // namespace upscaled::server
