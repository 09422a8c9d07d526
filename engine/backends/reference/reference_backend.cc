#include "engine/backends/reference/reference_backend.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/layer_profile.h"
#include "engine/backends/reference/convolution.h"
#include "engine/backends/reference/run_tile.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(Network network) : network_(std::move(network)) {}

  const Network& network() const override { return network_; }
  Precision precision() const override { return Precision::kExact; }
  size_t WorkspaceBytes(Size tile) const override {
    // In the middle of an image, and a period larger: a tile's regions depend on its offset.
    const int side = kMaxPeriodPx;
    const Rect inner{side, side, tile.width + side, tile.height + side};
    const Size image{inner.right() + side + 2 * kMaxPadPx, inner.bottom() + side + 2 * kMaxPadPx};
    const std::vector<Rect> regions = PlanTile(network_, image, inner).regions;
    size_t values = 0, convolution = 0;
    for (size_t i = 0; i < regions.size(); ++i) {
      const Layer& layer = network_.layers[i];
      values += static_cast<size_t>(regions[i].Area()) * layer.out_channels;
      convolution = std::max(convolution, reference::ConvolveBytes(layer));
    }
    return values * sizeof(float) + convolution;
  }
  size_t WeightBytes() const override { return network_.WeightCount() * sizeof(float); }
  Size PreferredTile() const override { return {128, 128}; }

 private:
  TilePlan MakePlan(const Rect& tile, Size image) const override {
    return PlanTile(network_, image, tile);
  }

  const Network network_;
};

class ReferenceStream : public Stream {
 public:
  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override {
    for (const TileTask& task : tiles) {
      RETURN_IF_ERROR(CheckTileTask(executable, task));
      reference::RunTile(executable.network(), task);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                    const TileTask& task) override {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    const Network& network = executable.network();
    std::vector<LayerProfile> layers;
    absl::Time last = absl::Now();
    reference::RunTile(network, task, [&](size_t layer) {
      LayerProfile& profile =
          layers.emplace_back(DescribeLayer(network, layer, task.plan->regions, sizeof(float)));
      profile.kernel = "definition";
      const absl::Time now = absl::Now();
      profile.seconds = absl::ToDoubleSeconds(now - last);
      last = now;
    });
    return layers;
  }
};

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(int stream_count) : stream_count_(stream_count) {}

  std::string_view name() const override { return "reference"; }
  std::string description() const override { return "plain C++, fp32 with double sums"; }
  absl::Status CheckPrecision(Precision precision) const override {
    if (precision == Precision::kExact) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("the reference backend has no precision '",
                                                 ToAbsl(PrecisionName(precision)),
                                                 "', only 'exact'"));
  }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    RETURN_IF_ERROR(CheckPrecision(precision));
    RETURN_IF_ERROR(network.Validate());
    return std::make_shared<ReferenceExecutable>(network);
  }
  absl::StatusOr<MemoryNeed> PlanMemory(const Network& network, Precision) const override {
    RETURN_IF_ERROR(network.Validate());
    const ReferenceExecutable executable(network);
    return MemoryNeed{executable.WeightBytes(),
                      executable.WorkspaceBytes(executable.PreferredTile())};
  }
  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<ReferenceStream>(); }
  int StreamCount() const override { return stream_count_; }

 private:
  const int stream_count_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateReferenceBackend(const BackendOptions& options) {
  if (!options.cpu_isa.empty() || !options.kernel.empty()) {
    const bool isa = !options.cpu_isa.empty();
    return absl::InvalidArgumentError(
        absl::StrCat("the reference backend has no ", isa ? "cpu_isa" : "kernel", " '",
                     isa ? options.cpu_isa : options.kernel, "': it knows only plain C++"));
  }
  if (options.threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, ", must be 0 (automatic) or more"));
  }
  return std::make_unique<ReferenceBackend>(options.threads > 0 ? options.threads
                                                                : AvailableCpuCount());
}

}  // namespace upscaled
