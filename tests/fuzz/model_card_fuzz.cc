// Any bytes as the model.json of a folder named "m".
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "engine/model/model_card.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::filesystem::path folder = "/models/m";
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto card = upscaled::ParseModelCard(text, folder);
  if (!card.ok()) return 0;
  if (card->name != "m" || card->variants.empty() || card->precisions.empty()) std::abort();
  for (const upscaled::ModelVariant& variant : card->variants) {
    // No card leads out of its folder.
    if (variant.weights.lexically_normal().parent_path() != folder) std::abort();
    if (card->Find(variant.scale, variant.noise_level) != &variant) std::abort();
  }
  return 0;
}
