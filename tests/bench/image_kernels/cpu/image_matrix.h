// Matrices of floats, rows without gaps: transposition, and statistics of rows and columns.
#pragma once

#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled::cpu {

// Rows [begin, end) of the source become columns of the result: in blocks of whole cache lines,
// value by value or as vectors of 4 x 4.
void TransposeBlocks(Size size, int begin, int end, const float* src, float* dst);
void TransposeVectors(Size size, int begin, int end, const float* src, float* dst);

// Statistics of rows [begin, end).
void RowStatsVectors(Size size, int begin, int end, const float* src, LineStats* stats);

// Rows [run * kRunRows, ...) of all columns; `stats` is the run's own row of them. Added up in the
// runs' order by MergeRuns: threads may share the runs out as they like.
inline constexpr int kRunRows = 64;
void ColumnStatsRun(Size size, int run, const float* src, LineStats* stats);
void ColumnStatsRunVectors(Size size, int run, const float* src, LineStats* stats);
void MergeRuns(Size size, const LineStats* runs, LineStats* stats);

}  // namespace upscaled::cpu
