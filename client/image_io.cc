#include "client/image_io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

absl::Status Errno(int error, absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
}

absl::StatusOr<size_t> ReadFd(int fd, std::span<char> dst, absl::string_view name) {
  ssize_t count;
  do {
    count = read(fd, dst.data(), dst.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return Errno(errno, "cannot read", name);
  return static_cast<size_t>(count);
}

absl::Status WriteFd(int fd, absl::string_view bytes, absl::string_view name) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Errno(errno, "cannot write to", name);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Waits until `fd` has bytes or its end; CANCELLED when `stop` comes first.
absl::Status WaitReadable(int fd, absl::string_view name, std::stop_token stop) {
  const UniqueFd stopped(eventfd(0, EFD_CLOEXEC));
  if (!stopped.valid()) return Errno(errno, "cannot make", "an event descriptor");
  std::stop_callback wake(stop, [&] { eventfd_write(stopped.get(), 1); });
  pollfd waits[] = {{stopped.get(), POLLIN, 0}, {fd, POLLIN, 0}};
  while (poll(waits, 2, -1) < 0) {
    if (errno != EINTR) return Errno(errno, "cannot wait for", name);
  }
  if (waits[0].revents != 0) return absl::CancelledError("stopped while reading");
  return absl::OkStatus();
}

}  // namespace

bool Synced(int fd) {
  int result;
  do {
    result = fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL || errno == ENOSYS;
}

absl::StatusOr<size_t> MemorySource::Read(std::span<char> dst, std::stop_token) {
  const size_t count = std::min(dst.size(), bytes_.size() - position_);
  bytes_.copy(dst.data(), count, position_);
  position_ += count;
  return count;
}

absl::Status MemorySource::Rewind() {
  position_ = 0;
  return absl::OkStatus();
}

absl::Status MemorySink::Write(absl::string_view bytes) {
  bytes_.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status MemorySink::Restart() {
  bytes_.clear();
  return absl::OkStatus();
}

absl::StatusOr<size_t> FileSource::Read(std::span<char> dst, std::stop_token) {
  return ReadFd(fd_.get(), dst, path_);
}

absl::Status FileSource::Rewind() {
  if (lseek(fd_.get(), 0, SEEK_SET) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path_, " cannot be read twice"));
}

absl::StatusOr<size_t> PipeSource::Read(std::span<char> dst, std::stop_token stop) {
  if (replay_position_ < replay_.size()) {
    const size_t count = replay_.copy(dst.data(), dst.size(), replay_position_);
    replay_position_ += count;
    return count;
  }
  RETURN_IF_ERROR(WaitReadable(fd_, name_, std::move(stop)));
  ASSIGN_OR_RETURN(const size_t count, ReadFd(fd_, dst, name_));
  Remember({dst.data(), count});
  return count;
}

void PipeSource::Remember(absl::string_view bytes) {
  if (!replayable_) return;
  if (replay_.size() + bytes.size() > max_replay_bytes_) {
    replayable_ = false;
    replay_ = std::string();  // Gives the memory back.
    replay_position_ = 0;
    return;
  }
  replay_.append(bytes.data(), bytes.size());
  replay_position_ = replay_.size();
}

absl::Status PipeSource::Rewind() {
  if (!replayable_) {
    return absl::FailedPreconditionError(
        absl::StrCat("more than ", max_replay_bytes_, " bytes were read from ", name_));
  }
  replay_position_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenSource(const std::string& path) {
  // Without O_NONBLOCK this would wait for a writer of a named pipe; reads may, as they
  // can be stopped.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || fcntl(fd.get(), F_SETFL, 0) != 0) {
    return Errno(errno, "cannot open", path);
  }
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is a folder"));
  if (!S_ISREG(info.st_mode)) return std::make_unique<PipeSource>(path, std::move(fd));
  return std::make_unique<FileSource>(path, std::move(fd), info.st_size);
}

absl::StatusOr<UniqueFd> OpenDevice(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return UniqueFd();
  UniqueFd device(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!device.valid()) return Errno(errno, "cannot open", path);
  return device;
}

absl::Status PipeSink::Write(absl::string_view bytes) {
  written_ = written_ || !bytes.empty();
  return WriteFd(fd_, bytes, "the output");
}

absl::Status PipeSink::Restart() {
  if (!written_) return absl::OkStatus();
  return absl::FailedPreconditionError("a part of the result has already been written");
}

namespace {

// The file behind links, which need not exist.
std::filesystem::path TargetOf(const std::string& path, std::error_code& error) {
  std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  while (!error && std::filesystem::is_symlink(std::filesystem::symlink_status(target))) {
    const std::filesystem::path link = std::filesystem::read_symlink(target, error);
    if (!error) target = std::filesystem::weakly_canonical(target.parent_path() / link, error);
  }
  return target;
}

}  // namespace

absl::StatusOr<FileSink> FileSink::Create(const std::string& path) {
  static std::atomic<int> counter = 0;
  std::error_code error;
  const std::filesystem::path target = TargetOf(path, error);
  if (error) return Errno(error.value(), "cannot write to", path);
  for (;;) {
    const std::string name = absl::StrCat(".upscale-", getpid(), "-", counter++, ".part");
    const std::string temporary = target.parent_path() / name;
    UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd.valid()) return FileSink(target.string(), temporary, std::move(fd));
    if (errno != EEXIST) return Errno(errno, "cannot write to", path);
  }
}

FileSink::FileSink(FileSink&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      fd_(std::move(other.fd_)) {}

FileSink::~FileSink() {
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

absl::Status FileSink::Write(absl::string_view bytes) { return WriteFd(fd_.get(), bytes, path_); }

absl::Status FileSink::Restart() {
  if (ftruncate(fd_.get(), 0) != 0 || lseek(fd_.get(), 0, SEEK_SET) != 0) {
    return Errno(errno, "cannot start over with", path_);
  }
  return absl::OkStatus();
}

void FileSink::Rename(const std::string& name) {
  path_ = std::filesystem::path(path_).replace_filename(name).string();
  KeepPermissions();
}

void FileSink::KeepPermissions() {
  struct stat replaced {};
  if (stat(path_.c_str(), &replaced) == 0) fchmod(fd_.get(), replaced.st_mode & 0777);
}

absl::Status FileSink::Commit() {
  // Before the rename, or a power failure may leave an empty file where a whole one was.
  if (!Synced(fd_.get())) return Errno(errno, "cannot write to", path_);
  // Some file systems report a full disk only here.
  if (close(fd_.Release()) != 0) return Errno(errno, "cannot write to", path_);
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return Errno(errno, "cannot write to", path_);
  }
  temporary_path_.clear();
  // The name, too. A folder for writing but not for reading is left to the system.
  std::string folder = std::filesystem::path(path_).parent_path().string();
  if (folder.empty()) folder = ".";
  const UniqueFd parent(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.valid() && !Synced(parent.get())) return Errno(errno, "cannot write to", path_);
  return absl::OkStatus();
}

}  // namespace upscaled::client
