#include "engine/backends/cpu/interleaved_pages.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace upscaled::cpu {

InterleavedPages::InterleavedPages() {
  constexpr unsigned long kBits = sizeof(Nodes) * CHAR_BIT;
  Nodes allowed{};
  if (syscall(SYS_get_mempolicy, &policy_before_, nodes_before_.data(), kBits, nullptr, 0) != 0 ||
      syscall(SYS_get_mempolicy, nullptr, allowed.data(), kBits, nullptr, MPOL_F_MEMS_ALLOWED) !=
          0) {
    return;
  }
  applied_ = syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, allowed.data(), kBits) == 0;
}

InterleavedPages::~InterleavedPages() {
  constexpr unsigned long kBits = sizeof(Nodes) * CHAR_BIT;
  if (applied_) syscall(SYS_set_mempolicy, policy_before_, nodes_before_.data(), kBits);
}

}  // namespace upscaled::cpu
