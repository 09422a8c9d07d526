#include "client/worker/spool_file.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/unnamed_file.h"
#include "server/base/spool_folder.h"

namespace upscaled::client {
namespace {

absl::Status SpoolError(int error, absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(what, ": ", std::error_code(error, std::generic_category()).message()));
}

}  // namespace

absl::StatusOr<SpoolFile> SpoolFile::Create() {
  const std::string folder = server::SpoolFolder();
  absl::StatusOr<UniqueFd> file = OpenUnnamedFile(folder);
  if (!file.ok()) {
    return absl::InternalError(
        absl::StrCat("cannot make a file in ", folder, ": ", file.status().message()));
  }
  return SpoolFile(*std::move(file));
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
  return SpoolError(errno, "cannot start over with a temporary file");
}

absl::StatusOr<UniqueFd> SpoolFile::Finish() {
  if (lseek(fd_.get(), 0, SEEK_SET) == 0) return std::move(fd_);
  return SpoolError(errno, "cannot rewind a temporary file");
}

}  // namespace upscaled::client
