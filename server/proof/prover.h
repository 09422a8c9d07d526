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
  //   "failed"           it could not run, or trouble came before it did: another try may succeed
  //   "unproven"         no record tells, and none can be made
  std::string verdict;
  std::string reason;  // human-readable; "" when it is proven
  double speed = 0;    // times the shipped kernels', when it is right

  bool proven() const { return verdict == "proven"; }
};

// How long a proof may take.
struct ProofLimits {
  absl::Duration silence = absl::Seconds(10);
  absl::Duration total = absl::Minutes(10);
};

// Starts `program` with `arguments` and waits for its end. It prints lines of JSON: {"case": NAME}
// before a case, {"case": NAME, "plain": true} once the shipped kernels have run it, and
// {"verdict": ...} last. No process outlives the call, unless not even SIGKILL ends it.
//   "hung"     killed after silence behind a "plain" line
//   "crashed"  ended behind such a line, without a verdict
//   "failed"   both of them elsewhere; no start; `total` is over
KernelVerdict RunProver(const std::filesystem::path& program, std::vector<std::string> arguments,
                        const ProofLimits& limits = {});

}  // namespace upscaled::server
