#include "engine/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace upscaled {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr mode_t kTemporaryMode = 0600;  // as mkostemp makes files

absl::Status TooLarge(const std::filesystem::path& path, absl::string_view bytes, size_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(path.string(), ": has ", bytes, " bytes, the limit is ", limit));
}

// The errors of the last call, by errno.
absl::Status ReadError(const std::filesystem::path& path) {
  return absl::NotFoundError(absl::StrCat(path.string(), ": ", std::strerror(errno)));
}

absl::Status WriteError(const char* what, const std::filesystem::path& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path.string(), ": ", std::strerror(errno)));
}

bool WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = EIO;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

absl::Status WriteParts(int file, const std::filesystem::path& path,
                        std::initializer_list<std::string_view> parts,
                        const ReplaceFileOptions& options) {
  for (const std::string_view part : parts) {
    if (!WriteAll(file, part)) return WriteError("write", path);
  }
  if (options.sync && fsync(file) != 0) return WriteError("write", path);
  // Some file systems refuse it.
  if (options.mode != kTemporaryMode && fchmod(file, options.mode) != 0) {
    return WriteError("set the permissions of", path);
  }
  return absl::OkStatus();
}

// For the name to outlast a power failure. The file is in place, and some folders may not be read
// and some file systems refuse: no error.
void SyncFolderOf(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int parent = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return;
  fsync(parent);
  close(parent);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes,
                                     const ReadFileOptions& options) {
  // Opening a pipe without O_NONBLOCK waits for its writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | (options.pipes ? 0 : O_NONBLOCK));
  if (file < 0) return ReadError(path);
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat info;
  if (fstat(file, &info) != 0) return ReadError(path);
  std::string content;
  if (S_ISREG(info.st_mode)) {
    const auto bytes = static_cast<size_t>(info.st_size);
    if (bytes > max_bytes) return TooLarge(path, absl::StrCat(bytes), max_bytes);
    content.reserve(bytes);
  } else if (!options.pipes) {
    return absl::NotFoundError(absl::StrCat(path.string(), ": is not a regular file"));
  }
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ReadError(path);
    if (count == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(count));
    if (content.size() > max_bytes) return TooLarge(path, "more", max_bytes);
  }
}

absl::Status ReplaceFile(const std::filesystem::path& path,
                         std::initializer_list<std::string_view> parts,
                         const ReplaceFileOptions& options) {
  std::string temporary = path.string() + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return WriteError("create a file beside", path);
  absl::Status status = WriteParts(file, temporary, parts, options);
  if (close(file) != 0) status.Update(WriteError("close", temporary));
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = WriteError("replace", path);
  }
  if (!status.ok()) unlink(temporary.c_str());
  if (status.ok() && options.sync) SyncFolderOf(path);
  return status;
}

absl::StatusOr<std::string> FileState(const std::filesystem::path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", path.string()));
  }
  return absl::StrCat(info.st_dev, ":", info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec,
                      ".", info.st_mtim.tv_nsec, ":", info.st_ctim.tv_sec, ".",
                      info.st_ctim.tv_nsec);
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
