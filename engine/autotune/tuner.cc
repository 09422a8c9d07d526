#include "engine/autotune/tuner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autotune/measure_layer.h"
#include "engine/autotune/measure_tile.h"

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
  const std::string key = TuningKey(candidates.layer(), candidates.precision());
  const auto measure = [&]() -> std::optional<TuningEntry> {
    LayerMeasurement measured = MeasureLayer(candidates, options_.budget, *options_.clock);
    for (const std::string& kernel : measured.wrong) {
      options_.warn(absl::StrCat("kernel '", kernel, "' computes ", key,
                                 " wrongly on this device; it is not used for it"));
    }
    for (const std::string& kernel : measured.refused) {
      options_.warn(absl::StrCat("kernel '", kernel, "' could not be tried for ", key));
    }
    const bool none_ran = measured.entry.gflops.empty() && measured.wrong.empty();
    if (none_ran) return std::nullopt;  // not what this device is like, but what became of it
    return std::move(measured.entry);
  };
  return Answer({candidates.device(), key, candidates.names()}, measure);
}

Size Tuner::ChooseTile(TileCandidates& candidates) {
  const std::vector<Size> tiles = candidates.tiles();
  Question question{candidates.device(), candidates.network(), {}};
  for (const Size tile : tiles) question.names.push_back(TileName(tile));
  const std::string chosen = Answer(question, [&]() -> std::optional<TuningEntry> {
    return MeasureTile(candidates, options_.budget, *options_.clock);
  });
  const auto found = std::find(question.names.begin(), question.names.end(), chosen);
  return tiles[found - question.names.begin()];
}

std::optional<std::string> Tuner::Known(const Question& question) const {
  const TuningEntry* entry = table_.Find(question.device, question.key);
  if (entry == nullptr) return std::nullopt;
  const std::vector<std::string>& names = question.names;
  const bool listed = std::find(names.begin(), names.end(), entry->choice) != names.end();
  return listed ? std::optional(entry->choice) : std::nullopt;
}

std::string Tuner::Answer(const Question& question,
                          absl::FunctionRef<std::optional<TuningEntry>()> measure) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::optional<std::string> known = Known(question)) return *known;
  }
  std::optional<TuningEntry> measured = options_.measure ? measure() : std::nullopt;
  if (!measured.has_value()) return question.names.front();
  const std::string choice = measured->choice;
  {
    absl::MutexLock lock(&mutex_);
    if (std::optional<std::string> known = Known(question)) return *known;
    table_.Set(question.device, question.key, *std::move(measured));
    unsaved_ = true;
  }
  Save();
  return choice;
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
