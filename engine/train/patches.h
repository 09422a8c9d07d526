// Parts of training images as a network's input and its wanted result.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/train/degrade.h"
#include "engine/train/image_folder.h"
#include "engine/train/recipe.h"
#include "engine/train/tensor.h"

namespace upscaled::train {

struct Patch {
  int image = 0;      // index
  int reduction = 0;  // index of TrainingImage::reduced
  int x = 0, y = 0;   // of the reduced image's pixels
  bool flip_x = false, flip_y = false, transpose = false;
  std::array<int, 3> colours = {0, 1, 2};  // which one each channel is
  Spoiling spoiling;
};

// The shape of cut patches.
struct PatchShape {
  int side_px = 48;  // of the reduced image, without the network's border
  int pad_px = 0;    // that border, filled with what lies there, or the image's edge repeated
  int scale = 2;
};

// Patch `index` of a step, independent of other draws.
Patch RandomPatch(std::span<const TrainingImage> images, const PatchShape& shape,
                  const Recipe& recipe, uint64_t seed, int64_t step, int index);

// `per_image` patches of each reduction of each image, spread over it; image by image. Upright, but
// spoilt.
std::vector<Patch> SpreadPatches(std::span<const TrainingImage> images, const PatchShape& shape,
                                 const Recipe& recipe, int per_image);

// Image `index` of both tensors.
void CutPatch(std::span<const TrainingImage> images, const PatchShape& shape, const Patch& patch,
              int index, Tensor<float>& input, Tensor<float>& target);

// The input of the network, with more around it.
struct SpoiltPatch {
  Image image;
  int x = 0, y = 0;  // where the patch begins in it, without the network's border
};
SpoiltPatch CutSpoiltPatch(std::span<const TrainingImage> images, const PatchShape& shape,
                           const Patch& patch);

}  // namespace upscaled::train
