#include "engine/train/patches.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace upscaled::train {
namespace {

// Writes the square of the tensor's size at (x, y) of `from`, turned as the patch says.
void Cut(const Image& from, int x0, int y0, const Patch& patch, int index, Tensor<float>& to) {
  const int side = to.grid().size.width;
  const ImageView view = from.view();
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      int u = patch.flip_x ? side - 1 - x : x, v = patch.flip_y ? side - 1 - y : y;
      if (patch.transpose) std::swap(u, v);
      const uint8_t* pixel = view.row(std::clamp(y0 + v, 0, view.height_px() - 1)) +
                             3 * std::clamp(x0 + u, 0, view.width_px() - 1);
      for (int c = 0; c < 3; ++c) {
        to.At(c, to.grid().Line(index, y), x) =
            static_cast<float>(pixel[patch.colours[c]]) / 255.0f;
      }
    }
  }
}

}  // namespace

Patch RandomPatch(std::span<const TrainingImage> images, const PatchShape& shape, uint64_t seed,
                  int64_t step, int index) {
  std::seed_seq seeds{seed & 0xffffffff, seed >> 32, static_cast<uint64_t>(step),
                      static_cast<uint64_t>(index)};
  std::mt19937_64 random(seeds);
  // Not the standard's distributions, which differ between libraries.
  const auto below = [&](size_t end) { return static_cast<int>(random() % end); };
  Patch patch{.image = below(images.size()), .reduction = below(kReductions.size())};
  const ImageSpec& spec = images[patch.image].reduced[0].spec();
  patch.x = below(spec.width_px - shape.side_px + 1);
  patch.y = below(spec.height_px - shape.side_px + 1);
  patch.flip_x = below(2) != 0;
  patch.flip_y = below(2) != 0;
  patch.transpose = below(2) != 0;
  for (int c = 2; c > 0; --c) std::swap(patch.colours[c], patch.colours[below(c + 1)]);
  return patch;
}

std::vector<Patch> SpreadPatches(std::span<const TrainingImage> images, const PatchShape& shape,
                                 int per_image) {
  std::vector<Patch> patches;
  for (size_t image = 0; image < images.size(); ++image) {
    const ImageSpec& spec = images[image].reduced[0].spec();
    for (size_t reduction = 0; reduction < kReductions.size(); ++reduction) {
      for (int i = 0; i < per_image; ++i) {  // on Kronecker's sequence, which leaves no gaps
        const double u = std::fmod(0.5 + i * 0.7548776662, 1),
                     v = std::fmod(0.5 + i * 0.5698402910, 1);
        patches.push_back({.image = static_cast<int>(image),
                           .reduction = static_cast<int>(reduction),
                           .x = static_cast<int>(u * (spec.width_px - shape.side_px + 1)),
                           .y = static_cast<int>(v * (spec.height_px - shape.side_px + 1))});
      }
    }
  }
  return patches;
}

void CutPatch(std::span<const TrainingImage> images, const PatchShape& shape, const Patch& patch,
              int index, Tensor<float>& input, Tensor<float>& target) {
  const TrainingImage& image = images[patch.image];
  Cut(image.reduced[patch.reduction], patch.x - shape.pad_px, patch.y - shape.pad_px, patch, index,
      input);
  Cut(image.original, patch.x * shape.scale, patch.y * shape.scale, patch, index, target);
}

}  // namespace upscaled::train
