#include "server/lifecycle/resource_watch.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace upscaled::server {

bool ResourceWatch::IsMemoryPressed(const ProcessUsage& usage) {
  return usage.max_memory_bytes > 0 && static_cast<double>(usage.resident_bytes) >=
                                           kPressed * static_cast<double>(usage.max_memory_bytes);
}

absl::Status ResourceWatch::Check(const ProcessUsage& usage) {
  struct Resource {
    const char* name;
    int64_t used, limit;
    const char* limit_name;
  };
  const std::array<Resource, 4> resources = {{
      {"file descriptors", usage.open_fds, usage.max_fds, "RLIMIT_NOFILE"},
      {"threads", usage.threads, usage.max_threads, "pids.max or RLIMIT_NPROC"},
      {"threads of the control group", usage.group_tasks, usage.max_group_tasks, "pids.max"},
      {"bytes of memory", usage.resident_bytes, usage.max_memory_bytes, "the control group's"},
  }};
  absl::Status first;
  for (size_t i = 0; i < resources.size(); ++i) {
    const auto& [name, used, limit, limit_name] = resources[i];
    const double threshold = exhausted_[i] ? kRelieved : kExhausted;
    exhausted_[i] =
        limit > 0 && static_cast<double>(used) >= threshold * static_cast<double>(limit);
    if (exhausted_[i] && first.ok()) {
      first = absl::ResourceExhaustedError(absl::StrCat(
          used, " ", name, " are in use, the limit is ", limit, " (", limit_name, ")"));
    }
  }
  return first;
}

}  // namespace upscaled::server
