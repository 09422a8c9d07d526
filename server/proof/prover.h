// Runs upscaled-prove, which may compute wrongly, crash or hang, and reads what it finds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace upscaled::server {

// Why a kernel may serve on a device, or not.
struct KernelVerdict {
  std::string verdict;  // "proven", "wrong", "slow", "crashed", "hung", "failed", "unproven"
  std::string reason;   // human-readable; "" when it is proven
  double speed = 0;     // times the shipped kernels', when it is right

  bool proven() const { return verdict == "proven"; }
};

// Starts `program` with `arguments`, which prints lines of JSON, {"verdict": ...} last, and waits
// for it. A process that prints nothing for `patience` is killed: "hung". One that ends without a
// verdict has "crashed"; one that cannot be started has "failed".
KernelVerdict RunProver(const std::filesystem::path& program, std::vector<std::string> arguments,
                        absl::Duration patience = absl::Seconds(10));

}  // namespace upscaled::server
