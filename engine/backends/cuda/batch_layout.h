// The layout of a stream's memory for a batch of tiles of one plan, and of the tensors in a tile's
// activation cache.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cuda/program.h"
#include "engine/backends/cuda/tile_place.h"
#include "engine/image/image.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// The shape of a batch of tiles, all of one plan.
struct BatchShape {
  int tiles = 1;
  SampleType src_type = SampleType::kU8;
  int src_channels = 3;
  size_t known_means = 0;  // number of poolings with known means
  bool gathers = false;    // the sums of the next pooling instead of pixels
  SampleType dst_type = SampleType::kU8;

  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

// Offsets into the device's memory, in bytes. The pieces from the host lie first, side by side, and
// so do the pieces for the host.
struct BatchLayout {
  std::vector<size_t> means;  // for each known pooling: floats [tile][channel]
  size_t source = 0;          // samples [tile][y][x][channel]
  size_t sent_bytes = 0;      // from 0
  size_t result = 0;          // samples [tile][y][x][3], or int64 sums [strip][tile][channel]
  size_t lost = 0;            // behind it: for each tile, whether a sample was non-finite
  size_t gave_up = 0;         // behind that: whether a kernel gave up
  size_t zeroed = 0;          // sums and these marks, or the latter alone: start as zeros
  size_t received_bytes = 0;  // from `result`
  size_t gated = 0;           // Program::gated_bytes, of one tile after the other
  size_t tensors = 0;         // all slots, in one piece at the end
  std::vector<size_t> slots;  // from `tensors`
  size_t bytes = 0;           // the total

  size_t zeroed_bytes() const { return result + received_bytes - zeroed; }
  size_t tensor_bytes() const { return bytes - tensors; }
  size_t staging_bytes() const { return sent_bytes + received_bytes; }  // the host's
};

BatchLayout LayOut(const Program& program, const PlacedTile& plan, Precision precision,
                   const BatchShape& shape);

// A tile's part of a pooled layer, cut into strips of whole rows: kernels add up kMaxSummedPixels
// at once.
std::vector<Rect> SumStrips(const Rect& part);

}  // namespace upscaled::cuda
