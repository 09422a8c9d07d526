// The models of a directory: one folder per model, a model.json card (or a known public layout)
// next to its weights, or one of these for each version; or a file with only weights that is
// recognised by itself. Cards are read at once, weights when a network is asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/aliases.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"
#include "engine/model/read_ahead.h"

namespace upscaled {

inline constexpr int kNoDenoise = -1;  // noise level: leave the noise alone

// One set of weights of a model.
struct ModelVariant {
  int scale = 2;                  // 1: denoise only
  int noise_level = kNoDenoise;   // -1, 0..3
  std::filesystem::path weights;  // the file that the loader opens (ncnn: the .param)
  // For a file of weights only, if its tensors shall not say (see LoadNetworkFile).
  std::string architecture;
  int cell_px = kDefaultCellPx;  // Network::cell_px
  // The files' state when they were listed (see FileState). The same object in all listings of the
  // same files: a holder knows when no listing has it any more. Null: no matter.
  std::shared_ptr<const std::string> files_state;
  // The network, where they had to be read to list them: LoadNetwork takes it. May be null.
  std::shared_ptr<ReadAhead> read_ahead;
};

struct ModelCard {
  std::string name;    // the folder's or the file's name; what requests ask for
  std::string family;  // "upconv_7", "espcn", ...
  std::string style;   // "art", "photo", "general"
  std::string licence;
  std::string description;
  std::vector<std::string> aliases;  // as the card has them; see ModelRepository::aliases
  int version = 1;
  int pad_px = 0;    // 0: as the layers need, which may differ between variants
  int align_px = 1;  // 1: likewise
  std::vector<ModelVariant> variants;
  std::vector<Precision> precisions;

  // The variant with this scale and noise level, or null.
  const ModelVariant* Find(int scale, int noise_level) const;
  std::vector<int> NoiseLevels() const;  // ascending, without duplicates
  std::vector<int> Scales() const;
};

// One network of a chain, of the model's variants. Borrows both.
struct ModelPass {
  const ModelCard* model;
  const ModelVariant* variant;
};

// The model's scale in a single pass, for requests without a size: its minimum above 1, or 1.
int NativeScale(const ModelCard& card);

// A file or folder in a model's place, but not a valid model.
struct RefusedModel {
  std::string name;  // the folder's or the file's, in valid UTF-8
  absl::Status why;  // likewise; names the file
};

struct VersionFolder;  // engine/model/versions.h
class BareFiles;       // engine/model/bare_files.h
struct FoundFile;      // engine/model/folder_files.h
enum class FileNames;  // engine/model/known_layouts.h

// Immutable after Open; thread safe.
class ModelRepository {
 public:
  // Reads the models in each directory and its folders, earlier directories winning a name. A
  // broken folder is refused, and so are a file that cannot be run, one whose name another of the
  // directory has, and a variant without its files: the others are served, but nothing else gets
  // its name. Files that are no models are passed over. NOT_FOUND when a directory cannot be read.
  // `read_ahead_bytes`: of files to be read, at most, kept until LoadNetwork or DropReadAhead.
  static absl::StatusOr<ModelRepository> Open(const std::vector<std::filesystem::path>& directories,
                                              int64_t read_ahead_bytes = 0);
  // The folder as it is now. Variants with unchanged files share their `files_state`; unchanged
  // bare files are not read.
  absl::StatusOr<ModelRepository> Reopen() const;
  void DropReadAhead() const;

  const std::vector<std::filesystem::path>& directories() const { return directories_; }
  const std::vector<ModelCard>& models() const { return models_; }
  const std::vector<RefusedModel>& refused() const { return refused_; }
  // Other names, of the directories' aliases.json and of cards; the first that has one wins it. Not
  // all of them need stand for a model that there is.
  const AliasMap& aliases() const { return aliases_; }
  // By name or alias. NOT_FOUND lists the names there are. For a refused model: why it is.
  absl::StatusOr<const ModelCard*> Find(std::string_view name) const;

 private:
  static absl::StatusOr<ModelRepository> Open(const std::vector<std::filesystem::path>& directories,
                                              int64_t read_ahead_bytes,
                                              std::shared_ptr<BareFiles> bare_files);
  // Whether a model has the name, refused or not.
  bool Knows(std::string_view name) const;
  void AddAliases(const std::filesystem::path& file);
  // A model with a card or versions, else the models in it, `depth` folders below the directory.
  void AddFolder(const std::filesystem::path& folder, int depth);
  // The models of the folder's files, and then of its folders.
  void AddFile(FoundFile& file);
  void AddFiles(const std::filesystem::path& folder, FileNames names, int depth);
  // The newest is the model, the others have names of their own; each is refused by itself.
  void AddVersions(const std::filesystem::path& folder, const std::vector<VersionFolder>& versions);
  // Or refuses it. `entry`: the file or folder it was found in.
  void AddCard(const std::filesystem::path& entry, ModelCard card);
  // Drops what was read ahead of the files where it is too much.
  void LimitReadAhead(const ModelCard& card);
  void Refuse(const std::string& name, const absl::Status& why);
  void RefuseEntry(const std::filesystem::path& entry, const absl::Status& why);
  // By its path, as its name is another's, unless an earlier directory has that.
  void RefuseTaken(const std::filesystem::path& entry, const std::string& name);

  std::vector<std::filesystem::path> directories_;
  std::filesystem::path directory_;  // that is being read
  // The directories, and the folders around the one being read; without links.
  std::vector<std::filesystem::path> open_;
  std::map<std::string, std::filesystem::path> entries_;  // by name, of all models
  std::vector<ModelCard> models_;
  std::vector<RefusedModel> refused_;
  AliasMap aliases_;
  std::shared_ptr<BareFiles> bare_files_;
  int64_t read_ahead_bytes_ = 0, read_ahead_left_ = 0;
};

// NOT_FOUND, with the `names` there are.
absl::Status UnknownModel(std::string_view name, const std::vector<std::string>& names);

// Keeps the network for the next LoadNetwork of these files.
void KeepNetwork(const ModelVariant& variant, Network network);

// Returns the name of one network among those of all models: "cunet/noise1_model".
std::string VariantName(const ModelCard& card, const ModelVariant& variant);

// The files of the variant's network, in order.
std::vector<std::filesystem::path> FilesOf(const ModelVariant& variant);

// FAILED_PRECONDITION: the files have changed since their listing.
absl::Status CheckUnchanged(const ModelCard& card, const ModelVariant& variant);

// Loads and validates one variant's weights. INVALID_ARGUMENT also when scale, pad_px or align_px
// differ from the card's; FAILED_PRECONDITION when the files are not what they were when they were
// listed, or changed while they were read.
absl::StatusOr<Network> LoadNetwork(const ModelCard& card, const ModelVariant& variant);

}  // namespace upscaled
