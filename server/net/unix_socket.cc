#include "server/net/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/unix_address.h"
#include "server/net/system_error.h"

namespace upscaled::server {
namespace {

constexpr int kLockTries = 250;
constexpr std::chrono::milliseconds kLockPause{20};

UniqueFd MakeSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// So of two servers starting at once, neither takes the other's bound but not yet listening socket
// for a dead one's. For as long as the result is open; an unreadable folder, or one locked by
// others, is used without.
UniqueFd LockFolderOf(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  UniqueFd lock(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && i < kLockTries;
       ++i) {
    std::this_thread::sleep_for(kLockPause);
  }
  return lock;
}

// Removes the socket of an ended server.
absl::Status ClearPlace(const sockaddr_un& address) {
  struct stat found = {};
  if (lstat(address.sun_path, &found) != 0) return absl::OkStatus();  // bind will tell
  if (!S_ISSOCK(found.st_mode)) return absl::UnavailableError("the file there is no socket");
  const UniqueFd probe = MakeSocket();
  if (!probe.valid()) return SystemError(errno);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN) {
    return absl::UnavailableError("a server that runs listens there");
  }
  if (errno != ECONNREFUSED) {
    return absl::UnavailableError(
        absl::StrCat("the socket there is another program's: ", std::strerror(errno)));
  }
  return unlink(address.sun_path) == 0 || errno == ENOENT ? absl::OkStatus() : SystemError(errno);
}

}  // namespace

UnixSocketFile::UnixSocketFile(std::string path) : path_(std::move(path)) {
  struct stat own = {};
  if (lstat(path_.c_str(), &own) != 0) path_.clear();
  device_ = own.st_dev;
  inode_ = own.st_ino;
}

UnixSocketFile::~UnixSocketFile() {
  struct stat found = {};
  if (path_.empty() || lstat(path_.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == inode_) unlink(path_.c_str());
}

absl::StatusOr<ListeningUnixSocket> ListenOnUnixSocket(const std::string& path) {
  const sockaddr_un address = UnixAddress(path);
  const UniqueFd lock = LockFolderOf(path);
  RETURN_IF_ERROR(ClearPlace(address));
  UniqueFd socket = MakeSocket();
  if (!socket.valid()) return SystemError(errno);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(errno);
  }
  UnixSocketFile file(path);
  if (listen(socket.get(), SOMAXCONN) != 0) return SystemError(errno);
  return ListeningUnixSocket{.socket = std::move(socket), .file = std::move(file)};
}

}  // namespace upscaled::server
