// Inputs and outputs of a batch's steps, as tensors in the device's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backends/cuda/batch_layout.h"
#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/backends/cuda/program.h"
#include "engine/backends/cuda/tile_place.h"
#include "engine/base/geometry.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

struct BatchViews {
  int tiles = 1;
  SampleView image;
  Size image_size;
  std::vector<TensorView> tensors;  // as layers; without memory where a result is never stored
  std::vector<const float*> means;  // as layers; of those global poolings whose means are known
  SampleView samples;               // the result's
  uint32_t* gave_up = nullptr;      // ConvParams::gave_up
  void* gated_weights = nullptr;    // room for those of one node and tile
  // The layer; its step adds these up on the way, if its kernel can: see SetSums.
  int summed_layer = -1;
  PooledSums sums;
};

// Lets the step of a pooling's input layer add to `sums`; no step if the part takes several strips.
void SetSums(const Program& program, const PlacedTile& plan, size_t pooling, int64_t* sums,
             BatchViews& views);

// `memory`: where the layout's offsets count from; `tensors`: where those of the slots do.
BatchViews ViewsOf(const Program& program, const PlacedTile& plan, Precision precision,
                   const BatchShape& shape, const BatchLayout& layout, uint8_t* memory,
                   uint8_t* tensors);

}  // namespace upscaled::cuda
