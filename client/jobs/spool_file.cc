#include "client/jobs/spool_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

absl::Status SpoolError(int error, absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(what, ": ", std::error_code(error, std::generic_category()).message()));
}

}  // namespace

absl::StatusOr<SpoolFile> SpoolFile::Create() {
  std::error_code error;
  const std::string folder = std::filesystem::temp_directory_path(error);
  if (error) return SpoolError(error.value(), "there is no folder for temporary files");
  UniqueFd fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd.valid()) return SpoolError(errno, absl::StrCat("cannot make a file in ", folder));
  return SpoolFile(std::move(fd));
}

absl::Status SpoolFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t part = write(fd_.get(), bytes.data(), bytes.size());
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return SpoolError(errno, "cannot write to a temporary file");
    bytes.remove_prefix(static_cast<size_t>(part));
  }
  return absl::OkStatus();
}

absl::Status SpoolFile::Restart() {
  if (ftruncate(fd_.get(), 0) == 0 && lseek(fd_.get(), 0, SEEK_SET) == 0) return absl::OkStatus();
  return SpoolError(errno, "cannot start anew with a temporary file");
}

absl::StatusOr<UniqueFd> SpoolFile::Finish() {
  if (lseek(fd_.get(), 0, SEEK_SET) == 0) return std::move(fd_);
  return SpoolError(errno, "cannot rewind a temporary file");
}

}  // namespace upscaled::client
