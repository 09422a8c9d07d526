#include "engine/model/bare_models.h"

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/aliases.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/loader.h"
#include "engine/model/model_card.h"
#include "engine/model/of_file.h"
#include "engine/model/read_ahead.h"

namespace upscaled {
namespace {

using std::filesystem::path;

constexpr const char* kNetworks[] = {".onnx", ".param"};
constexpr const char* kWeights[] = {".pth", ".pt", ".ckpt", ".safetensors"};
// Models of other programs.
constexpr const char* kForeign[] = {".pkl", ".h5",  ".keras", ".tflite",     ".pb",  ".gguf",
                                    ".t7",  ".mnn", ".trt",   ".caffemodel", ".npz", ".mlmodel"};

template <size_t kSize>
bool IsOneOf(const char* const (&extensions)[kSize], const path& file) {
  return std::ranges::count(extensions, ExtensionOf(file)) > 0;
}

// An ncnn model's weights, named by its .param.
bool BelongsToParam(const path& bin) {
  for (const char* extension : {".param", ".PARAM"}) {
    std::error_code error;
    if (std::filesystem::exists(path(bin).replace_extension(extension), error)) return true;
  }
  return false;
}

// Other .json files are cards, aliases, or have nothing to do with models.
bool IsJsonModel(const path& file) {
  const std::string name = file.filename().string();
  if (ExtensionOf(file) != ".json" || name.ends_with(kModelCardName) || name == kAliasesName) {
    return false;
  }
  const absl::StatusOr<bool> network = IsNetworkFile(file);
  return network.ok() && *network;
}

enum class Kind { kOther, kNetwork, kWeights, kForeign };

Kind KindOf(const path& file) {
  if (IsOneOf(kNetworks, file) || IsJsonModel(file)) return Kind::kNetwork;
  if (IsOneOf(kWeights, file)) return Kind::kWeights;
  if (IsOneOf(kForeign, file)) return Kind::kForeign;
  return ExtensionOf(file) == ".bin" && !BelongsToParam(file) ? Kind::kWeights : Kind::kOther;
}

struct Recognised {
  std::string family, description;
};

// Both set the variant's scale, and keep the network read from the file in it.
absl::StatusOr<Recognised> RecogniseNetwork(const path& file, std::string state,
                                            ModelVariant& variant) {
  ASSIGN_OR_RETURN(Network network, LoadNetworkFile(file));
  variant.scale = network.scale;
  const size_t layers = network.layers.size() - 1;
  variant.read_ahead->Keep(std::move(state), std::move(network));
  const std::string extension = ExtensionOf(file);
  const char* const family = extension == ".onnx"    ? "onnx"
                             : extension == ".param" ? "ncnn"
                                                     : "waifu2x";
  return Recognised{family, absl::StrCat(layers, " layers of a bare ",
                                         extension == ".onnx" ? "ONNX" : family, " file")};
}

absl::StatusOr<Recognised> RecogniseWeights(const path& file, std::string state,
                                            ModelVariant& variant) {
  ASSIGN_OR_RETURN(const std::shared_ptr<TensorFile> tensors, OpenWeightsFile(file));
  const std::string architecture = variant.architecture;
  ASSIGN_OR_RETURN(const WeightsDescription weights,
                   OfFile(file, DescribeWeights(*tensors, architecture)));
  variant.scale = weights.scale;
  variant.read_ahead->Keep(std::move(state), [tensors, file, architecture] {
    return OfFile(file, BuildNetwork(*tensors, architecture));
  });
  return Recognised{weights.architecture,
                    absl::StrCat(weights.tensors, " tensors of ", file.filename().string(),
                                 architecture.empty() ? ", recognised by their names and shapes as "
                                                      : ", which its card says are of ",
                                 weights.architecture)};
}

// Returns the state of all files of the variant, and of the card next to them.
absl::StatusOr<std::string> StateOf(const ModelVariant& variant, std::string& files_state) {
  std::vector<std::string> states;
  for (const path& part : FilesOf(variant)) {
    ASSIGN_OR_RETURN(states.emplace_back(), FileState(part));
  }
  files_state = absl::StrJoin(states, " ");
  return absl::StrCat(files_state, " ", FileState(CardBeside(variant.weights)).value_or("none"));
}

}  // namespace

bool IsBareModel(const path& file) { return IsOneOf(kNetworks, file) || IsOneOf(kWeights, file); }

absl::StatusOr<std::vector<ModelCard>> RecogniseFile(const path& file, BareFiles& known) {
  const Kind kind = KindOf(file);
  if (kind == Kind::kOther) return std::vector<ModelCard>();
  if (kind == Kind::kForeign) {
    return absl::UnimplementedError(absl::StrCat(
        file.string(), ": ", ExtensionOf(file), " files are not supported; supported are ",
        absl::StrJoin(kWeights, ", "), ", ", absl::StrJoin(kNetworks, ", ")));
  }
  ModelVariant variant{.weights = file, .read_ahead = std::make_shared<ReadAhead>()};
  std::string files_state;
  ASSIGN_OR_RETURN(const std::string state, StateOf(variant, files_state));
  if (const ModelCard* card = known.Find(file, state)) return std::vector<ModelCard>{*card};
  ASSIGN_OR_RETURN(BareModelCard beside, ReadCardBeside(file));
  ModelCard card = std::move(beside.card);
  card.name = file.stem().string();
  variant.architecture = beside.architecture;
  variant.cell_px = beside.cell_px;
  ASSIGN_OR_RETURN(const Recognised recognised, kind == Kind::kNetwork
                                                    ? RecogniseNetwork(file, files_state, variant)
                                                    : RecogniseWeights(file, files_state, variant));
  card.variants.push_back(std::move(variant));
  if (card.family.empty()) card.family = recognised.family;
  if (card.description.empty()) card.description = recognised.description;
  known.Add(file, state, card);
  return std::vector<ModelCard>{std::move(card)};
}

}  // namespace upscaled
