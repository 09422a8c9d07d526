// The model.json of a model's folder, or next to a bare file. Fields: docs/models.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/repository.h"

namespace upscaled {

inline constexpr std::string_view kModelCardName = "model.json";

inline constexpr int kMaxVersion = 1'000'000;

// The card of the model in `folder`; it must carry the folder's name; of a version of it, in a
// folder of the model's, the model's name and no other version. Only its text is looked at, not
// whether the weights exist. INVALID_ARGUMENT names the field and its fault.
absl::StatusOr<ModelCard> ParseModelCard(std::string_view json, const std::filesystem::path& folder,
                                         std::optional<int> version = std::nullopt);

// The same from the folder's model.json; errors name the file.
absl::StatusOr<ModelCard> ReadModelCard(const std::filesystem::path& folder,
                                        std::optional<int> version = std::nullopt);

// A card for a file with a whole model, with the facts missing in the file: NAME.model.json next to
// NAME.pth. Any of a card's fields except files and sizes.
struct BareModelCard {
  ModelCard card;  // without name and variants; of what is not said, empty
  std::string architecture;
  int cell_px = kDefaultCellPx;
};

std::filesystem::path CardBeside(std::filesystem::path model);

// Empty without such a file. Errors as ReadModelCard.
absl::StatusOr<BareModelCard> ReadCardBeside(const std::filesystem::path& model);

}  // namespace upscaled
