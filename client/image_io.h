// Where encoded images come from and go to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

// Whether the bytes written to `fd` outlast a power failure, or lie on a file system without such a
// promise. errno says why not.
bool Synced(int fd);

// One reader at a time.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // Bytes in all; 0 when not known.
  virtual int64_t total_bytes() const { return 0; }
  // Fills a part of `dst` (not empty) and returns how much, at least 1; 0 at the end. May block,
  // and returns CANCELLED soon after `stop` is requested.
  virtual absl::StatusOr<size_t> Read(std::span<char> dst, std::stop_token stop) = 0;
  // Goes back to the first byte; FAILED_PRECONDITION when it is no longer there.
  virtual absl::Status Rewind() = 0;
};

// One writer at a time.
class ImageSink {
 public:
  virtual ~ImageSink() = default;
  virtual absl::Status Write(absl::string_view bytes) = 0;
  // Forgets all written bytes; FAILED_PRECONDITION if a reader may have seen one.
  virtual absl::Status Restart() = 0;
};

// Borrowed bytes.
class MemorySource final : public ImageSource {
 public:
  explicit MemorySource(absl::string_view bytes) : bytes_(bytes) {}
  int64_t total_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  absl::StatusOr<size_t> Read(std::span<char> dst, std::stop_token stop) override;
  absl::Status Rewind() override;

 private:
  absl::string_view bytes_;
  size_t position_ = 0;
};

class MemorySink final : public ImageSink {
 public:
  absl::Status Write(absl::string_view bytes) override;
  absl::Status Restart() override;
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A regular file.
class FileSource final : public ImageSource {
 public:
  // Errors name `path`.
  FileSource(std::string path, UniqueFd fd, int64_t total_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), total_bytes_(total_bytes) {}
  int64_t total_bytes() const override { return total_bytes_; }
  absl::StatusOr<size_t> Read(std::span<char> dst, std::stop_token stop) override;
  absl::Status Rewind() override;

 private:
  const std::string path_;
  const UniqueFd fd_;
  const int64_t total_bytes_;
};

// A pipe or device, such as standard input. Remembers the first `max_replay_bytes`: a call can be
// tried again while no more than these were read.
class PipeSource final : public ImageSource {
 public:
  static constexpr size_t kDefaultMaxReplayBytes = 64 << 20;

  // Standard input; `fd` is borrowed.
  explicit PipeSource(int fd, size_t max_replay_bytes = kDefaultMaxReplayBytes)
      : name_("standard input"), fd_(fd), max_replay_bytes_(max_replay_bytes) {}
  // Errors name `path`.
  PipeSource(std::string path, UniqueFd fd)
      : name_(std::move(path)),
        owned_(std::move(fd)),
        fd_(owned_.get()),
        max_replay_bytes_(kDefaultMaxReplayBytes) {}
  absl::StatusOr<size_t> Read(std::span<char> dst, std::stop_token stop) override;
  absl::Status Rewind() override;

 private:
  void Remember(absl::string_view bytes);

  const std::string name_;
  const UniqueFd owned_;  // Empty when `fd_` is borrowed.
  const int fd_;
  const size_t max_replay_bytes_;
  std::string replay_;
  size_t replay_position_ = 0;
  bool replayable_ = true;
};

// Opens a FileSource, or a PipeSource if it is no regular file. Never blocks, even if no process
// has opened the other end of a named pipe. NOT_FOUND, PERMISSION_DENIED and similar errors;
// INVALID_ARGUMENT for a folder.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenSource(const std::string& path);

// Opens a device or named pipe for writing, which must not be replaced by a file. An invalid
// descriptor for any other path.
absl::StatusOr<UniqueFd> OpenDevice(const std::string& path);

// A pipe or device, which takes nothing back.
class PipeSink final : public ImageSink {
 public:
  // `fd` is borrowed.
  explicit PipeSink(int fd) : fd_(fd) {}
  absl::Status Write(absl::string_view bytes) override;
  absl::Status Restart() override;

 private:
  const int fd_;
  bool written_ = false;
};

// Writes a file under a temporary name until it is complete. Bytes go to a hidden temporary file in
// the same folder. Commit renames it; otherwise the destructor removes it. engine/base's
// ReplaceFile does not serve here: it takes all bytes at once, and its library is not linked.
class FileSink final : public ImageSink {
 public:
  // Creates the temporary file, so that a folder that cannot be written to is known at once. It has
  // the permissions of the file that it will replace. Links are followed.
  static absl::StatusOr<FileSink> Create(const std::string& path);
  FileSink(FileSink&& other) noexcept;
  FileSink& operator=(FileSink&&) = delete;
  ~FileSink() override;

  absl::Status Write(absl::string_view bytes) override;
  absl::Status Restart() override;
  // Has Commit give it this name, in the same folder. As Create, it takes the permissions of the
  // file that has the name now.
  void Rename(const std::string& name);
  // Replaces the file there before; the bytes and the name then outlast a power failure. Call once,
  // after the last byte.
  absl::Status Commit();

 private:
  FileSink(std::string path, std::string temporary_path, UniqueFd fd)
      : path_(std::move(path)), temporary_path_(std::move(temporary_path)), fd_(std::move(fd)) {
    KeepPermissions();
  }

  void KeepPermissions();

  std::string path_;
  std::string temporary_path_;  // Empty when there is nothing to remove.
  UniqueFd fd_;
};

}  // namespace upscaled::client
