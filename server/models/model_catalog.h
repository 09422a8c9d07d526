// The models that the server offers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/model/repository.h"

namespace upscaled::server {

struct CatalogEntry {
  const ModelCard* card;  // owned by the catalog's repository
  int halo_px;            // source pixels around a tile that its result depends on
};

// Immutable; thread safe. Must outlive the pointers that it gives out.
class ModelCatalog {
 public:
  // Loads one variant of each model and scale, to learn its halo and so that a broken model is
  // found at the start; they are not kept. NOT_FOUND when `default_model` is not among the models.
  static absl::StatusOr<ModelCatalog> Create(ModelRepository repository, std::string default_model);

  const std::vector<CatalogEntry>& entries() const { return entries_; }  // in order of name
  const std::string& default_model() const { return default_model_; }

  // Empty for the default. NOT_FOUND (kUnknownModel) lists the names there are.
  absl::StatusOr<const CatalogEntry*> Find(std::string_view name) const;

 private:
  ModelCatalog() = default;

  ModelRepository repository_;
  std::vector<CatalogEntry> entries_;
  std::string default_model_;
};

// Source pixels around a tile that its result depends on. A network with global pooling depends on
// the whole picture; what counts then is the border that it was trained with.
int HaloPx(const Network& network);

// What the model computes in a single pass when no size is asked for: its least scale above 1,
// or 1.
int NativeScale(const ModelCard& card);

}  // namespace upscaled::server
