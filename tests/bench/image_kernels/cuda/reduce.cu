// Rows:
//   kNaive     one thread per row: neighbouring threads read a row's length apart
//   kShared    one block per row, its threads' statistics merged as a tree in shared memory
//   kShuffles  four values in flight a thread, merged by warp shuffles: one barrier
// Columns:
//   kNaive     one thread per column: reads are whole sectors, but there are only `width` threads
//   kRuns      one thread per column and run of kRunRows rows; a second pass merges runs in order
//   kSeveral   four columns a thread, a warp's width apart: four loads in flight
#include "tests/bench/image_kernels/cuda/indices.h"
#include "tests/bench/image_kernels/cuda/reduce.h"
#include "tests/bench/image_kernels/cuda/warp_reduce.cuh"

namespace upscaled::cuda {
namespace {

__device__ __forceinline__ float Infinity() { return __int_as_float(0x7f800000); }

// Sum, smallest and largest of the finite values; how many are not.
__device__ __forceinline__ float4 Nothing() { return make_float4(0, Infinity(), -Infinity(), 0); }

__device__ __forceinline__ float4 Take(float4 stats, float value) {
  const bool finite = fabsf(value) < Infinity();
  return make_float4(stats.x + (finite ? value : 0.0f), fminf(stats.y, finite ? value : Infinity()),
                     fmaxf(stats.z, finite ? value : -Infinity()),
                     stats.w + (finite ? 0.0f : 1.0f));
}

struct Merge {
  __device__ __forceinline__ float4 operator()(float4 a, float4 b) const {
    return make_float4(a.x + b.x, fminf(a.y, b.y), fmaxf(a.z, b.z), a.w + b.w);
  }
};

__global__ void RowsNaive(const float* src, Size size, float4* dst) {
  const int y = blockIdx.x * blockDim.x + threadIdx.x;
  if (y >= size.height) return;
  const float* row = src + int64_t{y} * size.width;
  float4 stats = Nothing();
  for (int x = 0; x < size.width; ++x) stats = Take(stats, row[x]);
  dst[y] = stats;
}

__global__ void RowsShared(const float* src, Size size, float4* dst) {
  const float* row = src + int64_t{blockIdx.x} * size.width;
  float4 stats = Nothing();
  for (int x = threadIdx.x; x < size.width; x += kReduceThreads) stats = Take(stats, row[x]);
  stats = BlockTotalShared<kReduceThreads>(stats, threadIdx.x, Merge());
  if (threadIdx.x == 0) dst[blockIdx.x] = stats;
}

__global__ void RowsShuffles(const float* src, Size size, float4* dst) {
  constexpr int kInFlight = 4;
  const float* row = src + int64_t{blockIdx.x} * size.width;
  float4 stats = Nothing();
  int x = threadIdx.x;
  for (; x + (kInFlight - 1) * kReduceThreads < size.width; x += kInFlight * kReduceThreads) {
    float values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) values[i] = row[x + i * kReduceThreads];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) stats = Take(stats, values[i]);
  }
  for (; x < size.width; x += kReduceThreads) stats = Take(stats, row[x]);
  stats = BlockTotal<kReduceThreads>(stats, threadIdx.x, Merge());
  if (threadIdx.x == 0) dst[blockIdx.x] = stats;
}

// Run blockIdx.y of the columns blockIdx.x * kReduceThreads * kColumns + threadIdx.x + ...
template <int kColumns>
__global__ void ColumnRuns(const float* src, Size size, int run_rows, float4* runs) {
  const int first = blockIdx.x * kReduceThreads * kColumns + threadIdx.x;
  const int begin = blockIdx.y * run_rows, end = min(size.height, begin + run_rows);
  float4 stats[kColumns];
#pragma unroll
  for (int i = 0; i < kColumns; ++i) stats[i] = Nothing();
  for (int y = begin; y < end; ++y) {
    const float* row = src + int64_t{y} * size.width;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int x = first + i * kReduceThreads;
      if (x < size.width) stats[i] = Take(stats[i], row[x]);
    }
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int x = first + i * kReduceThreads;
    if (x < size.width) runs[int64_t{blockIdx.y} * size.width + x] = stats[i];
  }
}

__global__ void MergeRuns(const float4* runs, int count, int width, float4* dst) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= width) return;
  float4 stats = runs[x];
  for (int run = 1; run < count; ++run) stats = Merge()(stats, runs[int64_t{run} * width + x]);
  dst[x] = stats;
}

}  // namespace

cudaError_t LaunchRowStats(RowStatsStep step, const float* src, Size size, float4* dst,
                           cudaStream_t stream) {
  switch (step) {
    case RowStatsStep::kNaive:
      RowsNaive<<<BlockCount(size.height, kReduceThreads), kReduceThreads, 0, stream>>>(src, size,
                                                                                        dst);
      break;
    case RowStatsStep::kShared:
      RowsShared<<<size.height, kReduceThreads, 0, stream>>>(src, size, dst);
      break;
    case RowStatsStep::kShuffles:
      RowsShuffles<<<size.height, kReduceThreads, 0, stream>>>(src, size, dst);
      break;
  }
  return cudaGetLastError();
}

cudaError_t LaunchColumnStats(ColumnStatsStep step, const float* src, Size size, float4* runs,
                              float4* dst, cudaStream_t stream) {
  constexpr int kColumns = 4;
  const int threads_wide = BlockCount(size.width, kReduceThreads);
  const int count = BlockCount(size.height, kRunRows);
  switch (step) {
    case ColumnStatsStep::kNaive:
      ColumnRuns<1><<<threads_wide, kReduceThreads, 0, stream>>>(src, size, size.height, dst);
      return cudaGetLastError();
    case ColumnStatsStep::kRuns:
      ColumnRuns<1>
          <<<dim3(threads_wide, count), kReduceThreads, 0, stream>>>(src, size, kRunRows, runs);
      break;
    case ColumnStatsStep::kSeveral:
      ColumnRuns<kColumns><<<dim3(BlockCount(size.width, kColumns * kReduceThreads), count),
                             kReduceThreads, 0, stream>>>(src, size, kRunRows, runs);
      break;
  }
  MergeRuns<<<threads_wide, kReduceThreads, 0, stream>>>(runs, count, size.width, dst);
  return cudaGetLastError();
}

}  // namespace upscaled::cuda
