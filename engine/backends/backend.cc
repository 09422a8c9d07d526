#include "engine/backends/backend.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "engine/backends/layer_profile.h"

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

absl::Status CheckMeans(const Network& network, const TileTask& task) {
  const std::vector<int> poolings = ListPoolings(network);
  const bool gathers = task.sums != nullptr;
  const size_t known = task.means.size();
  if (gathers ? known >= poolings.size() : known != poolings.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tile has the means of %d global poolings, must have %s%d to %s", known,
                        gathers ? "less than " : "", poolings.size(),
                        gathers ? "gather those of another" : "compute the result"));
  }
  for (size_t i = 0; i < known; ++i) {
    const size_t channels = network.layers[poolings[i]].out_channels;
    if (task.means[i].size() == channels) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "tile has %d means of global pooling %d, must have %d", task.means[i].size(), i, channels));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LayerProfile>> Stream::Profile(const Executable& /*executable*/,
                                                          const TileTask& /*task*/) {
  return absl::UnimplementedError("this backend has no profile");
}

absl::Status CheckTileTask(const Executable& executable, const TileTask& task) {
  const Rect image{0, 0, task.image.width, task.image.height};
  if (task.tile.empty() || !image.Contains(task.tile)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tile %s is empty or outside its image of %dx%d", Describe(task.tile),
                        task.image.width, task.image.height));
  }
  const Rect needed = executable.InputRect(task.tile, task.image);
  if (!task.src_rect.Contains(needed) || !image.Contains(task.src_rect)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "source %s of tile %s must cover %s inside its image of %dx%d", Describe(task.src_rect),
        Describe(task.tile), Describe(needed), task.image.width, task.image.height));
  }
  const int scale = executable.network().scale;
  absl::Status status = CheckMeans(executable.network(), task);
  status.Update(CheckPixels("source", task.src.spec, {task.src_rect.width, task.src_rect.height}));
  if (task.sums == nullptr) {
    status.Update(CheckPixels("destination", task.dst.spec,
                              {task.tile.width * scale, task.tile.height * scale}));
  }
  return status;
}

}  // namespace upscaled
