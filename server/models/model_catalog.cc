#include "server/models/model_catalog.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <new>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/aliases.h"
#include "engine/model/shapes.h"
#include "server/base/error.h"
#include "server/base/throughput.h"
#include "server/models/model_chain.h"

namespace upscaled::server {

int AdvertisedHaloPx(const Network& network) {
  const std::vector<bool> per_image = IsPerImage(network);
  if (std::find(per_image.begin(), per_image.end(), true) != per_image.end()) {
    return network.pad_px;
  }
  // A tile far from all borders, at a position for any alignment.
  constexpr int kFar = 1 << 14, kTile = 1 << 8;
  const Rect tile{kFar, kFar, kTile, kTile};
  const Size image{2 * kFar + kTile, 2 * kFar + kTile};
  const Rect needed = PlanTile(network, image, tile).input;
  return std::max({tile.x - needed.x, tile.y - needed.y, needed.right() - tile.right(),
                   needed.bottom() - tile.bottom()});
}

struct ModelCatalog::Listing {
  ModelRepository repository;
  std::deque<ModelCard> reduced;      // without variants that cannot be loaded
  std::vector<CatalogEntry> entries;  // in order of name
  std::vector<RefusedModel> refused;  // likewise
  AliasMap aliases;
  std::string default_model;
};

struct ModelCatalog::State {
  Options options;
  mutable absl::Mutex mutex;
  std::shared_ptr<const Listing> listing ABSL_GUARDED_BY(mutex);
  bool has_turn ABSL_GUARDED_BY(mutex) = false;                          // whether somebody has it
  std::map<std::string, ThroughputMeter> speeds ABSL_GUARDED_BY(mutex);  // by model
};

namespace {

constexpr char kDefaultAlias[] = "default";
constexpr char kUnstated[] = "unstated";  // what --allow-licences calls no licence

// Whether the cards name the same variants of the same files.
bool SameFiles(const ModelCard& a, const ModelCard& b) {
  const auto same = [](const ModelVariant& v, const ModelVariant& w) {
    return v.scale == w.scale && v.noise_level == w.noise_level && v.files_state == w.files_state;
  };
  return a.version == b.version && std::equal(a.variants.begin(), a.variants.end(),
                                              b.variants.begin(), b.variants.end(), same);
}

// Whether the operator lets it be served.
absl::Status CheckLicence(const ModelCard& card, const std::vector<std::string>& allowed) {
  const std::string licence = card.licence.empty() ? kUnstated : card.licence;
  const auto same = [&](const std::string& other) {
    return absl::EqualsIgnoreCase(licence, other);
  };
  if (allowed.empty() || std::any_of(allowed.begin(), allowed.end(), same)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("model '", card.name, "' has the licence '",
                                                  licence, "', --allow-licences has ",
                                                  absl::StrJoin(allowed, ", ")));
}

// The catalog's entry, from one variant of each scale. `keep`: their networks, for the next loader.
// Sets `broken` to the variant with the failed load.
absl::StatusOr<CatalogEntry> Examine(const ModelCard& card, const ModelCatalog::Options& options,
                                     const PrecisionProbe& try_precision,
                                     const MemoryProbe& plan_memory, bool keep,
                                     const ModelVariant*& broken) {
  CatalogEntry entry{.card = &card, .default_precision = options.default_precision};
  for (const int scale : card.Scales()) {
    const ModelVariant& variant =
        *std::find_if(card.variants.begin(), card.variants.end(),
                      [scale](const ModelVariant& candidate) { return candidate.scale == scale; });
    broken = &variant;
    ASSIGN_OR_RETURN(Network network, LoadNetwork(card, variant));
    broken = nullptr;
    entry.halo_px = std::max(entry.halo_px, AdvertisedHaloPx(network));
    if (entry.default_precision != Precision::kExact) {
      const absl::Status status = try_precision(network, entry.default_precision);
      if (absl::IsUnavailable(status)) return status;  // says nothing of the model
      if (!status.ok()) {
        entry.default_precision = Precision::kExact;
        if (options.on_exact) options.on_exact(card.name, status);
      }
    }
    if (scale == NativeScale(card)) {
      entry.macs_per_pixel = network.MacsPerOutputPixel();
      entry.weight_bytes = network.WeightCount() * int64_t{sizeof(float)};
      entry.architecture = network.architecture;
      entry.input_channels = network.input_channels;
      if (plan_memory) entry.memory_bytes = plan_memory(network, entry.default_precision);
    }
    if (keep) KeepNetwork(variant, std::move(network));
  }
  return entry;
}

// A model as far as it can be served.
struct Servable {
  ModelCard card;  // without the variants that cannot be loaded
  CatalogEntry entry;
  std::vector<RefusedModel> refused;  // these, by VariantName
};

// Drops unloadable variants as long as others are left.
absl::StatusOr<Servable> ExamineVariants(const ModelCard& card,
                                         const ModelCatalog::Options& options,
                                         const PrecisionProbe& try_precision,
                                         const MemoryProbe& plan_memory, bool keep) {
  Servable model{.card = card};
  while (true) {
    const ModelVariant* broken = nullptr;
    absl::StatusOr<CatalogEntry> entry =
        Examine(model.card, options, try_precision, plan_memory, keep, broken);
    if (entry.ok()) {
      model.entry = *std::move(entry);
      return model;
    }
    if (broken == nullptr) return entry.status();
    model.refused.push_back({VariantName(card, *broken), entry.status()});
    model.card.variants.erase(model.card.variants.begin() + (broken - model.card.variants.data()));
    if (model.card.variants.empty()) return model.refused.front().why;
  }
}

const std::string& NameOf(const CatalogEntry& entry) { return entry.card->name; }
const std::string& NameOf(const RefusedModel& refused) { return refused.name; }

// The entry or refused model of this name; null: none.
template <typename Models>
auto* FindNamed(const Models& models, std::string_view name) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [name](const auto& model) { return NameOf(model) == name; });
  return found == models.end() ? nullptr : &*found;
}

