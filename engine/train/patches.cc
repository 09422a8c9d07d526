#include "engine/train/patches.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "engine/base/geometry.h"

namespace upscaled::train {
namespace {

// The pixels of `area`, relative to the square at (x0, y0) of this many pixels a side; turned and
// coloured as the patch says, the image's edges repeated.
Image Cut(const Image& from, int x0, int y0, int side, const Rect& area, const Patch& patch) {
  Image cut({area.width, area.height, 3, SampleType::kU8});
  const ImageView view = from.view();
  for (int y = 0; y < area.height; ++y) {
    uint8_t* to = cut.mutable_view().row(y);
    for (int x = 0; x < area.width; ++x, to += 3) {
      int u = area.x + x, v = area.y + y;
      if (patch.flip_x) u = side - 1 - u;
      if (patch.flip_y) v = side - 1 - v;
      if (patch.transpose) std::swap(u, v);
      const uint8_t* pixel = view.row(std::clamp(y0 + v, 0, view.height_px() - 1)) +
                             3 * std::clamp(x0 + u, 0, view.width_px() - 1);
      for (int c = 0; c < 3; ++c) to[c] = pixel[patch.colours[c]];
    }
  }
  return cut;
}

// The tensor's image from pixel (x, y) of `from` on.
void Store(const Image& from, int x, int y, int index, Tensor<float>& to) {
  const Size size = to.grid().size;
  for (int line = 0; line < size.height; ++line) {
    const uint8_t* values = from.view().row(y + line) + 3 * x;
    float* pixel = to.line(to.grid().Line(index, line));
    for (int i = 0; i < 3 * size.width; ++i) pixel[i] = static_cast<float>(values[i]) / 255.0f;
  }
}

}  // namespace

Patch RandomPatch(std::span<const TrainingImage> images, const PatchShape& shape,
                  const Recipe& recipe, uint64_t seed, int64_t step, int index) {
  std::seed_seq seeds{seed & 0xffffffff, seed >> 32, static_cast<uint64_t>(step),
                      static_cast<uint64_t>(index)};
  std::mt19937_64 random(seeds);
  // Not the standard's distributions: they differ between libraries.
  const auto below = [&](size_t end) { return static_cast<int>(random() % end); };
  Patch patch{.image = below(images.size())};
  const TrainingImage& image = images[patch.image];
  patch.reduction = below(image.reduced.size());
  const ImageSpec& spec = image.reduced[0].spec();
  patch.x = below(spec.width_px - shape.side_px + 1);
  patch.y = below(spec.height_px - shape.side_px + 1);
  patch.flip_x = below(2) != 0;
  patch.flip_y = below(2) != 0;
  patch.transpose = below(2) != 0;
  for (int c = 2; c > 0 && recipe.exchange_colours; --c) {
    std::swap(patch.colours[c], patch.colours[below(c + 1)]);
  }
  patch.spoiling = DrawSpoiling(recipe, random);
  return patch;
}

std::vector<Patch> SpreadPatches(std::span<const TrainingImage> images, const PatchShape& shape,
                                 const Recipe& recipe, int per_image) {
  std::vector<Patch> patches;
  std::mt19937_64 random(per_image);
  for (size_t image = 0; image < images.size(); ++image) {
    const ImageSpec& spec = images[image].reduced[0].spec();
    for (size_t reduction = 0; reduction < images[image].reduced.size(); ++reduction) {
      for (int i = 0; i < per_image; ++i) {  // on Kronecker's sequence, which leaves no gaps
        const double u = std::fmod(0.5 + i * 0.7548776662, 1),
                     v = std::fmod(0.5 + i * 0.5698402910, 1);
        patches.push_back({.image = static_cast<int>(image),
                           .reduction = static_cast<int>(reduction),
                           .x = static_cast<int>(u * (spec.width_px - shape.side_px + 1)),
                           .y = static_cast<int>(v * (spec.height_px - shape.side_px + 1)),
                           .spoiling = DrawSpoiling(recipe, random)});
      }
    }
  }
  return patches;
}

SpoiltPatch CutSpoiltPatch(std::span<const TrainingImage> images, const PatchShape& shape,
                           const Patch& patch) {
  const int margin = shape.pad_px + kSpoiledMarginPx;
  SpoiltPatch spoilt{.x = margin + patch.spoiling.shift_x, .y = margin + patch.spoiling.shift_y};
  const Rect area{-spoilt.x, -spoilt.y, spoilt.x + shape.side_px + margin,
                  spoilt.y + shape.side_px + margin};
  spoilt.image = Cut(images[patch.image].reduced[patch.reduction], patch.x, patch.y, shape.side_px,
                     area, patch);
  Spoil(patch.spoiling, spoilt.image);
  return spoilt;
}

void CutPatch(std::span<const TrainingImage> images, const PatchShape& shape, const Patch& patch,
              int index, Tensor<float>& input, Tensor<float>& target) {
  const SpoiltPatch spoilt = CutSpoiltPatch(images, shape, patch);
  Store(spoilt.image, spoilt.x - shape.pad_px, spoilt.y - shape.pad_px, index, input);
  const int side = shape.side_px * shape.scale;
  const Image original = Cut(images[patch.image].original, patch.x * shape.scale,
                             patch.y * shape.scale, side, {0, 0, side, side}, patch);
  Store(original, 0, 0, index, target);
}

}  // namespace upscaled::train
