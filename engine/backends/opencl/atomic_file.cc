#include "engine/backends/opencl/atomic_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace upscaled::opencl {
namespace {

bool WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

absl::Status WriteAtomically(const std::filesystem::path& path,
                             std::initializer_list<std::string_view> parts) {
  std::string temporary = absl::StrCat(path.string(), ".XXXXXX");
  const auto failure = [&](const char* what) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", temporary));
  };
  const int file = mkstemp(temporary.data());
  if (file < 0) return failure("make");
  absl::Status status;
  for (const std::string_view part : parts) {
    if (status.ok() && !WriteAll(file, part)) status = failure("write");
  }
  if (close(file) != 0) status.Update(failure("close"));
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) status = failure("rename");
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace upscaled::opencl
