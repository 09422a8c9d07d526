#include "tests/fuzz/check_network.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/graph/tile_plan.h"
#include "engine/image/image.h"
#include "tests/support/run_image.h"

namespace upscaled {
namespace {

constexpr Size kImage = {5, 4};
constexpr double kMaxWork = 2e6;  // multiply-adds, so that an input takes milliseconds

void Require(bool holds) {
  if (!holds) std::abort();
}

double Work(const Network& network, const std::vector<Rect>& regions) {
  double work = 0;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const double per_pixel =
        std::max<double>(layer.out_channels, static_cast<double>(layer.weights.size()));
    work += static_cast<double>(regions[i].Area()) * per_pixel;
  }
  return work;
}

Image RunTiles(Backend& backend, const Executable& executable, const Image& source,
               const std::vector<Rect>& tiles) {
  const int scale = executable.network().scale;
  Image result({kImage.width * scale, kImage.height * scale, 3, SampleType::kU8});
  std::vector<TileTask> tasks;
  for (const Rect& tile : tiles) {
    tasks.push_back(test::MakeTask(executable, source, tile, result));
  }
  Require(test::RunImage(*backend.CreateStream(), executable, std::move(tasks), true).ok());
  return result;
}

// A backend may refuse a network; one that it takes is bit-exact whole and in two tiles.
void CheckTiling(Backend& backend, const Network& network, const Image& source) {
  const auto executable = backend.Compile(network, Precision::kExact);
  if (!executable.ok()) return;
  const Image whole = RunTiles(backend, **executable, source, {{0, 0, 5, 4}});
  const Image halves = RunTiles(backend, **executable, source, {{0, 0, 2, 4}, {2, 0, 3, 4}});
  Require(std::memcmp(whole.view().data, halves.view().data, whole.bytes()) == 0);
}

}  // namespace

void CheckLoadedNetwork(const Network& network) {
  Require(network.Validate().ok());
  const std::vector<Rect> regions =
      PlanTile(network, kImage, {0, 0, kImage.width, kImage.height}).regions;
  if (Work(network, regions) > kMaxWork) return;
  Image source({kImage.width, kImage.height, 3, SampleType::kU8});
  for (size_t i = 0; i < source.bytes(); ++i) {
    source.mutable_view().data[i] = static_cast<uint8_t>(37 * i);
  }
  static const auto cpu = CreateCpuBackend({.threads = 1});
  static const auto reference = CreateReferenceBackend({.threads = 1});
  CheckTiling(**cpu, network, source);
  CheckTiling(**reference, network, source);
}

}  // namespace upscaled
