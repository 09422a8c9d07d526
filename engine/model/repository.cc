#include "engine/model/repository.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/bare_files.h"
#include "engine/model/folder_files.h"
#include "engine/model/known_layouts.h"
#include "engine/model/loader.h"
#include "engine/model/model_card.h"
#include "engine/model/of_file.h"
#include "engine/model/quote.h"
#include "engine/model/text.h"
#include "engine/model/versions.h"

namespace upscaled {
namespace {

using std::filesystem::path;

constexpr size_t kMaxAliasesBytes = size_t{64} << 10;

// Folders below a directory of models: deeper ones are refused.
constexpr int kMaxFolderDepth = 8;

// The name of a model at `entry`.
std::string NameOf(const path& entry) {
  std::error_code error;
  return (std::filesystem::is_directory(entry, error) ? entry.filename() : entry.stem()).string();
}

bool IsBelow(const path& entry, const path& directory) {
  return std::mismatch(directory.begin(), directory.end(), entry.begin(), entry.end()).first ==
         directory.end();
}

absl::StatusOr<std::string> FilesState(const ModelVariant& variant) {
  std::vector<std::string> states;
  for (const path& file : FilesOf(variant)) {
    ASSIGN_OR_RETURN(states.emplace_back(), FileState(file));
  }
  return absl::StrJoin(states, " ");
}

absl::Status RecordFilesState(const ModelCard& card, ModelVariant& variant) {
  absl::StatusOr<std::string> state = FilesState(variant);
  if (!state.ok()) {
    return absl::Status(state.status().code(),
                        absl::StrCat("model '", card.name, "': ", state.status().message()));
  }
  variant.files_state = std::make_shared<const std::string>(*std::move(state));
  if (variant.read_ahead == nullptr) variant.read_ahead = std::make_shared<ReadAhead>();
  return absl::OkStatus();
}

// 0 and 1 are the card's ways of leaving it to the layers.
absl::Status CheckAgainstCard(const ModelCard& card, const ModelVariant& variant,
                              const Network& network) {
  const auto differs = [&](const char* what, int said, int needed) {
    return absl::InvalidArgumentError(absl::StrCat("model '", card.name, "' says ", what, " ", said,
                                                   ", the layers need ", needed));
  };
  if (variant.scale != network.scale) return differs("scale", variant.scale, network.scale);
  if (card.pad_px != 0 && card.pad_px != network.pad_px) {
    return differs("pad_px", card.pad_px, network.pad_px);
  }
  if (card.align_px != 1 && card.align_px != network.align_px) {
    return differs("align_px", card.align_px, network.align_px);
  }
  return absl::OkStatus();
}

bool HasCard(const path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / std::string(kModelCardName), error);
}

}  // namespace

std::vector<path> FilesOf(const ModelVariant& variant) {
  std::vector<path> files = {variant.weights};
  if (ExtensionOf(variant.weights) == ".param") files.push_back(BinOf(variant.weights));
  return files;
}

std::string VariantName(const ModelCard& card, const ModelVariant& variant) {
  return absl::StrCat(card.name, "/", variant.weights.stem().string());
}

absl::Status CheckUnchanged(const ModelCard& card, const ModelVariant& variant) {
  if (variant.files_state == nullptr) return absl::OkStatus();
  const absl::StatusOr<std::string> state = FilesState(variant);
  if (state.ok() && *state == *variant.files_state) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model '", card.name, "': ", variant.weights.string(),
                   " has changed since the models were read; they must be reloaded"));
}

const ModelVariant* ModelCard::Find(int scale, int noise_level) const {
  for (const ModelVariant& variant : variants) {
    if (variant.scale == scale && variant.noise_level == noise_level) return &variant;
  }
  return nullptr;
}

std::vector<int> ModelCard::NoiseLevels() const {
  std::set<int> levels;
  for (const ModelVariant& variant : variants) levels.insert(variant.noise_level);
  return {levels.begin(), levels.end()};
}

std::vector<int> ModelCard::Scales() const {
  std::set<int> scales;
  for (const ModelVariant& variant : variants) scales.insert(variant.scale);
  return {scales.begin(), scales.end()};
}

int NativeScale(const ModelCard& card) {
  for (const int scale : card.Scales()) {
    if (scale > 1) return scale;
  }
  return 1;
}

absl::StatusOr<ModelRepository> ModelRepository::Open(const std::vector<path>& directories,
                                                      int64_t read_ahead_bytes) {
  return Open(directories, read_ahead_bytes, std::make_shared<BareFiles>());
}

