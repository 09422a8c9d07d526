#include "engine/model/bare_files.h"

#include <utility>

namespace upscaled {

const ModelCard* BareFiles::Find(const std::filesystem::path& file, const std::string& state) {
  const auto known = known_.find(file);
  if (known == known_.end() || known->second.state != state) return nullptr;
  known->second.listed = true;
  return &known->second.card;
}

void BareFiles::Add(const std::filesystem::path& file, std::string state, const ModelCard& card) {
  Known& known = known_[file] = {std::move(state), card};
  for (ModelVariant& variant : known.card.variants) variant.read_ahead = nullptr;
}

void BareFiles::Prune() {
  std::erase_if(known_, [](const auto& known) { return !known.second.listed; });
  for (auto& [file, known] : known_) known.listed = false;
}

}  // namespace upscaled
