#include "server/net/descriptors.h"

#include <sys/resource.h>

#include <limits>

namespace upscaled::server {

int64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

int64_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);  // else the limit stays as it is
  }
  return DescriptorLimit();
}

bool IsReserved(int fd, int reserved) { return fd >= DescriptorLimit() - reserved; }

}  // namespace upscaled::server
