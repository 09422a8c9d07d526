// An object made of files, made again when they change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/files.h"

namespace upscaled::server {

// Reads files, and knows their identities.
class FileReader {
 public:
  // `pipes`: reads pipes, too, and these can be read once.
  explicit FileReader(bool pipes) : pipes_(pipes) {}

  // As ReadFile.
  absl::StatusOr<std::string> Read(const std::filesystem::path& path, size_t max_bytes) {
    // First: changes made meanwhile are read next time.
    states_.emplace_back(path, StateOf(path));
    absl::StatusOr<std::string> content = ReadFile(path, max_bytes, {.pipes = pipes_});
    // A file present but not read, without a free descriptor for example, is tried again.
    if (!content.ok() && states_.back().second != kMissing) states_.back().second = kUnread;
    return content;
  }

  // Whether one of the read files is another one now.
  bool Changed() const {
    return std::any_of(states_.begin(), states_.end(),
                       [](const auto& read) { return StateOf(read.first) != read.second; });
  }

 private:
  static std::string StateOf(const std::filesystem::path& path) {
    return FileState(path).value_or(kMissing);
  }

  static constexpr char kMissing[] = "missing", kUnread[] = "unread";

  bool pipes_;
  std::vector<std::pair<std::filesystem::path, std::string>> states_;
};

// Thread safe. Holders keep their object after any later reload.
template <typename T>
class Reloaded {
 public:
  using Make = std::function<absl::StatusOr<std::shared_ptr<const T>>(FileReader&)>;

  explicit Reloaded(Make make) : make_(std::move(make)) {}

  // Null before the first success.
  std::shared_ptr<const T> get() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return made_;
  }

  // The first time. If `make` fails, the old value stays, here and below.
  absl::Status Load() {
    absl::MutexLock making(&make_mutex_);
    return MakeFrom(FileReader(/*pipes=*/true));
  }
  // Again, whether the files have changed or not.
  absl::Status Reload() {
    absl::MutexLock making(&make_mutex_);
    return MakeFrom(FileReader(/*pipes=*/false));
  }
  // Again if one of the files has changed: whether it had. The same files are not tried twice.
  absl::StatusOr<bool> ReloadIfChanged() {
    absl::MutexLock making(&make_mutex_);
    if (!files_.Changed()) return false;
    const absl::Status made = MakeFrom(FileReader(/*pipes=*/false));
    if (!made.ok()) return made;
    return true;
  }

  // Makes another one of the old one, without the files. After a success.
  absl::Status Replace(
      absl::FunctionRef<absl::StatusOr<std::shared_ptr<const T>>(const T& old)> make) {
    absl::MutexLock making(&make_mutex_);
    absl::StatusOr<std::shared_ptr<const T>> made = make(*get());
    absl::MutexLock lock(&mutex_);
    if (made.ok()) made_ = *std::move(made);
    return made.status();
  }

 private:
  absl::Status MakeFrom(FileReader files) ABSL_EXCLUSIVE_LOCKS_REQUIRED(make_mutex_)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<std::shared_ptr<const T>> made = make_(files);
    files_ = std::move(files);
    absl::MutexLock lock(&mutex_);
    if (made.ok()) made_ = *std::move(made);
    return made.status();
  }

  const Make make_;
  absl::Mutex make_mutex_;  // held over a whole reading, so that the last one that began holds
  FileReader files_ ABSL_GUARDED_BY(make_mutex_){/*pipes=*/false};
  mutable absl::Mutex mutex_;
  std::shared_ptr<const T> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
