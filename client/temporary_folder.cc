#include "client/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace upscaled::client {

namespace fs = std::filesystem;

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make(absl::string_view prefix) {
  std::error_code error;
  std::string name = fs::temp_directory_path(error) / absl::StrCat(prefix, "XXXXXX");
  if (!error && mkdtemp(name.data()) == nullptr) error.assign(errno, std::generic_category());
  if (!error) return TemporaryFolder(std::move(name));
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot make the temporary folder ", name));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace upscaled::client
