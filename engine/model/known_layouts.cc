#include "engine/model/known_layouts.h"

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/read_file.h"

namespace upscaled {
namespace {

using std::filesystem::path;

// The scale and noise level that a file's name gives; nullopt for names outside the layouts.
std::optional<ModelVariant> VariantOf(const path& file) {
  static const std::regex* const kWaifu2x =
      new std::regex("(?:noise([0-3])_)?(scale2\\.0x_)?model\\.(?:param|json)");
  static const std::regex* const kRealcugan =
      new std::regex("up([234])x-(?:(conservative)|no-denoise|denoise([1-3])x)\\.param");
  const std::string name = file.filename().string();
  std::smatch match;
  ModelVariant variant{.weights = file};
  if (std::regex_match(name, match, *kWaifu2x) && (match[1].matched || match[2].matched)) {
    variant.scale = match[2].matched ? 2 : 1;
    variant.noise_level = match[1].matched ? std::stoi(match[1]) : kNoDenoise;
    return variant;
  }
  if (std::regex_match(name, match, *kRealcugan)) {
    variant.scale = std::stoi(match[1]);
    // "conservative" keeps the noise; "no-denoise" is the network of level 0.
    variant.noise_level = match[2].matched   ? kNoDenoise
                          : match[3].matched ? std::stoi(match[3])
                                             : 0;
    return variant;
  }
  return std::nullopt;
}

// The first of the words that the folder's name contains, else `otherwise`.
std::string FirstWordIn(const std::string& name, std::initializer_list<const char*> words,
                        const char* otherwise) {
  for (const char* word : words) {
    if (name.find(word) != std::string::npos) return word;
  }
  return otherwise;
}

}  // namespace

absl::StatusOr<std::optional<ModelCard>> RecogniseFolder(const path& folder) {
  ASSIGN_OR_RETURN(const std::vector<path> files, ListFolder(folder));
  ModelCard card;
  // Backwards: of one network in both formats the .param wins.
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    std::optional<ModelVariant> variant = VariantOf(*file);
    if (variant && card.Find(variant->scale, variant->noise_level) == nullptr) {
      card.variants.push_back(*std::move(variant));
    }
  }
  if (card.variants.empty()) return std::optional<ModelCard>();

  card.name = folder.filename().string();
  card.family = FirstWordIn(card.name, {"upconv_7", "cunet", "vgg_7", "realcugan"}, "waifu2x");
  card.style = FirstWordIn(card.name, {"photo", "art", "anime"}, "general");
  card.description = absl::StrCat(card.family, " weights, recognised by their file names");
  card.precisions = {Precision::kExact};
  return std::optional<ModelCard>(std::move(card));
}

}  // namespace upscaled
