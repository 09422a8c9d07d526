// Between images and the network's first and last tensors. `conversions`:
// Program::sample_conversions.
#pragma once

#include <vector>

#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/kernel.h"

namespace upscaled::cpu {

// Fills `rows` (coordinates of layer 0) of the interleaved RGB tensor `dst` with 0..1 from the
// task's source, replicating the image's border of `pad_px`.
void LoadPixels(const SampleConversions& conversions, const TileTask& task, int pad_px,
                const Rect& rows, const Tensor& dst);

// Writes the part of `rows` (coordinates of the last layer: the result's pixels) that lies in
// `result` to the task's destination, whose first pixel is `result`'s.
void StorePixels(const SampleConversions& conversions, const Tensor& src, const Rect& rows,
                 const Rect& result, const MutableImageView& dst);

// Adds to `runs` where pixels of `rows` of an interleaved tensor are not finite, row by row.
void FindOverflowed(const Tensor& src, const Rect& rows, std::vector<Rect>& runs);

}  // namespace upscaled::cpu
