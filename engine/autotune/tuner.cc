#include "engine/autotune/tuner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autotune/measure_layer.h"

namespace upscaled {

absl::StatusOr<std::unique_ptr<Tuner>> Tuner::Create(TunerOptions options) {
  absl::StatusOr<TuningTable> table = TuningTable::Load(options.file);
  if (absl::IsFailedPrecondition(table.status())) {
    options.warn(absl::StrCat("the tuning table is not used: ", table.status().message()));
    table = TuningTable();
  }
  if (options.measure && absl::IsNotFound(table.status())) table = TuningTable();
  if (!table.ok()) return table.status();
  return std::unique_ptr<Tuner>(new Tuner(std::move(options), *std::move(table)));
}

std::string Tuner::Choose(const KernelCandidates& candidates) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::optional<std::string> known = Known(candidates)) return *known;
  }
  return options_.measure ? Measure(candidates) : candidates.names().front();
}

std::optional<std::string> Tuner::Known(const KernelCandidates& candidates) const {
  const TuningEntry* entry =
      table_.Find(candidates.device(), TuningKey(candidates.layer(), candidates.precision()));
  if (entry == nullptr) return std::nullopt;
  const std::vector<std::string> names = candidates.names();
  const bool listed = std::find(names.begin(), names.end(), entry->kernel) != names.end();
  return listed ? std::optional(entry->kernel) : std::nullopt;
}

std::string Tuner::Measure(const KernelCandidates& candidates) {
  LayerMeasurement measured = MeasureLayer(candidates, options_.layer_budget, *options_.clock);
  const std::string key = TuningKey(candidates.layer(), candidates.precision());
  for (const std::string& kernel : measured.wrong) {
    options_.warn(absl::StrCat("kernel '", kernel, "' computes ", key,
                               " wrongly on this device; it is not used for it"));
  }
  for (const std::string& kernel : measured.refused) {
    options_.warn(absl::StrCat("kernel '", kernel, "' could not be tried for ", key));
  }
  const std::string kernel = measured.entry.kernel;
  const bool none_ran = measured.entry.gflops.empty() && measured.wrong.empty();
  if (none_ran) return kernel;  // not what this device is like, but what became of it
  {
    absl::MutexLock lock(&mutex_);
    if (std::optional<std::string> known = Known(candidates)) return *known;
    table_.Set(candidates.device(), key, std::move(measured.entry));
    unsaved_ = true;
  }
  Save();
  return kernel;
}

void Tuner::Save() {
  for (;;) {
    TuningTable table;
    {
      absl::MutexLock lock(&mutex_);
      if (!unsaved_ || saving_) return;
      unsaved_ = false;
      saving_ = true;
      table = table_;
    }
    if (absl::Status saved = table.Save(options_.file); !saved.ok()) {
      options_.warn(absl::StrCat("what tuning found is not kept: ", saved.message()));
    }
    absl::MutexLock lock(&mutex_);
    saving_ = false;
  }
}

TuningTable Tuner::table() const {
  absl::MutexLock lock(&mutex_);
  return table_;
}

}  // namespace upscaled
