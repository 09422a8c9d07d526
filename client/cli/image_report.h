// The outcome of the images, human-readable or as JSON.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cli/image_plan.h"
#include "client/cli/progress_bar.h"
#include "client/upscale_client.h"
#include "nlohmann/json.hpp"

namespace upscaled::client {

struct ImageOutcome {
  ImageJob job;
  // Its output was there already.
  bool skipped = false;
  absl::Status status;
  ImageResult result;  // When the status is OK.
  absl::Duration elapsed;
};

nlohmann::json OutcomeJson(const ImageOutcome& outcome);

enum class ReportStyle {
  kQuiet,    // Errors.
  kNormal,   // And what was done, in short.
  kVerbose,  // And a line an image, and each retry.
  kJson,     // An object an image on standard output; errors also on standard error.
};

nlohmann::json LeftOutJson(const LeftOut& left_out);

// Thread safe.
class ImageReport {
 public:
  // `bar` is borrowed; all human-readable lines go through it.
  ImageReport(ReportStyle style, bool is_folder, ProgressBar& bar)
      : style_(style), is_folder_(is_folder), bar_(bar) {}

  void Add(const ImageOutcome& outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(const LeftOut& left_out) ABSL_LOCKS_EXCLUDED(mutex_);
  void Warn(const std::string& warning);
  void Retrying(const ImageJob& job, const absl::Status& error, absl::Duration wait);

  // Prints the end of a folder's report and returns the exit code. `not_tried`: images left out
  // because the server was lost or the command was interrupted.
  int Finish(int not_tried, bool interrupted) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const ReportStyle style_;
  const bool is_folder_;
  ProgressBar& bar_;
  absl::Mutex mutex_;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
  int skipped_ ABSL_GUARDED_BY(mutex_) = 0;
  int left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);
  bool disconnected_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::client
