#include "server/models/model_cache.h"

#include <new>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);

// Never throws: others wait for the outcome.
absl::StatusOr<std::shared_ptr<const Executable>> Load(Backend& backend, const ModelCard& card,
                                                       const ModelVariant& variant,
                                                       Precision precision) try {
  absl::StatusOr<Network> network = LoadNetwork(card, variant);
  if (!network.ok()) {  // whatever is wrong with the file is not the request's fault
    return absl::InternalError(
        absl::StrCat("model ", card.name, " cannot be loaded: ", network.status().message()));
  }
  return backend.Compile(*network, precision);
} catch (const std::bad_alloc&) {
  return MakeOverloaded(absl::StrCat("out of memory while loading model ", card.name),
                        kMemoryRetryDelay);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Executable>> ModelCache::Get(const ModelCard& card,
                                                                  const ModelVariant& variant,
                                                                  Precision precision) {
  const Key key{card.name, variant.scale, variant.noise_level, precision,
                variant.files_state.get()};
  std::shared_ptr<Entry> entry;
  {
    absl::MutexLock lock(&mutex_);
    DropUnlistedLocked();  // before the address of their files is used for others
    if (const auto found = entries_.find(key); found != entries_.end()) {
      entry = found->second;
      const auto loaded = [&entry] { return !entry->loading; };
      mutex_.Await(absl::Condition(&loaded));
      return entry->outcome;
    }
    entry = std::make_shared<Entry>();
    entry->lists_files = variant.files_state != nullptr;
    entry->files_state = variant.files_state;
    entries_.emplace(key, entry);
  }
  auto outcome = Load(backend_, card, variant, precision);
  absl::MutexLock lock(&mutex_);
  entry->outcome = outcome;
  entry->loading = false;
  if (!outcome.ok()) entries_.erase(key);
  return outcome;
}

std::vector<ModelCache::Loaded> ModelCache::loaded() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Loaded> loaded;
  for (const auto& [key, entry] : entries_) {
    if (entry->loading || entry->unlisted()) continue;
    loaded.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key)});
  }
  return loaded;
}

void ModelCache::DropUnlisted() {
  absl::MutexLock lock(&mutex_);
  DropUnlistedLocked();
}

void ModelCache::DropUnlistedLocked() {
  std::erase_if(entries_, [](const auto& entry) { return entry.second->unlisted(); });
}

}  // namespace upscaled::server
