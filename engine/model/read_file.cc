#include "engine/model/read_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace upscaled {

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat(path.string(), ": ", error.message()));
  }
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path.string(), ": has ", bytes, " bytes, the limit is ", max_bytes));
  }
  std::string content(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(content.data(), static_cast<std::streamsize>(bytes))) {
    return absl::NotFoundError(absl::StrCat(path.string(), ": cannot be read"));
  }
  return content;
}

absl::StatusOr<std::string> FileState(const std::filesystem::path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", path.string()));
  }
  return absl::StrCat(info.st_dev, ":", info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec,
                      ".", info.st_mtim.tv_nsec);
}

absl::StatusOr<std::vector<std::filesystem::path>> ListFolder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    paths.push_back(it->path());
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder.string(), ": ", error.message()));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace upscaled