template <typename Models>
void SortByName(Models& models) {
  std::sort(models.begin(), models.end(),
            [](const auto& a, const auto& b) { return NameOf(a) < NameOf(b); });
}

ReloadReport Compare(const std::vector<CatalogEntry>& before,
                     const std::vector<CatalogEntry>& now) {
  ReloadReport report;
  for (const CatalogEntry& entry : now) {
    const CatalogEntry* old = FindNamed(before, entry.card->name);
    std::vector<std::string>& names = old == nullptr                       ? report.added
                                      : SameFiles(*old->card, *entry.card) ? report.unchanged
                                                                           : report.changed;
    names.push_back(entry.card->name);
  }
  for (const CatalogEntry& entry : before) {
    if (FindNamed(now, entry.card->name) == nullptr) report.removed.push_back(entry.card->name);
  }
  return report;
}

// Compiles the new files of all ready networks of `cache` from the old ones.
absl::Status Prepare(const ModelRepository& now, ModelCache& cache) {
  for (const ModelCache::Loaded& loaded : cache.loaded()) {
    const auto card = now.Find(loaded.model);
    const ModelVariant* variant =
        card.ok() ? (*card)->Find(loaded.scale, loaded.noise_level) : nullptr;
    if (variant == nullptr) continue;
    RETURN_IF_ERROR(cache.Get(**card, *variant, loaded.precision).status());
  }
  return absl::OkStatus();
}

// By the model's name, or by VariantName.
bool IsServed(const std::vector<CatalogEntry>& entries, const std::string& name) {
  return std::ranges::any_of(entries, [&name](const CatalogEntry& entry) {
    return NameOf(entry) == name ||
           std::ranges::any_of(entry.card->variants, [&](const ModelVariant& variant) {
             return VariantName(*entry.card, variant) == name;
           });
  });
}

bool IsRefused(const std::vector<RefusedModel>& refused, std::string_view name) {
  return std::any_of(refused.begin(), refused.end(),
                     [&](const RefusedModel& model) { return model.name == name; });
}

