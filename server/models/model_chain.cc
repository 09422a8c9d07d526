#include "server/models/model_chain.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "engine/base/check.h"

namespace upscaled::server {

std::string ModelChain::name() const {
  return absl::StrJoin(cards_, ",", [](std::string* out, const ModelCard* card) {
    absl::StrAppend(out, card->name);
  });
}

std::vector<int> ModelChain::NoiseLevels() const {
  std::set<int> levels;
  for (const ModelCard* card : cards_) {
    for (const int level : card->NoiseLevels()) levels.insert(level);
  }
  return {levels.begin(), levels.end()};
}

const CatalogEntry& ModelChain::EntryOf(const ModelCard& card) const {
  const auto found =
      std::ranges::find_if(links_, [&card](const auto& link) { return link->card == &card; });
  UPSCALED_CHECK(found != links_.end());
  return **found;
}

Precision ModelChain::default_precision() const {
  const Precision first = links_.front()->default_precision;
  const bool all = std::ranges::all_of(
      links_, [first](const auto& link) { return link->default_precision == first; });
  return all ? first : Precision::kExact;
}

}  // namespace upscaled::server
