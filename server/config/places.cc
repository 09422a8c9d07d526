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
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path& directory : {program.parent_path().parent_path() / "share/upscaled/models",
                                    fs::path(UPSCALED_SOURCE_MODELS)}) {
    if (IsDirectory(directory)) return directory;
  }
  return std::nullopt;
}

}  // namespace upscaled::server
