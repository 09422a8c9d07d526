#include "server/models/model_cache.h"

#include <algorithm>
#include <exception>
#include <new>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::shared_ptr<const Executable>> ModelCache::Get(const ModelCard& card,
                                                                  const ModelVariant& variant,
                                                                  Precision precision,
                                                                  Cancellation* cancellation) {
  const Key key{card.name, variant.scale, variant.noise_level, precision,
                variant.files_state.get()};
  std::shared_ptr<Entry> entry;
  bool is_new = false;
  {
    absl::MutexLock lock(&mutex_);
    DropUnlistedLocked();  // before the address of their files is used for others
    std::shared_ptr<Entry>& listed = entries_[key];
    if (listed == nullptr) {
      is_new = true;
      listed = std::make_shared<Entry>();
      listed->lists_files = variant.files_state != nullptr;
      listed->files_state = variant.files_state;
    }
    entry = listed;
    entry->last_use = ++uses_;
  }
  if (!is_new) return Await(*entry, cancellation);
  auto outcome = Load(card, variant, precision);
  // Not if the model passes a limit by itself.
  if (ReasonOf(outcome.status()) == ErrorReason::kOverloaded && DropUnused(/*all=*/true) > 0) {
    outcome = Load(card, variant, precision);
  }
  Surplus surplus;  // freed behind the lock
  absl::MutexLock lock(&mutex_);
  entry->outcome = outcome;
  entry->loading = false;
  if (!outcome.ok()) entries_.erase(key);
  surplus = TakeSurplus(max_weight_bytes_);
  return outcome;
}

absl::StatusOr<std::shared_ptr<const Executable>> ModelCache::Load(const ModelCard& card,
                                                                   const ModelVariant& variant,
                                                                   Precision precision) try {
  absl::StatusOr<Network> network = LoadNetwork(card, variant);
  if (absl::IsFailedPrecondition(network.status())) {  // its files have been replaced
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kReloadFailed,
                     absl::StrCat("the files of model ", card.name,
                                  " have been replaced since they were listed; "
                                  "the server's models must be reloaded (ReloadModels)"));
  }
  if (!network.ok()) {  // whatever is wrong with the file is not the request's fault
    return absl::InternalError(
        absl::StrCat("model ", card.name, " cannot be loaded: ", network.status().message()));
  }
  return Compile(*network, precision);
} catch (const std::bad_alloc&) {
  return MakeOverloaded(absl::StrCat("out of memory while loading model ", card.name),
                        kMemoryRetryDelay);
} catch (const std::exception& error) {
  return absl::InternalError(
      absl::StrCat("model ", card.name, " cannot be loaded: ", error.what()));
}

absl::StatusOr<std::shared_ptr<const Executable>> ModelCache::Compile(const Network& network,
                                                                      Precision precision) {
  const auto own = [this] {
    absl::MutexLock lock(&compiling_mutex_);
    return compiling_.insert(compiling_.end(), absl::ZeroDuration());
  }();
  const absl::Cleanup done = [&] {
    absl::MutexLock lock(&compiling_mutex_);
    compiling_.erase(own);
  };
  return backend_.Compile(network, precision);
}

absl::Duration ModelCache::CompilingFor(absl::Duration passed) {
  absl::MutexLock lock(&compiling_mutex_);
  absl::Duration longest;
  for (absl::Duration& time : compiling_) longest = std::max(longest, time += passed);
  return longest;
}

int64_t ModelCache::DropUnused(bool all) {
  Surplus surplus;  // freed behind the lock
  absl::MutexLock lock(&mutex_);
  surplus = TakeSurplus(all ? 0 : max_weight_bytes_);
  return surplus.bytes;
}

ModelCache::Surplus ModelCache::TakeSurplus(int64_t max_weight_bytes) {
  int64_t bytes = 0;
  std::vector<EntryMap::iterator> unused;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& entry = *it->second;
    if (entry.loading) continue;
    bytes += static_cast<int64_t>((*entry.outcome)->WeightBytes());
    if (entry.unused()) unused.push_back(it);
  }
  std::ranges::sort(unused, {}, [](const auto& it) { return it->second->last_use; });
  Surplus surplus;
  for (const EntryMap::iterator it : unused) {
    if (bytes - surplus.bytes <= max_weight_bytes) break;
    surplus.bytes += static_cast<int64_t>((*it->second->outcome)->WeightBytes());
    surplus.entries.push_back(it->second);
    entries_.erase(it);
  }
  return surplus;
}

absl::StatusOr<std::shared_ptr<const Executable>> ModelCache::Await(const Entry& entry,
                                                                    Cancellation* cancellation) {
  bool cancelled = false;  // guarded by mutex_
  Cancellation::Registration registration;
  if (cancellation != nullptr) {
    registration = cancellation->OnCancel([&] {
      absl::MutexLock lock(&mutex_);
      cancelled = true;
    });
  }
  absl::MutexLock lock(&mutex_);
  const auto over = [&] { return !entry.loading || cancelled; };
  mutex_.Await(absl::Condition(&over));
  return entry.loading ? cancellation->status() : entry.outcome;
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

int64_t ModelCache::weight_bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [key, entry] : entries_) {
    if (!entry->loading) bytes += static_cast<int64_t>((*entry->outcome)->WeightBytes());
  }
  return bytes;
}

void ModelCache::DropUnlisted() {
  absl::MutexLock lock(&mutex_);
  DropUnlistedLocked();
}

void ModelCache::DropUnlistedLocked() {
  std::erase_if(entries_, [](const auto& entry) { return entry.second->unlisted(); });
}

}  // namespace upscaled::server
