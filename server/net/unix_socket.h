// Listening on a Unix socket. Its file is made and removed with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace upscaled::server {

// The file of a bound socket. Removes it when it goes, unless another process has replaced it; the
// socket must be open until then, so its file's number is given to no other.
class UnixSocketFile {
 public:
  // Takes the present file.
  explicit UnixSocketFile(std::string path);
  UnixSocketFile(UnixSocketFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), device_(other.device_), inode_(other.inode_) {}
  UnixSocketFile& operator=(UnixSocketFile other) noexcept {
    std::swap(path_, other.path_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
    return *this;
  }
  ~UnixSocketFile();

 private:
  std::string path_;  // "": nothing to remove
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

struct ListeningUnixSocket {
  UniqueFd socket;  // non-blocking, closed on exec
  UnixSocketFile file;
};

// Listens on `path`, checked by ParseEndpoint. The umask decides who may connect, as for any file:
// with 022 only the server's own user. Replaces the socket of an ended server. UNAVAILABLE says why
// it cannot be: a server listens there, a file there is no socket, or the system's reason.
absl::StatusOr<ListeningUnixSocket> ListenOnUnixSocket(const std::string& path);

}  // namespace upscaled::server
