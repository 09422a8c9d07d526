// Results as files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "server/results/digest.h"

namespace upscaled::server {

// A complete file, readable for as long as this lives, even if the file is deleted. Thread safe.
class ResultFile {
 public:
  static absl::StatusOr<ResultFile> Open(const std::filesystem::path& path);

  int64_t bytes() const { return bytes_; }
  // Fills a part of `dst` with the bytes from `offset` on and returns how many; 0 at the end.
  absl::StatusOr<size_t> ReadAt(int64_t offset, std::span<uint8_t> dst) const;
  // The digest of all bytes.
  absl::StatusOr<Digest> ReadDigest() const;

 private:
  ResultFile(UniqueFd file, int64_t bytes) : file_(std::move(file)), bytes_(bytes) {}

  UniqueFd file_;
  int64_t bytes_;
};

// A file in writing under a name without meaning; deleted unless renamed. Used by one thread,
// except the reader. UNAVAILABLE names the file.
class PartialFile {
 public:
  static absl::StatusOr<std::unique_ptr<PartialFile>> Create(const std::filesystem::path& folder);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  absl::Status Append(std::span<const uint8_t> bytes);
  int64_t bytes() const { return bytes_; }
  // At once: `path` is the file before or this one. Not synced, so a power failure may leave it
  // short or wrong.
  absl::Status RenameTo(const std::filesystem::path& path);
  // The same open file, readable from any thread, also after this is gone.
  std::shared_ptr<const UniqueFd> descriptor() const { return file_; }

 private:
  PartialFile(std::shared_ptr<const UniqueFd> file, std::filesystem::path path)
      : file_(std::move(file)), path_(std::move(path)) {}

  const std::shared_ptr<const UniqueFd> file_;
  const std::filesystem::path path_;
  int64_t bytes_ = 0;
  bool renamed_ = false;
};

// pread, at `offset`: a part of `dst`, 0 at the end. UNAVAILABLE if it fails.
absl::StatusOr<size_t> ReadFileAt(int file, int64_t offset, std::span<uint8_t> dst);

}  // namespace upscaled::server