// Whether a letter or sign of a file's name stands there.
bool IsInName(std::string_view text, size_t at) {
  constexpr std::string_view kSigns = "_-./";
  return at < text.size() && (absl::ascii_isalnum(static_cast<unsigned char>(text[at])) ||
                              kSigns.find(text[at]) != std::string_view::npos);
}

// Replaces a folder's path where it is a whole one, or the beginning of one if it ends in a slash:
// a folder may be called "m".
std::string ReplacePath(const std::string& path, std::string_view by, const std::string& text) {
  std::string replaced;
  size_t from = 0;
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + 1)) {
    const size_t end = at + path.size();
    const bool begins = at == 0 || !IsInName(text, at - 1);
    if (!begins || (!path.ends_with('/') && IsInName(text, end))) continue;
    replaced.append(text, from, at - from).append(by);
    from = end;
  }
  return replaced.append(text, from);
}

}  // namespace

ModelCatalog::ModelCatalog(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelCatalog::ModelCatalog(ModelCatalog&&) noexcept = default;
ModelCatalog::~ModelCatalog() = default;

absl::StatusOr<std::shared_ptr<const ModelCatalog::Listing>> ModelCatalog::List(
    ModelRepository repository, const Options& options, const PrecisionProbe& try_precision,
    const MemoryProbe& plan_memory, const Listing* before, const std::set<std::string>& loaded) {
  auto listing = std::make_shared<Listing>();
  listing->repository = std::move(repository);
  listing->refused = listing->repository.refused();
  for (const ModelCard& card : listing->repository.models()) {
    if (absl::Status licence = CheckLicence(card, options.allowed_licences); !licence.ok()) {
      listing->refused.push_back({card.name, std::move(licence)});
      continue;
    }
    const CatalogEntry* known = before == nullptr ? nullptr : FindNamed(before->entries, card.name);
    if (known != nullptr && SameFiles(*known->card, card)) {
      listing->entries.push_back(*known);
      listing->entries.back().card = &card;
      continue;
    }
    const bool keep = loaded.contains(card.name);  // Prepare compiles it next
    absl::StatusOr<Servable> model =
        ExamineVariants(card, options, try_precision, plan_memory, keep);
    if (absl::IsUnavailable(model.status())) return model.status();
    if (!model.ok()) {
      listing->refused.push_back({card.name, model.status()});
      continue;
    }
    listing->entries.push_back(std::move(model->entry));
    listing->entries.back().card =
        model->refused.empty() ? &card : &listing->reduced.emplace_back(std::move(model->card));
    std::ranges::move(model->refused, std::back_inserter(listing->refused));
  }
  SortByName(listing->entries);
  NameAliases(*listing, options.default_model);
  SortByName(listing->refused);
  for (const RefusedModel& refused : listing->refused) {
    const bool served =
        before != nullptr &&
        (IsServed(before->entries, refused.name) ||
         (refused.name == kAliasesName && !IsRefused(before->refused, kAliasesName)));
    if (served) return refused.why;
    if (options.on_refused) options.on_refused(refused.name, refused.why);
  }
  RETURN_IF_ERROR(FindIn(listing, "").status());
  return listing;
}

void ModelCatalog::NameAliases(Listing& listing, const std::string& default_model) {
  AliasMap& aliases = listing.aliases;
  aliases = listing.repository.aliases();
  aliases.try_emplace(kDefaultAlias, kOwnDefault);
  listing.default_model = default_model.empty() ? aliases[kDefaultAlias] : default_model;
  // A name may itself be an alias, once. A model's name resolves to itself.
  if (const auto alias = aliases.find(listing.default_model);
      alias != aliases.end() && FindNamed(listing.entries, listing.default_model) == nullptr) {
    listing.default_model = alias->second;
  }
  aliases[kDefaultAlias] = listing.default_model;
  for (CatalogEntry& entry : listing.entries) {
    entry.aliases.clear();
    for (const auto& [alias, model] : aliases) {
      if (model == NameOf(entry) && FindNamed(listing.entries, alias) == nullptr) {
        entry.aliases.push_back(alias);
      }
    }
  }
  for (const auto& [alias, model] : aliases) {
    // Without a default model there is no listing; the error says so.
    if (alias != kDefaultAlias && FindNamed(listing.entries, model) == nullptr &&
        FindNamed(listing.entries, alias) == nullptr) {
      listing.refused.push_back({alias, absl::NotFoundError(absl::StrCat(
                                            "is an alias of '", model, "', which is not served"))});
    }
  }
}

absl::StatusOr<ModelCatalog> ModelCatalog::Create(ModelRepository repository, Options options,
                                                  const PrecisionProbe& try_precision,
                                                  const MemoryProbe& plan_memory) {
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(std::shared_ptr<const Listing> listing,
                   List(std::move(repository), options, try_precision, plan_memory, nullptr, {}));
  listing->repository.DropReadAhead();
  state->options = std::move(options);
  {
    absl::MutexLock lock(&state->mutex);
    state->listing = std::move(listing);
  }
  return ModelCatalog(std::move(state));
}

std::shared_ptr<const ModelCatalog::Listing> ModelCatalog::listing() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->listing;
}

