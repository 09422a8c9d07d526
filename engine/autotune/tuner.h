// Chooses kernels and tiles by measurements on this machine, new or stored.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/autotune/tuning_table.h"
#include "engine/base/clock.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled {

struct TunerOptions {
  std::filesystem::path file;
  // Whether layers and tiles missing in the file are measured, and the file written; otherwise they
  // keep the backend's shipped order.
  bool measure = false;
  // For each kind of layer, and for the tiles of each network.
  absl::Duration budget = absl::Milliseconds(50);
  const Clock* clock = &Clock::Real();
  // Told human-readable news, on any thread: an unused table, a wrong kernel, an unwritable file.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// Thread safe. A choice, once made, stays; so equal layers get the same kernel, and processes with
// the same complete table at their start compute bit-exact results.
class Tuner final : public KernelChooser {
 public:
  // The errors of TuningTable::Load, but a table of an older format or another engine version is
  // only warned of; nor need the file exist when `measure` is set.
  static absl::StatusOr<std::unique_ptr<Tuner>> Create(TunerOptions options);

  std::string Choose(const KernelCandidates& candidates) override ABSL_LOCKS_EXCLUDED(mutex_);
  Size ChooseTile(TileCandidates& candidates) override ABSL_LOCKS_EXCLUDED(mutex_);

  // The known choices.
  TuningTable table() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Tuner(TunerOptions options, TuningTable table)
      : options_(std::move(options)), table_(std::move(table)) {}
  // An open choice.
  struct Question {
    std::string device, key;
    std::vector<std::string> names;  // best first as shipped
  };
  // The table's answer, if it is one of the names: it may be of another build.
  std::optional<std::string> Known(const Question& question) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the known choice. Without one, and if TunerOptions::measure is set, measures the
  // candidates and records the choice. An entry recorded meanwhile by another thread stays.
  // Records nothing if `measure` finds nothing.
  std::string Answer(const Question& question,
                     absl::FunctionRef<std::optional<TuningEntry>()> measure)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes new choices, unless another thread is writing. That thread then writes these, too.
  void Save() ABSL_LOCKS_EXCLUDED(mutex_);

  const TunerOptions options_;
  mutable absl::Mutex mutex_;
  TuningTable table_ ABSL_GUARDED_BY(mutex_);
  bool unsaved_ ABSL_GUARDED_BY(mutex_) = false;
  bool saving_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace upscaled
