// The line of progress on the terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace upscaled::client {

// One image in progress.
struct ImageProgress {
  std::string name;
  int64_t sent_bytes = 0;
  int64_t total_bytes = 0;  // 0: unknown.
  int64_t tiles_done = 0;
  int64_t tiles = 0;  // 0: not known yet.
};

struct BatchProgress {
  int files_done = 0;
  int files = 1;
  // Done parts of the images in progress, in images.
  double partial_files = 0;
  absl::Duration elapsed;
};

// "0:07", "12:40", "3:05:00".
std::string FormatEta(absl::Duration duration);

// A line of at most `columns` columns for a batch and its image of the latest progress.
std::string RenderProgress(const BatchProgress& batch, const ImageProgress& image, int columns);

// Draws on a stream; does nothing when not enabled. Thread safe.
class ProgressBar {
 public:
  static constexpr absl::Duration kDrawInterval = absl::Milliseconds(100);

  // `terminal` is borrowed. Progress within `draw_interval` of the last line is not drawn.
  ProgressBar(std::FILE* terminal, bool enabled, int files,
              absl::Duration draw_interval = kDrawInterval);
  ~ProgressBar();

  // Images are told apart by `id`.
  void Start(int id, absl::string_view name, int64_t total_bytes);
  void Sent(int id, int64_t bytes);
  void Tiles(int id, int64_t done, int64_t tiles);
  void Finish(int id);

  // Writes a line of text above the bar, or plainly without a bar.
  void Print(absl::string_view line);

 private:
  void Draw(const ImageProgress& image) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::FILE* const terminal_;
  const bool enabled_;
  const absl::Duration draw_interval_;
  const absl::Time start_ = absl::Now();
  absl::Mutex mutex_;
  BatchProgress batch_ ABSL_GUARDED_BY(mutex_);
  std::map<int, ImageProgress> images_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_drawn_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool visible_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace upscaled::client
