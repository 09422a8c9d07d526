#include "engine/backends/backend.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/backends/layer_profile.h"
#include "engine/base/string_view.h"

namespace upscaled {
namespace {

std::string Describe(const Rect& r) {
  return absl::StrFormat("%dx%d at (%d, %d)", r.width, r.height, r.x, r.y);
}

absl::Status CheckPixels(const char* what, const ImageSpec& spec, Size expected) {
  if (spec.size() != expected) {
    return absl::InvalidArgumentError(absl::StrFormat("tile's %s is %dx%d pixels, must be %dx%d",
                                                      what, spec.width_px, spec.height_px,
                                                      expected.width, expected.height));
  }
  if (spec.channels != 3 && spec.channels != 4) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tile's %s has %d channels, must have 3 or 4", what, spec.channels));
  }
  return absl::OkStatus();
}

absl::Status CheckPooling(const Network& network, const PoolingPass& pass) {
  const std::vector<int> poolings = ListPoolings(network);
  const size_t known = pass.number();
  if (pass.gathers() ? known >= poolings.size() : known != poolings.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tile has the means of %d global poolings, must have %s%d to %s", known,
                        pass.gathers() ? "less than " : "", poolings.size(),
                        pass.gathers() ? "gather those of another" : "compute the result"));
  }
  for (size_t i = 0; i < known; ++i) {
    const size_t channels = network.layers[poolings[i]].out_channels;
    if (pass.means[i].size() == channels) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "tile has %d means of global pooling %d, must have %d", pass.means[i].size(), i, channels));
  }
  return absl::OkStatus();
}

// The tile inside its image, and its source with all that it needs.
absl::Status CheckPlan(const Executable& executable, const TileTask& task) {
  if (task.plan == nullptr || task.plan->maker != &executable) {
    return absl::InvalidArgumentError("tile was not planned by the executable that runs it");
  }
  if (task.slice.stream != nullptr && task.slice.stream->maker() != &executable) {
    return absl::InvalidArgumentError("rows go on by the executable that began them alone");
  }
  const int bottom = task.plan->tile.bottom();
  if (task.slice.stream != nullptr && bottom < task.plan->image.height &&
      bottom * executable.network().scale % RowStream::kBandMultiple != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a band ends at row %d of the result, must at a multiple of %d",
                        bottom * executable.network().scale, RowStream::kBandMultiple));
  }
  const TilePlan& plan = *task.plan;
  const Rect image{0, 0, plan.image.width, plan.image.height};
  if (plan.tile.empty() || !image.Contains(plan.tile)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tile %s is empty or outside its image of %dx%d", Describe(plan.tile),
                        plan.image.width, plan.image.height));
  }
  if (task.src_rect.Contains(plan.input) && image.Contains(task.src_rect)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "source %s of tile %s must cover %s inside its image of %dx%d", Describe(task.src_rect),
      Describe(plan.tile), Describe(plan.input), plan.image.width, plan.image.height));
}

}  // namespace

absl::StatusOr<MemoryNeed> Backend::PlanMemory(const Network& /*network*/,
                                               Precision /*precision*/) const {
  return absl::UnimplementedError(
      absl::StrCat(ToAbsl(name()), " knows what a network takes once it is compiled"));
}

absl::StatusOr<std::vector<LayerProfile>> Stream::Profile(const Executable& /*executable*/,
                                                          const TileTask& /*task*/) {
  return absl::UnimplementedError("this backend has no profile");
}

TilePlan Executable::Plan(const Rect& tile, Size image) const {
  TilePlan plan = MakePlan(tile, image);
  if (plan.maker == nullptr) plan.maker = this;
  return plan;
}

absl::Status CheckTileTask(const Executable& executable, const TileTask& task) {
  absl::Status status = CheckPlan(executable, task);
  if (!status.ok()) return status;
  status.Update(CheckPooling(executable.network(), *task.pooling));
  status.Update(CheckPixels("source", task.src.spec, {task.src_rect.width, task.src_rect.height}));
  if (!task.pooling->gathers()) {
    const Rect result = Scale(task.plan->tile, executable.network().scale);
    status.Update(CheckPixels("destination", task.dst.spec, {result.width, result.height}));
  }
  return status;
}

}  // namespace upscaled
