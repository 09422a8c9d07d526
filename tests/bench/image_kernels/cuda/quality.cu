// Squared differences, in runs of kErrorRun values:
//   kNaive     one thread per run
//   kShared    one block per run, added up as a tree in shared memory
//   kShuffles  four values in flight a thread, added up by warp shuffles
// SSIM:
//   kNaive     one thread per window: its 121 places, five sums each; a partial sum is one window
//   kShared    a block loads the pixels below kSsimColumns x kSsimRows windows once and applies the
//              window along rows, then along columns: 22 places; a partial sum is one block
// The second pass is one block: thread t adds partial sums t, t + 1024, ... as doubles, and a tree
// adds the threads' up: the total depends on nothing but the values.
#include "tests/bench/image_kernels/cuda/indices.h"
#include "tests/bench/image_kernels/cuda/quality.h"
#include "tests/bench/image_kernels/cuda/warp_reduce.cuh"

namespace upscaled::cuda {
namespace {

constexpr int kWindow = 11;
// Sums are of values less 128: variances do not change, and fp32 keeps the digits for their
// differences.
constexpr float kOffset = 128.0f;

struct Add {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

__global__ void SumUp(const float* partials, int64_t count, double* total) {
  constexpr int kThreads = 1024;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  sum = BlockTotalShared<kThreads>(sum, threadIdx.x, Add());
  if (threadIdx.x == 0) *total = sum;
}

__device__ __forceinline__ float AddSquare(const float* src, int64_t count, int64_t i, float sum) {
  const float off = src[i] - src[count + i];
  return fmaf(off, off, sum);
}

__global__ void ErrorNaive(const float* src, int64_t count, float* sums) {
  const int64_t run = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (run * kErrorRun >= count) return;
  float sum = 0;
  for (int64_t i = run * kErrorRun; i < min(count, (run + 1) * kErrorRun); ++i) {
    sum = AddSquare(src, count, i, sum);
  }
  sums[run] = sum;
}

__global__ void ErrorShared(const float* src, int64_t count, float* sums) {
  const int64_t begin = int64_t{blockIdx.x} * kErrorRun, end = min(count, begin + kErrorRun);
  float sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kReduceThreads) {
    sum = AddSquare(src, count, i, sum);
  }
  sum = BlockTotalShared<kReduceThreads>(sum, threadIdx.x, Add());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void ErrorShuffles(const float* src, int64_t count, float* sums) {
  constexpr int kInFlight = 4;
  const int64_t begin = int64_t{blockIdx.x} * kErrorRun, end = min(count, begin + kErrorRun);
  float parts[kInFlight] = {};
  int64_t i = begin + threadIdx.x;
  for (; i + (kInFlight - 1) * kReduceThreads < end; i += kInFlight * kReduceThreads) {
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      parts[k] = AddSquare(src, count, i + k * kReduceThreads, parts[k]);
    }
  }
  for (; i < end; i += kReduceThreads) parts[0] = AddSquare(src, count, i, parts[0]);
  const float sum =
      BlockTotal<kReduceThreads>((parts[0] + parts[1]) + (parts[2] + parts[3]), threadIdx.x, Add());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Weighted sums of a window: a, b, a^2, b^2, a b.
struct Moments {
  float a = 0, b = 0, aa = 0, bb = 0, ab = 0;

  __device__ __forceinline__ void Take(float weight, float va, float vb) {
    a = fmaf(weight, va, a);
    b = fmaf(weight, vb, b);
    aa = fmaf(weight, va * va, aa);
    bb = fmaf(weight, vb * vb, bb);
    ab = fmaf(weight, va * vb, ab);
  }

