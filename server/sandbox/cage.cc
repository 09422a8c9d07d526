#include "server/sandbox/cage.h"

#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/sanitized.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// Libraries' own buffers, the heap's reserve and the stack's growth.
constexpr size_t kSlackBytes = size_t{32} << 20;
// The largest image a server takes by default decodes in some ten seconds.
constexpr rlim_t kMaxCpuSeconds = 300;

absl::Status Failed(const char* step, int error) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot lock the decoder's sandbox: ", step, ": ", std::strerror(error)));
}

absl::Status Limit(__rlimit_resource resource, rlim_t value) {
  const rlimit limit{value, value};
  if (setrlimit(resource, &limit) == 0) return absl::OkStatus();
  return Failed("setrlimit", errno);
}

size_t AddressSpaceBytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

absl::Status SetLimits(size_t memory_bytes) {
  RETURN_IF_ERROR(Limit(RLIMIT_AS, AddressSpaceBytes() + memory_bytes + kSlackBytes));
  RETURN_IF_ERROR(Limit(RLIMIT_CPU, kMaxCpuSeconds));
  RETURN_IF_ERROR(Limit(RLIMIT_CORE, 0));
  RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, 0));
  return Limit(RLIMIT_NOFILE, 0);
}

struct FreeFilter {
  void operator()(void* filter) const { seccomp_release(filter); }
};

absl::Status SetFilter() {
  const std::unique_ptr<void, FreeFilter> filter(seccomp_init(SCMP_ACT_KILL_PROCESS));
  if (filter == nullptr) return Failed("seccomp_init", ENOMEM);
  const auto allow = [&](int call) {
    return seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
  };
  // sysinfo: the C library's qsort, called by libtiff, asks for the machine's memory.
  for (const int call :
       {SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(brk),
        SCMP_SYS(madvise), SCMP_SYS(futex), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
        SCMP_SYS(getrandom), SCMP_SYS(sysinfo), SCMP_SYS(restart_syscall), SCMP_SYS(rt_sigreturn),
        SCMP_SYS(exit), SCMP_SYS(exit_group)}) {
    if (const int error = allow(call); error < 0) return Failed("seccomp_rule_add", -error);
  }
  // Memory for data.
  if (const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                                         SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
      error < 0) {
    return Failed("seccomp_rule_add", -error);
  }
  // libjxl prints its faults. There is no descriptor, and there is no reason to end the process.
  if (const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EBADF), SCMP_SYS(write), 1,
                                         SCMP_A0(SCMP_CMP_EQ, STDERR_FILENO));
      error < 0) {
    return Failed("seccomp_rule_add", -error);
  }
  const int error = seccomp_load(filter.get());
  return error == 0 ? absl::OkStatus() : Failed("seccomp_load", -error);
}

}  // namespace

absl::Status LockCage(size_t memory_bytes) {
  if (kSanitized) return absl::OkStatus();
  tzset();  // reads the zone's file, as the first date that Little CMS makes would otherwise
  RETURN_IF_ERROR(SetLimits(memory_bytes));
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return Failed("PR_SET_DUMPABLE", errno);
  return SetFilter();  // with no_new_privs
}

}  // namespace upscaled::server
