// The models of one request, to be run one after the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/models/model_catalog.h"

namespace upscaled::server {

// Most models of a request.
inline constexpr size_t kMaxChainLength = 8;

// At least one model, all of one listing. It keeps the listing.
class ModelChain {
 public:
  explicit ModelChain(std::vector<std::shared_ptr<const CatalogEntry>> links)
      : links_(std::move(links)) {
    for (const auto& link : links_) cards_.push_back(link->card);
  }

  const std::vector<std::shared_ptr<const CatalogEntry>>& links() const { return links_; }
  const std::vector<const ModelCard*>& cards() const { return cards_; }
  // The models' own names, as a request may give them again: "1x-dejpg,4x-foo".
  std::string name() const;
  // Noise levels of any of the models; ascending, without duplicates.
  std::vector<int> NoiseLevels() const;
  // The entry of one of the chain's cards.
  const CatalogEntry& EntryOf(const ModelCard& card) const;
  // Returns the precision of requests without one: one for all models, so exact unless each of them
  // has another.
  Precision default_precision() const;

 private:
  std::vector<std::shared_ptr<const CatalogEntry>> links_;
  std::vector<const ModelCard*> cards_;
};

}  // namespace upscaled::server
