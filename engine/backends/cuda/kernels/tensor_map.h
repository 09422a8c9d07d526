// Tensors as Hopper's copy engine (TMA) takes them.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda.h>
#endif

#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

// Boxes of halves of a region of a tensor, by the coordinates {8 x + channel, y, plane, tile}
// within it. The engine reads zeros beyond the region, and writes nothing there: it pads, and cuts
// off.
struct TensorBoxes {
  void* base = nullptr;     // of the region's corner
  int64_t sizes[4] = {};    // of the region
  int64_t strides[3] = {};  // bytes from one y, plane and tile to the next
  int box[4] = {};          // sizes of a box
};

#ifdef __CUDACC__
using TensorMap = CUtensorMap;
#else
using TensorMap = TensorBoxes;
#endif

// `region`: of the layer, within view.rect. Boxes are of `width` x `height` pixels of `planes`
// planes.
inline TensorBoxes BoxesOf(const TensorView& view, const Rect& region, int tiles, int width,
                           int height, int planes) {
  constexpr int64_t kPixel = kPlaneChannels * 2;
  TensorBoxes boxes;
  boxes.base =
      static_cast<unsigned char*>(view.data) + PixelIndex(view, 0, 0, region.x, region.y) * kPixel;
  const int64_t row = view.rect.width * kPixel, plane = view.rect.height * row;
  const int view_planes = PlaneCount(view.channels);
  const int64_t sizes[] = {int64_t{region.width} * kPlaneChannels, region.height, view_planes,
                           tiles};
  const int64_t strides[] = {row, plane, std::max(view.tile_stride * kPixel, view_planes * plane)};
  const int box[] = {width * kPlaneChannels, height, planes, 1};
  std::copy_n(sizes, 4, boxes.sizes);
  std::copy_n(strides, 3, boxes.strides);
  std::copy_n(box, 4, boxes.box);
  return boxes;
}

// The rows of `boxes`, of `region`, of this parity in the layer.
inline TensorBoxes EverySecondRow(TensorBoxes boxes, const Rect& region, int parity) {
  const int first = (region.y ^ parity) & 1;
  boxes.base = static_cast<unsigned char*>(boxes.base) + first * boxes.strides[0];
  boxes.sizes[1] = (region.height - first + 1) / 2;
  boxes.strides[0] *= 2;
  return boxes;
}

}  // namespace upscaled::cuda