absl::StatusOr<ModelRepository> ModelRepository::Open(const std::vector<path>& directories,
                                                      int64_t read_ahead_bytes,
                                                      std::shared_ptr<BareFiles> bare_files) {
  ModelRepository repository;
  repository.directories_ = directories;
  repository.bare_files_ = std::move(bare_files);
  repository.read_ahead_bytes_ = repository.read_ahead_left_ = read_ahead_bytes;
  for (const path& directory : directories) {
    std::error_code error;
    repository.open_.push_back(std::filesystem::canonical(directory, error));
  }
  for (const path& directory : directories) {
    repository.directory_ = directory;
    ASSIGN_OR_RETURN(const FileNames names, NamesInDirectory(directory));
    repository.AddAliases(directory / std::string(kAliasesName));
    repository.AddFiles(directory, names, 0);
  }
  std::ranges::stable_sort(repository.refused_, {}, &RefusedModel::name);
  repository.bare_files_->Prune();
  return repository;
}

void ModelRepository::AddAliases(const path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  const absl::StatusOr<std::string> json = ReadFile(file, kMaxAliasesBytes);
  if (!json.ok()) return Refuse(std::string(kAliasesName), json.status());
  const absl::StatusOr<AliasMap> aliases = ParseAliases(*json);
  if (!aliases.ok()) return Refuse(std::string(kAliasesName), OfFile(file, aliases.status()));
  aliases_.insert(aliases->begin(), aliases->end());
}

void ModelRepository::AddFolder(const path& folder, int depth) {
  std::error_code error;
  const path canonical = std::filesystem::canonical(folder, error);
  // Another directory of models, or one around this: a circle of links.
  if (std::find(open_.begin(), open_.end(), canonical) != open_.end()) return;
  const std::vector<VersionFolder> versions = ListVersions(folder);
  if (!versions.empty()) return AddVersions(folder, versions);
  if (HasCard(folder)) {
    absl::StatusOr<ModelCard> card = ReadModelCard(folder);
    if (!card.ok()) return RefuseEntry(folder, card.status());
    return AddCard(folder, *std::move(card));
  }
  if (depth > kMaxFolderDepth) {
    return Refuse(NameOf(folder), absl::InvalidArgumentError(absl::StrCat(
                                      folder.string(), ": lies ", depth,
                                      " folders deep, the limit is ", kMaxFolderDepth)));
  }
  open_.push_back(canonical);
  AddFiles(folder, FileNames::kOfFolder, depth);
  open_.pop_back();
}

void ModelRepository::AddFile(FoundFile& file) {
  if (!file.cards.ok()) return RefuseEntry(file.entry, file.cards.status());
  for (ModelCard& card : *file.cards) AddCard(file.entry, std::move(card));
}

void ModelRepository::AddFiles(const path& folder, FileNames names, int depth) {
  absl::StatusOr<std::vector<FoundFile>> files = ReadFolderFiles(folder, names, *bare_files_);
  const absl::StatusOr<std::vector<path>> entries = ListFolder(folder);
  if (!files.ok() || !entries.ok()) {
    return Refuse(NameOf(folder), files.ok() ? entries.status() : files.status());
  }
  std::vector<path> folders;
  for (const path& entry : *entries) {
    std::error_code error;
    // Hidden ones are being written: a fetched or replaced model.
    const bool hidden = entry.filename().string().starts_with('.');
    if (!hidden && std::filesystem::is_directory(entry, error)) folders.push_back(entry);
  }
  // For one name, a folder with a card wins over a file next to it, and that over a file farther
  // down.
  const auto others = std::stable_partition(folders.begin(), folders.end(), HasCard);
  const auto add = [&](const path& sub) { AddFolder(sub, depth + 1); };
  std::for_each(folders.begin(), others, add);
  for (FoundFile& file : *files) AddFile(file);
  std::for_each(others, folders.end(), add);
}

void ModelRepository::AddVersions(const path& folder, const std::vector<VersionFolder>& versions) {
  const std::string model = NameOf(folder);
  if (Knows(model)) return RefuseTaken(folder, model);  // no other's versions get its name
  entries_.try_emplace(model, folder);
  for (const VersionFolder& version : versions) {
    const std::string versioned = VersionName(model, version.number);
    const bool newest = version.number == versions.front().number;
    const std::string& name = newest ? model : versioned;
    absl::StatusOr<ModelCard> card = ReadVersion(version, *bare_files_);
    if (card.ok()) card->name = name;
    if (!card.ok()) {
      Refuse(name, card.status());
      continue;
    }
    AddCard(folder, *std::move(card));
    if (newest) aliases_.try_emplace(versioned, model);
  }
}

void ModelRepository::AddCard(const path& entry, ModelCard card) {
  if (!IsText(card.name)) {
    return Refuse(card.name, absl::InvalidArgumentError(absl::StrCat("the name ", Quote(card.name),
                                                                     " is no text in UTF-8")));
  }
  if (Knows(card.name)) return RefuseTaken(entry, card.name);
  std::vector<RefusedModel> refused;
  std::erase_if(card.variants, [&](ModelVariant& variant) {
    absl::Status noted = RecordFilesState(card, variant);
    if (!noted.ok()) refused.push_back({VariantName(card, variant), noted});
    return !noted.ok();
  });
  if (card.variants.empty()) return Refuse(card.name, refused.front().why);
  for (const RefusedModel& variant : refused) Refuse(variant.name, variant.why);
  LimitReadAhead(card);
  for (const std::string& alias : card.aliases) aliases_.try_emplace(alias, card.name);
  entries_.try_emplace(card.name, entry);
  models_.push_back(std::move(card));
}

