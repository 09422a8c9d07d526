// The models of the server.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"
#include "server/models/model_cache.h"

namespace upscaled::server {

// A holder keeps its listing: a request ends with the listing it began with.
struct CatalogEntry {
  const ModelCard* card;
  int halo_px = 0;  // source pixels around a tile that its result depends on
  Precision default_precision = Precision::kExact;  // for requests that name none
  // Figures of its network of the native scale (see NativeScale).
  double macs_per_pixel = 0;              // multiply-adds per result pixel, of the direct algorithm
  int64_t weight_bytes = 0;               // in fp32
  int64_t memory_bytes = 0;               // see MemoryProbe; in the default precision
  std::string architecture = {};          // Network::architecture
  int input_channels = 3;                 // Network::input_channels
  std::vector<std::string> aliases = {};  // other names of it, in order
};

class ModelChain;  // server/models/model_chain.h

// The outcome of a reload, by name.
struct ReloadReport {
  std::vector<std::string> added;
  std::vector<std::string> changed;
  std::vector<std::string> removed;
  std::vector<std::string> unchanged;
};

// Whether a network runs in a precision, on any device: OK or why not; UNAVAILABLE, an error of the
// whole listing, if there is nothing to try it on.
using PrecisionProbe = std::function<absl::Status(const Network& network, Precision precision)>;

// Bytes of a running network on the devices; 0: not known before. May be null.
using MemoryProbe = std::function<int64_t(const Network& network, Precision precision)>;

// Thread safe.
class ModelCatalog {
 public:
  static constexpr char kOwnDefault[] = "general-2x";  // among the bundled models

  struct Options {
    // A model's name or alias; empty: the alias "default" of the repositories, else kOwnDefault.
    std::string default_model = {};
    // As cards have them, in either case, or "unstated"; models of others are refused. Empty: any.
    std::vector<std::string> allowed_licences = {};
    // For requests without one, if the model has it; other models run in kExact.
    Precision default_precision = Precision::kExact;
    // Is called with each model in kExact instead, and the cause. May be null.
    std::function<void(const std::string& model, const absl::Status& why)> on_exact = nullptr;
    // Is called with each refused model, and the cause, at each listing. May be null.
    std::function<void(const std::string& model, const absl::Status& why)> on_refused = nullptr;
  };

  // Loads one variant of each model and scale, to learn its halo and precision and to find and
  // refuse a broken model at the start; they are not kept. A model loses only its unloadable
  // variants. They are refused by VariantName. NOT_FOUND when `default_model` is not among the
  // models; why it is refused, when it is. `try_precision` is asked about `default_precision`
  // unless it is kExact.
  static absl::StatusOr<ModelCatalog> Create(ModelRepository repository, Options options,
                                             const PrecisionProbe& try_precision,
                                             const MemoryProbe& plan_memory = nullptr);
  ModelCatalog(ModelCatalog&&) noexcept;
  ~ModelCatalog();

  std::vector<std::shared_ptr<const CatalogEntry>> entries() const;  // in order of name
  // Refused files among the models; their messages say `WithoutDirectories`.
  std::vector<RefusedModel> refused() const;
  std::string default_model() const;  // its name

  // By name or alias; empty, or "default", for the default. NOT_FOUND (kUnknownModel) lists the
  // names there are, or says why the model is refused.
  absl::StatusOr<std::shared_ptr<const CatalogEntry>> Find(std::string_view name) const;

  // By the names or aliases of one or several models, with commas in between: "1x-dejpg,4x-foo". A
  // model with a comma in its own name is found first. Errors as Find; INVALID_ARGUMENT
  // (kInvalidOption) for more than kMaxChainLength models, or an empty name among several.
  absl::StatusOr<ModelChain> FindChain(std::string_view names) const;

  // Tells that `cost` multiply-adds of the model's networks took `busy` of one stream.
  void RecordRun(const std::string& model, absl::Duration busy, int64_t cost);
  // Recent time to compute a megapixel of output at the native scale on one stream. nullopt until
  // the model has run.
  std::optional<absl::Duration> TimePerMegapixel(const CatalogEntry& entry) const;

  // `message` with paths from the models' folders on.
  std::string WithoutDirectories(std::string message) const;

  // The right to reload and to change a reload's files; one has it at a time. The catalog outlives
  // it.
  class Turn;
  // ABORTED (kReloadFailed): another has it.
  absl::StatusOr<Turn> TryTurn();
  // Waits for running reloads.
  Turn AwaitTurn();

  // Rereads the directories. First recompiles the changed models in `caches`. Only when all of them
  // are ready does it replace the listing, at once and as a whole. Takes as long as loading the
  // changed models. FAILED_PRECONDITION (kReloadFailed): a served model would now be refused. The
  // error names it and the reason, and nothing has changed.
  absl::StatusOr<ReloadReport> Reload(const Turn& turn, std::span<ModelCache* const> caches,
                                      const PrecisionProbe& try_precision,
                                      const MemoryProbe& plan_memory = nullptr);

 private:
  struct Listing;
  struct State;

  static absl::StatusOr<std::shared_ptr<const Listing>> List(
      ModelRepository repository, const Options& options, const PrecisionProbe& try_precision,
      const MemoryProbe& plan_memory, const Listing* before, const std::set<std::string>& loaded);
  static absl::StatusOr<std::shared_ptr<const CatalogEntry>> FindIn(
      const std::shared_ptr<const Listing>& listing, std::string_view name);
  // Names aliases of the entries, in order of name; refuses aliases without a model.
  static void NameAliases(Listing& listing, const std::string& default_model);
  explicit ModelCatalog(std::unique_ptr<State> state);
  std::shared_ptr<const Listing> listing() const;
  // The same without the paths of the models.
  absl::Status ForClients(const absl::Status& status) const;
  absl::StatusOr<ReloadReport> TryReload(std::span<ModelCache* const> caches,
                                         const PrecisionProbe& try_precision,
                                         const MemoryProbe& plan_memory);

  std::unique_ptr<State> state_;
};

// Thread compatible. Gives the right back at its end.
class ModelCatalog::Turn {
 public:
  Turn(Turn&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ~Turn();

 private:
  friend class ModelCatalog;
  explicit Turn(State& state) : state_(&state) {}

  State* state_;  // null: moved from
};

// Source pixels around a tile for its result. A network with global pooling depends on the whole
// image; its trained border counts then.
int AdvertisedHaloPx(const Network& network);

}  // namespace upscaled::server
