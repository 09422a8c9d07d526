// Statistics of the rows and columns of a matrix of floats: LineStats as float4. Their sums have
// one order, given by the size only.
#pragma once

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include "engine/base/geometry.h"

namespace upscaled::cuda {

enum class RowStatsStep { kNaive, kShared, kShuffles };
cudaError_t LaunchRowStats(RowStatsStep step, const float* src, Size size, float4* dst,
                           cudaStream_t stream);

enum class ColumnStatsStep { kNaive, kRuns, kSeveral };
// `runs`, not for kNaive: room for BlockCount(height, kRunRows) rows of `width` statistics.
cudaError_t LaunchColumnStats(ColumnStatsStep step, const float* src, Size size, float4* runs,
                              float4* dst, cudaStream_t stream);

}  // namespace upscaled::cuda