std::string ModelCatalog::default_model() const { return listing()->default_model; }

void ModelCatalog::RecordRun(const std::string& model, absl::Duration busy, int64_t cost) {
  absl::MutexLock lock(&state_->mutex);
  state_->speeds[model].Add(busy, cost);
}

std::optional<absl::Duration> ModelCatalog::TimePerMegapixel(const CatalogEntry& entry) const {
  constexpr double kMegapixel = 1e6;
  absl::MutexLock lock(&state_->mutex);
  const auto speed = state_->speeds.find(entry.card->name);
  if (speed == state_->speeds.end() || !speed->second.known()) return std::nullopt;
  return speed->second.TimeFor(static_cast<int64_t>(entry.macs_per_pixel * kMegapixel));
}

std::vector<std::shared_ptr<const CatalogEntry>> ModelCatalog::entries() const {
  const std::shared_ptr<const Listing> current = listing();
  std::vector<std::shared_ptr<const CatalogEntry>> entries;
  for (const CatalogEntry& entry : current->entries) entries.emplace_back(current, &entry);
  return entries;
}

absl::StatusOr<std::shared_ptr<const CatalogEntry>> ModelCatalog::FindIn(
    const std::shared_ptr<const Listing>& listing, std::string_view name) {
  if (name.empty()) name = listing->default_model;
  const CatalogEntry* entry = FindNamed(listing->entries, name);
  if (const auto alias = listing->aliases.find(name);
      entry == nullptr && alias != listing->aliases.end()) {
    name = alias->second;
    entry = FindNamed(listing->entries, name);
  }
  if (entry != nullptr) return std::shared_ptr<const CatalogEntry>(listing, entry);
  const RefusedModel* refused = FindNamed(listing->refused, name);
  if (refused == nullptr) {
    std::vector<std::string> names;
    for (const CatalogEntry& known : listing->entries) names.push_back(NameOf(known));
    return WithReason(UnknownModel(name, names), ErrorReason::kUnknownModel);
  }
  return MakeError(
      absl::StatusCode::kNotFound, ErrorReason::kUnknownModel,
      absl::StrCat("model '", refused->name, "' is not served: ", refused->why.message()));
}

absl::StatusOr<std::shared_ptr<const CatalogEntry>> ModelCatalog::Find(
    std::string_view name) const {
  auto found = FindIn(listing(), name);
  return found.ok() ? found : ForClients(found.status());
}

