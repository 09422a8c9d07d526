#include "engine/model/read_file.h"

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

}  // namespace upscaled
