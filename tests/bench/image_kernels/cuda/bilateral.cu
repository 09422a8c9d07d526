// Every pixel reads a window of up to 33 x 33 others. The source of these values and the
// instructions of a tap decide the time.
//   kNaive    one thread per pixel, taps from global memory, which the L1 cache serves
//   kShared   a block loads its halo once, a pixel a word: a tap is one load without conflict
//   kSeveral  four pixels a thread, a block's width apart: the window's row pointers and closeness
//             are read once for four taps, and halos overlap less
#include "tests/bench/image_kernels/cuda/bilateral.h"
#include "tests/bench/image_kernels/cuda/indices.h"

namespace upscaled::cuda {
namespace {

__device__ __forceinline__ int Clamp(int v, int low, int high) { return max(low, min(v, high)); }

__device__ __forceinline__ float3 ToFloat3(uchar4 v) { return make_float3(v.x, v.y, v.z); }

__device__ __forceinline__ uchar4 LoadRgb(const BilateralParams& p, int x, int y) {
  const uint8_t* pixel = p.src + 3 * (int64_t{y} * p.size.width + x);
  return make_uchar4(pixel[0], pixel[1], pixel[2], 0);
}

// The weighted mean of one pixel's window, as the mean of the differences to its centre.
struct Mean {
  float3 centre;
  float3 sum = {0, 0, 0};
  float weights = 0;

  __device__ __forceinline__ void Take(uchar4 value, float closeness, float range) {
    const float3 v = ToFloat3(value);
    const float3 off = {v.x - centre.x, v.y - centre.y, v.z - centre.z};
    const float squares = fmaf(off.z, off.z, fmaf(off.y, off.y, off.x * off.x));
    const float weight = exp2f(fmaf(squares, range, closeness));
    weights += weight;
    sum.x = fmaf(weight, off.x, sum.x);
    sum.y = fmaf(weight, off.y, sum.y);
    sum.z = fmaf(weight, off.z, sum.z);
  }

  __device__ __forceinline__ void Store(const BilateralParams& p, int x, int y) const {
    uint8_t* pixel = p.dst + 3 * (int64_t{y} * p.size.width + x);
    pixel[0] = static_cast<uint8_t>(centre.x + sum.x / weights + 0.5f);
    pixel[1] = static_cast<uint8_t>(centre.y + sum.y / weights + 0.5f);
    pixel[2] = static_cast<uint8_t>(centre.z + sum.z / weights + 0.5f);
  }
};

__global__ void Naive(BilateralParams p) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= p.size.width || y >= p.size.height) return;
  Mean mean{ToFloat3(LoadRgb(p, x, y))};
  for (int dy = max(-p.radius, -y); dy <= min(p.radius, p.size.height - 1 - y); ++dy) {
    const float* space = p.space + (dy + p.radius) * (2 * p.radius + 1) + p.radius;
    for (int dx = max(-p.radius, -x); dx <= min(p.radius, p.size.width - 1 - x); ++dx) {
      mean.Take(LoadRgb(p, x + dx, y + dy), space[dx], p.range);
    }
  }
  mean.Store(p, x, y);
}

// The tile is a parameter of the kernel's type: its loops have constant bounds.
template <int kThreadColumns, int kThreadRows, int kPixels>
__global__ void Tiled(BilateralParams p) {
  constexpr BilateralTile kTile{kThreadColumns, kThreadRows, kPixels};
  extern __shared__ uchar4 halo[];
  const int left = blockIdx.x * kTile.columns(), top = blockIdx.y * kThreadRows;
  for (int row = threadIdx.y; row < kTile.HaloRows(p.radius); row += kThreadRows) {
    const int y = Clamp(top + row - p.radius, 0, p.size.height - 1);
    for (int column = threadIdx.x; column < kTile.HaloColumns(p.radius); column += kThreadColumns) {
      const int x = Clamp(left + column - p.radius, 0, p.size.width - 1);
      halo[kTile.HaloIndex(p.radius, row, column)] = LoadRgb(p, x, y);
    }
  }
  __syncthreads();
  const int y = top + threadIdx.y;
  if (y >= p.size.height) return;
  Mean means[kPixels];
#pragma unroll
  for (int i = 0; i < kPixels; ++i) {
    const int column = kTile.Pixel(threadIdx.x, i) + p.radius;
    means[i].centre = ToFloat3(halo[kTile.HaloIndex(p.radius, threadIdx.y + p.radius, column)]);
  }
  for (int dy = max(-p.radius, -y); dy <= min(p.radius, p.size.height - 1 - y); ++dy) {
    const uchar4* row = halo + kTile.HaloIndex(p.radius, threadIdx.y + p.radius + dy, p.radius);
    const float* space = p.space + (dy + p.radius) * (2 * p.radius + 1) + p.radius;
    for (int dx = -p.radius; dx <= p.radius; ++dx) {
      const float closeness = space[dx];
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
        const int column = kTile.Pixel(threadIdx.x, i), x = left + column + dx;
        if (x >= 0 && x < p.size.width) means[i].Take(row[column + dx], closeness, p.range);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPixels; ++i) {
    const int x = left + kTile.Pixel(threadIdx.x, i);
    if (x < p.size.width) means[i].Store(p, x, y);
  }
}

template <int kThreadColumns, int kThreadRows, int kPixels>
cudaError_t LaunchTiled(const BilateralParams& p, cudaStream_t stream) {
  constexpr BilateralTile kTile{kThreadColumns, kThreadRows, kPixels};
  const dim3 blocks(BlockCount(p.size.width, kTile.columns()),
                    BlockCount(p.size.height, kThreadRows));
  const size_t bytes = sizeof(uchar4) * kTile.HaloColumns(p.radius) * kTile.HaloRows(p.radius);
  Tiled<kThreadColumns, kThreadRows, kPixels>
      <<<blocks, dim3(kThreadColumns, kThreadRows), bytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchBilateral(BilateralStep step, const BilateralParams& p, cudaStream_t stream) {
  constexpr BilateralTile kShared = kBilateralShared, kSeveral = kBilateralSeveral;
  switch (step) {
    case BilateralStep::kNaive: {
      const dim3 threads(32, 8);
      const dim3 blocks(BlockCount(p.size.width, 32), BlockCount(p.size.height, 8));
      Naive<<<blocks, threads, 0, stream>>>(p);
      return cudaGetLastError();
    }
    case BilateralStep::kShared:
      return LaunchTiled<kShared.thread_columns, kShared.thread_rows, kShared.pixels_per_thread>(
          p, stream);
    case BilateralStep::kSeveral:
      return LaunchTiled<kSeveral.thread_columns, kSeveral.thread_rows, kSeveral.pixels_per_thread>(
          p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace upscaled::cuda
