// Reads the body of a request while it is sent.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/image_io.h"

namespace upscaled::client {

// Reads a source on a thread of its own, two pieces ahead: a blocking one, such as a pipe, holds up
// no transfer. Taken from on one thread.
class BodyReader {
 public:
  static constexpr size_t kPieceBytes = size_t{128} << 10;

  // Both outlive it. `on_news` is called on its thread, whenever there is something to take.
  BodyReader(ImageSource& source, std::function<void()> on_news);
  // Stops reading.
  ~BodyReader();

  // Copies the bytes that are there and returns their number; 0 at the end, the source's error, or
  // nothing when there is nothing yet.
  std::optional<absl::StatusOr<size_t>> Take(std::span<char> dst) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run(std::stop_token stop) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until the last piece is taken; false: this one is not wanted.
  bool Offer(std::string& piece) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  ImageSource& source_;
  const std::function<void()> on_news_;
  absl::Mutex mutex_;
  std::string piece_ ABSL_GUARDED_BY(mutex_);
  size_t taken_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of piece_
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses what is above
};

}  // namespace upscaled::client
