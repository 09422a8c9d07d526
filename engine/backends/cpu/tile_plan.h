// How one run of a tile goes: row by row through all layers at once, so that a layer's rows are
// read while they are still in cache, and rows are never computed twice.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/program.h"
#include "engine/base/geometry.h"

namespace upscaled::cpu {

// Rows that a layer without blocks computes at once. Where hundreds of layers read ahead of each
// other, rows at once are rows in every ring before.
inline constexpr int kPlainRows = 4;

struct TilePlan {
  // Rows of one layer, in order of execution: what a step reads has been computed by earlier ones
  // and is still in its ring.
  struct Step {
    int layer;
    Rect rows;  // as LayerKernel::Run takes them
  };
  int target = 0;               // the layer that the run is for: a pooled one, or the last
  std::vector<Rect> regions;    // of each layer, in its whole-image coordinates
  std::vector<Tensor> tensors;  // a tensor that is kept holds all rows of its region
  std::vector<Step> steps;
  size_t workspace_floats = 0;
  size_t memory_floats = 0;  // of the tensors that are kept; the same for all runs of a tile
};

// The run that comes when the means of so many global poolings are known; all: the result's.
// `keeps`: what Program::kept names is kept from run to run, and was in the runs before.
TilePlan PlanTile(const Program& program, Size image, const Rect& tile, size_t known_means = 0,
                  bool keeps = false);

// What each layer computes for `tile`.
std::vector<Rect> RegionsOf(const Program& program, Size image, const Rect& tile);

// The source pixels that computing `tile` needs, inside the image.
Rect SourceOf(const Program& program, Size image, const Rect& tile);

// Points the tensors into `workspace` (plan.workspace_floats) and `memory` (plan.memory_floats; may
// be null when there are none) and zeroes what reads as zero.
void BindWorkspace(const Program& program, float* workspace, TilePlan& plan,
                   float* memory = nullptr);

}  // namespace upscaled::cpu
