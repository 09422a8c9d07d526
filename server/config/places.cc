#include "server/config/places.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <system_error>

#include "engine/base/cgroup.h"

namespace upscaled::server {

int64_t UsableMemoryBytes() {
  const int64_t machine_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::stringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  const double limit = CgroupMemoryLimit(membership.str(), "/sys/fs/cgroup");
  return limit < static_cast<double>(machine_bytes) ? static_cast<int64_t>(limit) : machine_bytes;
}

bool IsDirectory(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::optional<std::filesystem::path> BundledModelsDirectory() {
  namespace fs = std::filesystem;
  std::error_code error;
  // The prefix of the installation, or the build folder.
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const char* const path : {"share/upscaled/models", UPSCALED_SOURCE_MODELS}) {
    const fs::path directory = (prefix / path).lexically_normal();
    if (IsDirectory(directory)) return directory;
  }
  return std::nullopt;
}

}  // namespace upscaled::server
