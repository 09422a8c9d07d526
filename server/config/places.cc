#include "server/config/places.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <system_error>

namespace upscaled::server {

int64_t UsableMemoryBytes() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* limit_file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;
    if (std::ifstream(limit_file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
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
