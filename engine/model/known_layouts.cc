#include "engine/model/known_layouts.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/loader.h"
#include "engine/model/model_card.h"
#include "engine/model/of_file.h"
#include "engine/model/read_ahead.h"

namespace upscaled {
namespace {

using std::filesystem::path;

struct KnownFile {
  std::string model;  // empty: the folder's name
  ModelVariant variant;
};

// The file that a name stands for; nullopt for names outside the layouts.
std::optional<KnownFile> Recognise(const path& file) {
  static const std::regex* const kWaifu2x =
      new std::regex("(?:noise([0-3])_)?(scale2\\.0x_)?model\\.(?:param|json)");
  static const std::regex* const kRealcugan =
      new std::regex("up([234])x-(?:(conservative)|no-denoise|denoise([1-3])x)\\.param");
  static const std::regex* const kRealesrganScales =
      new std::regex("(realesr-[a-z0-9]+)-x([234])\\.param");
  static const std::regex* const kRealesrgan =
      new std::regex("(realesr(?:gan|net)-x([24])plus(?:-[a-z0-9]+)?)\\.param");
  const std::string name = file.filename().string();
  std::smatch match;
  KnownFile known{.variant = {.weights = file}};
  ModelVariant& variant = known.variant;
  if (std::regex_match(name, match, *kWaifu2x) && (match[1].matched || match[2].matched)) {
    variant.scale = match[2].matched ? 2 : 1;
    variant.noise_level = match[1].matched ? std::stoi(match[1]) : kNoDenoise;
    return known;
  }
  if (std::regex_match(name, match, *kRealcugan)) {
    variant.scale = std::stoi(match[1]);
    // "conservative" keeps the noise; "no-denoise" is the network of level 0.
    variant.noise_level = match[2].matched   ? kNoDenoise
                          : match[3].matched ? std::stoi(match[3])
                                             : 0;
    return known;
  }
  if (std::regex_match(name, match, *kRealesrganScales) ||
      std::regex_match(name, match, *kRealesrgan)) {
    known.model = match[1];
    variant.scale = std::stoi(match[2]);
    return known;
  }
  return std::nullopt;
}

// The first of the words that the model's name contains, else `otherwise`.
std::string FirstWordIn(const std::string& name, std::initializer_list<const char*> words,
                        const char* otherwise) {
  for (const char* word : words) {
    if (name.find(word) != std::string::npos) return word;
  }
  return otherwise;
}

struct Recognised {
  std::string family, description;
};

// Set the variant's scale, and keep in it what was read of the file.
absl::StatusOr<Recognised> RecogniseOnnx(const path& file, std::string state,
                                         ModelVariant& variant) {
  ASSIGN_OR_RETURN(Network network, LoadNetworkFile(file));
  variant.scale = network.scale;
  const size_t layers = network.layers.size() - 1;
  variant.read_ahead->Keep(std::move(state), std::move(network));
  return Recognised{"onnx", absl::StrCat(layers, " layers of a bare ONNX file")};
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

ModelCard Describe(const std::string& name) {
  ModelCard card;
  card.name = name;
  card.family =
      FirstWordIn(name, {"upconv_7", "cunet", "vgg_7", "realcugan", "realesr"}, "waifu2x");
  card.style = FirstWordIn(name, {"photo", "art", "anime"}, "general");
  card.description = absl::StrCat(card.family, " weights, recognised by their file names");
  card.precisions = {Precision::kExact};
  if (card.family == "upconv_7") card.precisions.push_back(Precision::kFast);  // was tried
  return card;
}

}  // namespace

absl::StatusOr<std::vector<ModelCard>> RecogniseFolder(const path& folder) {
  ASSIGN_OR_RETURN(const std::vector<path> files, ListFolder(folder));
  std::vector<ModelCard> cards;
  // Backwards: of one network in both formats the .param wins.
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    std::optional<KnownFile> known = Recognise(*file);
    if (!known) continue;
    const std::string name = known->model.empty() ? folder.filename().string() : known->model;
    auto card = std::find_if(cards.begin(), cards.end(),
                             [&name](const ModelCard& c) { return c.name == name; });
    if (card == cards.end()) card = cards.insert(cards.end(), Describe(name));
    const ModelVariant& variant = known->variant;
    if (card->Find(variant.scale, variant.noise_level) == nullptr) {
      card->variants.push_back(variant);
    }
  }
  return cards;
}

bool IsBareModel(const path& file) {
  constexpr std::string_view kExtensions[] = {".pth", ".pt", ".ckpt", ".safetensors", ".onnx"};
  return std::find(std::begin(kExtensions), std::end(kExtensions), file.extension().string()) !=
         std::end(kExtensions);
}

absl::StatusOr<std::vector<ModelCard>> RecogniseFile(const path& file, BareFiles& known) {
  if (!IsBareModel(file)) return std::vector<ModelCard>();
  ASSIGN_OR_RETURN(const std::string state, FileState(file));
  const std::string card_state = FileState(CardBeside(file)).value_or("none");
  const std::string both = absl::StrCat(state, " ", card_state);
  if (const ModelCard* card = known.Find(file, both)) return std::vector<ModelCard>{*card};
  ASSIGN_OR_RETURN(BareModelCard beside, ReadCardBeside(file));
  ModelCard card = std::move(beside.card);
  card.name = file.stem().string();
  card.variants.push_back({.weights = file,
                           .architecture = beside.architecture,
                           .read_ahead = std::make_shared<ReadAhead>()});
  ASSIGN_OR_RETURN(const Recognised recognised,
                   file.extension() == ".onnx" ? RecogniseOnnx(file, state, card.variants[0])
                                               : RecogniseWeights(file, state, card.variants[0]));
  if (card.family.empty()) card.family = recognised.family;
  if (card.description.empty()) card.description = recognised.description;
  known.Add(file, both, card);
  return std::vector<ModelCard>{std::move(card)};
}

}  // namespace upscaled