  __device__ __forceinline__ float Ssim() const {
    constexpr float kC1 = (0.01f * 255) * (0.01f * 255), kC2 = (0.03f * 255) * (0.03f * 255);
    const float variances = (aa - a * a) + (bb - b * b), covariance = ab - a * b;
    const float ma = a + kOffset, mb = b + kOffset;
    return (2 * ma * mb + kC1) * (2 * covariance + kC2) /
           ((ma * ma + mb * mb + kC1) * (variances + kC2));
  }
};

__global__ void SsimNaive(const float* src, Size size, Size out, const float* window,
                          float* values) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= out.width || y >= out.height) return;
  const int64_t plane = int64_t{size.width} * size.height;
  Moments moments;
  for (int dy = 0; dy < kWindow; ++dy) {
    for (int dx = 0; dx < kWindow; ++dx) {
      const int64_t at = int64_t{y + dy} * size.width + x + dx;
      moments.Take(window[dy] * window[dx], src[at] - kOffset, src[plane + at] - kOffset);
    }
  }
  values[int64_t{y} * out.width + x] = moments.Ssim();
}

__global__ void SsimShared(const float* src, Size size, Size out, const float* window,
                           float* sums) {
  constexpr int kBelow = kSsimRows + kWindow - 1, kAcross = kSsimColumns + kWindow - 1;
  constexpr int kThreads = kSsimColumns * kSsimRows, kMoments = 5;
  __shared__ float pixels[2][kBelow][kAcross];
  __shared__ float rows[kMoments][kBelow][kSsimColumns];
  __shared__ float weights[kWindow];
  const int left = blockIdx.x * kSsimColumns, top = blockIdx.y * kSsimRows;
  const int64_t plane = int64_t{size.width} * size.height;
  const int thread = threadIdx.y * kSsimColumns + threadIdx.x;
  if (thread < kWindow) weights[thread] = window[thread];
  for (int row = threadIdx.y; row < kBelow; row += kSsimRows) {
    const int64_t y = min(top + row, size.height - 1);
    for (int column = threadIdx.x; column < kAcross; column += kSsimColumns) {
      const int64_t at = y * size.width + min(left + column, size.width - 1);
      pixels[0][row][column] = src[at] - kOffset;
      pixels[1][row][column] = src[plane + at] - kOffset;
    }
  }
  __syncthreads();
  for (int row = threadIdx.y; row < kBelow; row += kSsimRows) {
    Moments moments;
#pragma unroll
    for (int i = 0; i < kWindow; ++i) {
      const int column = threadIdx.x + i;
      moments.Take(weights[i], pixels[0][row][column], pixels[1][row][column]);
    }
    rows[0][row][threadIdx.x] = moments.a;
    rows[1][row][threadIdx.x] = moments.b;
    rows[2][row][threadIdx.x] = moments.aa;
    rows[3][row][threadIdx.x] = moments.bb;
    rows[4][row][threadIdx.x] = moments.ab;
  }
  __syncthreads();
  float means[kMoments] = {};
#pragma unroll
  for (int i = 0; i < kWindow; ++i) {
#pragma unroll
    for (int k = 0; k < kMoments; ++k) {
      means[k] = fmaf(weights[i], rows[k][threadIdx.y + i][threadIdx.x], means[k]);
    }
  }
  const Moments moments{means[0], means[1], means[2], means[3], means[4]};
  const bool inside = left + threadIdx.x < out.width && top + threadIdx.y < out.height;
  const float sum = BlockTotal<kThreads>(inside ? moments.Ssim() : 0.0f, thread, Add());
  if (thread == 0) sums[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = sum;
}

cudaError_t LaunchSumUp(const float* partials, size_t count, double* total, cudaStream_t stream) {
  SumUp<<<1, 1024, 0, stream>>>(partials, static_cast<int64_t>(count), total);
  return cudaGetLastError();
}

Size Windows(Size size) { return {size.width - kWindow + 1, size.height - kWindow + 1}; }

}  // namespace

size_t SquaredErrorPartials(Size size) {
  return static_cast<size_t>(BlockCount(size.Area(), kErrorRun));
}

size_t SsimPartials(SsimStep step, Size size) {
  const Size out = Windows(size);
  if (step == SsimStep::kNaive) return static_cast<size_t>(out.Area());
  return static_cast<size_t>(BlockCount(out.width, kSsimColumns)) *
         BlockCount(out.height, kSsimRows);
}

cudaError_t LaunchSquaredError(SquaredErrorStep step, const float* src, Size size, float* partials,
                               double* total, cudaStream_t stream) {
  const int64_t count = size.Area();
  const int runs = BlockCount(count, kErrorRun);
  switch (step) {
    case SquaredErrorStep::kNaive:
      ErrorNaive<<<BlockCount(runs, kWarp), kWarp, 0, stream>>>(src, count, partials);
      break;
    case SquaredErrorStep::kShared:
      ErrorShared<<<runs, kReduceThreads, 0, stream>>>(src, count, partials);
      break;
    case SquaredErrorStep::kShuffles:
      ErrorShuffles<<<runs, kReduceThreads, 0, stream>>>(src, count, partials);
      break;
  }
  return LaunchSumUp(partials, SquaredErrorPartials(size), total, stream);
}

cudaError_t LaunchSsim(SsimStep step, const float* src, Size size, const float* window,
                       float* partials, double* total, cudaStream_t stream) {
  const Size out = Windows(size);
  const dim3 blocks(BlockCount(out.width, kSsimColumns), BlockCount(out.height, kSsimRows));
  const dim3 threads(kSsimColumns, kSsimRows);
  if (step == SsimStep::kNaive) {
    SsimNaive<<<blocks, threads, 0, stream>>>(src, size, out, window, partials);
  } else {
    SsimShared<<<blocks, threads, 0, stream>>>(src, size, out, window, partials);
  }
  return LaunchSumUp(partials, SsimPartials(step, size), total, stream);
}

}  // namespace upscaled::cuda
