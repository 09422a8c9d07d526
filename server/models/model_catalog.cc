#include "server/models/model_catalog.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/shapes.h"
#include "server/admission/error.h"

namespace upscaled::server {

int HaloPx(const Network& network) {
  const std::vector<bool> per_picture = IsPerPicture(network);
  if (std::find(per_picture.begin(), per_picture.end(), true) != per_picture.end()) {
    return network.pad_px;
  }
  // A tile far from all borders, at a position that suits any alignment.
  constexpr int kFar = 1 << 14, kTile = 1 << 8;
  const Rect tile{kFar, kFar, kTile, kTile};
  const Size image{2 * kFar + kTile, 2 * kFar + kTile};
  const Rect needed = SourceRect(network, LayerRegions(network, image, tile, {}).front(), image);
  return std::max({tile.x - needed.x, tile.y - needed.y, needed.right() - tile.right(),
                   needed.bottom() - tile.bottom()});
}

int NativeScale(const ModelCard& card) {
  int native = 0;
  for (const int scale : card.Scales()) {
    if (scale > 1 && (native == 0 || scale < native)) native = scale;
  }
  return std::max(native, 1);
}

absl::StatusOr<ModelCatalog> ModelCatalog::Create(ModelRepository repository,
                                                  std::string default_model) {
  ModelCatalog catalog;
  catalog.repository_ = std::move(repository);
  catalog.default_model_ = std::move(default_model);
  for (const ModelCard& card : catalog.repository_.models()) {
    int halo_px = 0;
    for (const int scale : card.Scales()) {
      const ModelVariant& variant = *std::find_if(
          card.variants.begin(), card.variants.end(),
          [scale](const ModelVariant& candidate) { return candidate.scale == scale; });
      ASSIGN_OR_RETURN(const Network network, LoadNetwork(card, variant));
      halo_px = std::max(halo_px, HaloPx(network));
    }
    catalog.entries_.push_back({&card, halo_px});
  }
  std::sort(
      catalog.entries_.begin(), catalog.entries_.end(),
      [](const CatalogEntry& a, const CatalogEntry& b) { return a.card->name < b.card->name; });
  RETURN_IF_ERROR(catalog.Find("").status());
  return catalog;
}

absl::StatusOr<const CatalogEntry*> ModelCatalog::Find(std::string_view name) const {
  absl::StatusOr<const ModelCard*> card = repository_.Find(name.empty() ? default_model_ : name);
  if (!card.ok()) return WithReason(card.status(), ErrorReason::kUnknownModel);
  return &*std::find_if(entries_.begin(), entries_.end(),
                        [&card](const CatalogEntry& entry) { return entry.card == *card; });
}

}  // namespace upscaled::server
