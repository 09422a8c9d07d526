// upscaled-prove DEVICE KERNEL: has a kernel new to our devices prove itself on this one, for
// upscaled. upscaled reads its lines of JSON: some for each case, and a verdict. A process of its
// own, as a kernel may crash or hang, and a lost device context may be lost to a process for good.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/backend_list.h"
#include "engine/proof/kernel_proof.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {
namespace {

void Print(const nlohmann::ordered_json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

int Conclude(const std::string& kernel, const char* verdict, const std::string& reason,
             double speed = 0) {
  Print({{"kernel", kernel}, {"verdict", verdict}, {"reason", reason}, {"speed", speed}});
  return 0;
}

int Prove(const std::string& device, const std::string& kernel) {
  const ProofBackend create = [&](const BackendOptions& options) {
    return CreateBackend(device, options);
  };
  double us = 0, plain_us = 0;
  for (const ProofCase& proof : ListProofCases()) {
    const std::string name = Describe(proof);
    Print({{"kernel", kernel}, {"case", name}});  // before it may hang
    const auto on_plain = [&] { Print({{"kernel", kernel}, {"case", name}, {"plain", true}}); };
    const absl::StatusOr<ProofResult> result = ProveKernel(create, kernel, proof, on_plain);
    if (!result.ok()) {
      return Conclude(kernel, "failed", absl::StrCat(name, ": ", result.status().message()));
    }
    if (!result->supported) continue;
    Print({{"kernel", kernel},
           {"case", name},
           {"right", result->right},
           {"worst", result->worst},
           {"us", result->us},
           {"plain_us", result->plain_us}});
    if (!result->right) {
      return Conclude(kernel, "wrong", absl::StrCat(name, ": differs by up to ", result->worst));
    }
    us += result->us;
    plain_us += result->plain_us;
  }
  if (us <= 0) return Conclude(kernel, "failed", "it computes no case");
  const double speed = plain_us / us;
  if (speed >= 1) return Conclude(kernel, "proven", "", speed);
  return Conclude(kernel, "slow", "the shipped kernels are faster", speed);
}

}  // namespace
}  // namespace upscaled::server

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a hung one would outlive the server
  if (argc == 3) return upscaled::server::Prove(argv[1], argv[2]);
  std::fputs("usage: upscaled-prove DEVICE KERNEL\n", stderr);
  return 2;
}
