#include "engine/model/known_layouts.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/model_card.h"

namespace upscaled {
namespace {

using std::filesystem::path;

struct KnownFile {
  std::string model;  // empty: the folder's name
  ModelVariant variant;
};

// The file of a name; nullopt for names outside the layouts.
std::optional<KnownFile> Recognise(const path& file, FileNames names) {
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
  const bool of_folder = names == FileNames::kOfFolder;
  if (of_folder && std::regex_match(name, match, *kWaifu2x) &&
      (match[1].matched || match[2].matched)) {
    variant.scale = match[2].matched ? 2 : 1;
    variant.noise_level = match[1].matched ? std::stoi(match[1]) : kNoDenoise;
    return known;
  }
  if (of_folder && std::regex_match(name, match, *kRealcugan)) {
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

// The first of the words in the model's name, or `otherwise`.
std::string FirstWordIn(const std::string& name, std::initializer_list<const char*> words,
                        const char* otherwise) {
  for (const char* word : words) {
    if (name.find(word) != std::string::npos) return word;
  }
  return otherwise;
}

// Also of "." and of a path with a slash at its end.
std::string FolderName(const path& folder) {
  const path name = folder.filename();
  if (!name.empty() && name != "." && name != "..") return name;
  std::error_code error;
  return std::filesystem::canonical(folder, error).filename();
}

// The model's card, with the fields of NAME.model.json in its folder.
absl::StatusOr<ModelCard> Describe(const path& folder, const std::string& name) {
  ASSIGN_OR_RETURN(BareModelCard beside, ReadCardBeside(folder / (name + ".param")));
  ModelCard card = std::move(beside.card);
  card.name = name;
  if (card.family.empty()) {
    card.family =
        FirstWordIn(name, {"upconv_7", "cunet", "vgg_7", "realcugan", "realesr"}, "waifu2x");
  }
  if (card.style == "general") {
    card.style = FirstWordIn(name, {"photo", "art", "anime"}, "general");
  }
  if (card.description.empty()) {
    card.description = absl::StrCat(card.family, " weights, recognised by their file names");
  }
  const bool tried = card.family == "upconv_7";
  if (tried && card.precisions.size() == 1) card.precisions.push_back(Precision::kFast);
  return card;
}

}  // namespace

absl::StatusOr<FileNames> NamesInDirectory(const path& directory) {
  ASSIGN_OR_RETURN(const std::vector<path> files, ListFolder(directory));
  const auto shared = std::ranges::count_if(files, [](const path& file) {
    const std::optional<KnownFile> known = Recognise(file, FileNames::kOfFolder);
    return known.has_value() && known->model.empty();
  });
  return shared > 1 ? FileNames::kOfFolder : FileNames::kOwn;
}

bool IsKnownFile(const path& file, FileNames names) { return Recognise(file, names).has_value(); }

absl::StatusOr<std::vector<ModelCard>> RecogniseFolder(const path& folder, FileNames names) {
  ASSIGN_OR_RETURN(const std::vector<path> files, ListFolder(folder));
  std::vector<ModelCard> cards;
  // Backwards: of one network in both formats the .param wins.
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    std::optional<KnownFile> known = Recognise(*file, names);
    if (!known) continue;
    const std::string name = known->model.empty() ? FolderName(folder) : known->model;
    auto card = std::find_if(cards.begin(), cards.end(),
                             [&name](const ModelCard& c) { return c.name == name; });
    if (card == cards.end()) {
      ASSIGN_OR_RETURN(ModelCard described, Describe(folder, name));
      card = cards.insert(cards.end(), std::move(described));
    }
    const ModelVariant& variant = known->variant;
    if (card->Find(variant.scale, variant.noise_level) == nullptr) {
      card->variants.push_back(variant);
    }
  }
  return cards;
}

}  // namespace upscaled
