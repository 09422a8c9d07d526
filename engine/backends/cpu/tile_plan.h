// How one tile is computed: row by row through all layers at once, so that a layer's rows are read
// while they are still in cache, and rows are never computed twice.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/program.h"
#include "engine/base/geometry.h"

namespace upscaled::cpu {

struct TilePlan {
  // Rows of one layer, in order of execution: what a step reads has been computed by earlier ones
  // and is still in its ring.
  struct Step {
    int layer;
    Rect rows;
  };
  std::vector<Rect> regions;    // of each layer, in its whole-picture coordinates
  std::vector<Tensor> tensors;  // `data` counts from the workspace's beginning
  std::vector<Step> steps;
  size_t workspace_floats = 0;
};

TilePlan PlanTile(const Program& program, Size image, const Rect& tile);

// Points the tensors into `workspace` (plan.workspace_floats) and zeroes what reads as zero.
void BindWorkspace(const Program& program, float* workspace, TilePlan& plan);

}  // namespace upscaled::cpu
