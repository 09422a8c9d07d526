// The models that the server offers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/model/repository.h"
#include "server/models/model_cache.h"

namespace upscaled::server {

// Who holds one keeps its listing: the request that began with it ends with it.
struct CatalogEntry {
  const ModelCard* card;
  int halo_px;  // source pixels around a tile that its result depends on
};

// What a reload found, by name.
struct ReloadReport {
  std::vector<std::string> added;
  std::vector<std::string> changed;
  std::vector<std::string> removed;
  std::vector<std::string> unchanged;
};

// Thread safe.
class ModelCatalog {
 public:
  // Loads one variant of each model and scale, to learn its halo and so that a broken model is
  // found at the start; they are not kept. NOT_FOUND when `default_model` is not among the models.
  static absl::StatusOr<ModelCatalog> Create(ModelRepository repository, std::string default_model);
  ModelCatalog(ModelCatalog&&) noexcept;
  ~ModelCatalog();

  std::vector<std::shared_ptr<const CatalogEntry>> entries() const;  // in order of name
  const std::string& default_model() const;

  // Empty for the default. NOT_FOUND (kUnknownModel) lists the names there are.
  absl::StatusOr<std::shared_ptr<const CatalogEntry>> Find(std::string_view name) const;

  // Reads the directories again. What `cache` has compiled of a model that changed is compiled anew
  // first; only when everything is ready does the new listing take the old one's place, at once and
  // as a whole. Takes as long as loading the changed models.
  // FAILED_PRECONDITION (kReloadFailed) names the model and what is wrong with it, ABORTED: another
  // reload is under way. Then nothing has changed.
  absl::StatusOr<ReloadReport> Reload(ModelCache& cache);

 private:
  struct Listing;
  struct State;

  static absl::StatusOr<std::shared_ptr<const Listing>> List(ModelRepository repository,
                                                             const std::string& default_model,
                                                             const Listing* before);
  static absl::StatusOr<std::shared_ptr<const CatalogEntry>> FindIn(
      const std::shared_ptr<const Listing>& listing, std::string_view name);
  explicit ModelCatalog(std::unique_ptr<State> state);
  std::shared_ptr<const Listing> listing() const;
  absl::StatusOr<ReloadReport> ReloadAlone(ModelCache& cache);

  std::unique_ptr<State> state_;
};

// Source pixels around a tile that its result depends on. A network with global pooling depends on
// the whole picture; what counts then is the border that it was trained with.
int HaloPx(const Network& network);

// What the model computes in a single pass when no size is asked for: its least scale above 1,
// or 1.
int NativeScale(const ModelCard& card);

}  // namespace upscaled::server