absl::StatusOr<ModelChain> ModelCatalog::FindChain(std::string_view names) const {
  const std::shared_ptr<const Listing> current = listing();
  absl::StatusOr<std::shared_ptr<const CatalogEntry>> whole = FindIn(current, names);
  if (whole.ok()) return ModelChain({*std::move(whole)});
  const std::vector<std::string> parts = absl::StrSplit(ToAbsl(names), ',');
  if (parts.size() == 1) return ForClients(whole.status());
  if (parts.size() > kMaxChainLength) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
        absl::StrCat("model names ", parts.size(), " models; the limit is ", kMaxChainLength));
  }
  std::vector<std::shared_ptr<const CatalogEntry>> links;
  for (const std::string& part : parts) {
    const std::string name(absl::StripAsciiWhitespace(part));
    if (name.empty()) {
      return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                       absl::StrCat("model is '", ToAbsl(names),
                                    "': a name between its commas is "
                                    "empty"));
    }
    auto link = FindIn(current, name);
    if (!link.ok()) return ForClients(link.status());
    links.push_back(*std::move(link));
  }
  return ModelChain(std::move(links));
}

absl::Status ModelCatalog::ForClients(const absl::Status& status) const {
  return MakeError(status.code(), ReasonOf(status),
                   WithoutDirectories(std::string(status.message())));
}

std::vector<RefusedModel> ModelCatalog::refused() const {
  std::vector<RefusedModel> refused = listing()->refused;
  for (RefusedModel& model : refused) {
    model.why =
        absl::Status(model.why.code(), WithoutDirectories(std::string(model.why.message())));
  }
  return refused;
}

std::string ModelCatalog::WithoutDirectories(std::string message) const {
  for (const std::filesystem::path& directory : listing()->repository.directories()) {
    message = ReplacePath((directory / "").string(), "", message);
    message = ReplacePath(directory.string(), "the model repository", message);
  }
  return message;
}

ModelCatalog::Turn::~Turn() {
  if (state_ == nullptr) return;
  absl::MutexLock lock(&state_->mutex);
  state_->has_turn = false;
}

absl::StatusOr<ModelCatalog::Turn> ModelCatalog::TryTurn() {
  absl::MutexLock lock(&state_->mutex);
  if (std::exchange(state_->has_turn, true)) {
    return MakeError(absl::StatusCode::kAborted, ErrorReason::kReloadFailed,
                     "another reload is running");
  }
  return Turn(*state_);
}

ModelCatalog::Turn ModelCatalog::AwaitTurn() {
  const auto is_free = [](bool* has_turn) { return !*has_turn; };
  absl::MutexLock lock(&state_->mutex, absl::Condition(+is_free, &state_->has_turn));
  state_->has_turn = true;
  return Turn(*state_);
}

absl::StatusOr<ReloadReport> ModelCatalog::Reload(const Turn& turn,
                                                  std::span<ModelCache* const> caches,
                                                  const PrecisionProbe& try_precision,
                                                  const MemoryProbe& plan_memory) {
  UPSCALED_CHECK(turn.state_ == state_.get());
  absl::StatusOr<ReloadReport> report = TryReload(caches, try_precision, plan_memory);
  for (ModelCache* cache : caches) cache->DropUnlisted();
  if (report.ok()) return report;
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kReloadFailed,
                   absl::StrCat("the models stay as they are: ", report.status().message()));
}

absl::StatusOr<ReloadReport> ModelCatalog::TryReload(std::span<ModelCache* const> caches,
                                                     const PrecisionProbe& try_precision,
                                                     const MemoryProbe& plan_memory) try {
  const std::shared_ptr<const Listing> before = listing();
  std::set<std::string> loaded;
  for (const ModelCache* cache : caches) {
    for (ModelCache::Loaded& model : cache->loaded()) loaded.insert(std::move(model.model));
  }
  ASSIGN_OR_RETURN(ModelRepository repository, before->repository.Reopen());
  ASSIGN_OR_RETURN(std::shared_ptr<const Listing> now,
                   List(std::move(repository), state_->options, try_precision, plan_memory,
                        before.get(), loaded));
  for (ModelCache* cache : caches) RETURN_IF_ERROR(Prepare(now->repository, *cache));
  now->repository.DropReadAhead();
  ReloadReport report = Compare(before->entries, now->entries);
  absl::MutexLock lock(&state_->mutex);
  state_->listing = std::move(now);
  return report;
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("out of memory");
} catch (const std::exception& error) {
  return absl::InternalError(error.what());
}

}  // namespace upscaled::server