void ModelRepository::LimitReadAhead(const ModelCard& card) {
  for (const ModelVariant& variant : card.variants) {
    std::error_code error;
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(variant.weights, error));
    if (variant.read_ahead->empty()) continue;
    if (bytes > read_ahead_left_) {
      variant.read_ahead->Drop();
    } else {
      read_ahead_left_ -= bytes;
    }
  }
}

void ModelRepository::DropReadAhead() const {
  for (const ModelCard& card : models_) {
    for (const ModelVariant& variant : card.variants) variant.read_ahead->Drop();
  }
}

void ModelRepository::Refuse(const std::string& name, const absl::Status& why) {
  RefusedModel refused{AsText(name), absl::Status(why.code(), AsText(std::string(why.message())))};
  if (!Knows(refused.name)) refused_.push_back(std::move(refused));
}

void ModelRepository::RefuseEntry(const path& entry, const absl::Status& why) {
  if (Knows(AsText(NameOf(entry)))) return RefuseTaken(entry, NameOf(entry));
  entries_.try_emplace(NameOf(entry), entry);
  Refuse(NameOf(entry), why);
}

void ModelRepository::RefuseTaken(const path& entry, const std::string& name) {
  const auto taken = entries_.find(name);
  // An earlier directory's wins it, by the rules of repositories.
  if (taken == entries_.end() || !IsBelow(taken->second, directory_)) return;
  if (taken->second == entry) return;  // two of one folder: its card says more
  Refuse(entry.lexically_relative(directory_).string(),
         absl::AlreadyExistsError(absl::StrCat(entry.string(), ": the name '", name,
                                               "' is that of ", taken->second.string())));
}

bool ModelRepository::Knows(std::string_view name) const {
  const auto named = [name](const auto& model) { return model.name == name; };
  return std::any_of(models_.begin(), models_.end(), named) ||
         std::any_of(refused_.begin(), refused_.end(), named);
}

absl::StatusOr<ModelRepository> ModelRepository::Reopen() const {
  ASSIGN_OR_RETURN(ModelRepository now, Open(directories_, read_ahead_bytes_,
                                             std::make_shared<BareFiles>(*bare_files_)));
  for (ModelCard& card : now.models_) {
    const auto before = Find(card.name);
    if (!before.ok()) continue;
    for (ModelVariant& variant : card.variants) {
      const ModelVariant* old = (*before)->Find(variant.scale, variant.noise_level);
      if (old != nullptr && old->weights == variant.weights &&
          old->architecture == variant.architecture && old->cell_px == variant.cell_px &&
          *old->files_state == *variant.files_state) {
        variant.files_state = old->files_state;
      }
    }
  }
  return now;
}

absl::StatusOr<const ModelCard*> ModelRepository::Find(std::string_view name) const {
  const auto alias = aliases_.find(name);
  if (alias != aliases_.end() && !Knows(name)) name = alias->second;
  std::vector<std::string> names;
  for (const ModelCard& card : models_) {
    if (card.name == name) return &card;
    names.push_back(card.name);
  }
  for (const RefusedModel& refused : refused_) {
    if (refused.name == name) return refused.why;
  }
  return UnknownModel(name, names);
}

absl::Status UnknownModel(std::string_view name, const std::vector<std::string>& names) {
  return absl::NotFoundError(absl::StrCat("no model '", ToAbsl(name), "', there are: ",
                                          names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

void KeepNetwork(const ModelVariant& variant, Network network) {
  if (variant.files_state == nullptr || variant.read_ahead == nullptr) return;
  variant.read_ahead->Keep(*variant.files_state, std::move(network));
}

absl::StatusOr<Network> LoadNetwork(const ModelCard& card, const ModelVariant& variant) {
  ReadAhead::MakeNetwork kept;
  if (variant.files_state != nullptr && variant.read_ahead != nullptr) {
    kept = variant.read_ahead->Take(*variant.files_state);
  }
  absl::StatusOr<Network> loaded =
      kept ? kept() : LoadNetworkFile(variant.weights, variant.architecture);
  RETURN_IF_ERROR(CheckUnchanged(card, variant));  // else any other error may be due to that
  ASSIGN_OR_RETURN(Network network, std::move(loaded));
  RETURN_IF_ERROR(CheckAgainstCard(card, variant, network));
  network.name = VariantName(card, variant);
  network.cell_px = variant.cell_px;
  return network;
}

}  // namespace upscaled
