// A warp's 32 accesses are as few transactions as they touch 32-byte sectors.
// Transposition:
//   kNaive    reads along rows, writes along columns: a sector for each value
//   kShared   through a tile in shared memory both are along rows; but a column of the tile lies in
//             one bank, which serves 32 threads one after the other
//   kPadded   rows of the tile are one word longer: a column lies in 32 banks
//   kSeveral  a quarter of the threads, four rows each: as many loads in flight, fewer indices
// Pixels to planes and back, 3 bytes to 32 and back:
//   kNaive    a thread a value of the result
//   kPixel    one thread per pixel, 16 bytes an access where there are floats
//   kShared   four pixels a thread; the bytes go through shared memory as whole words
#include "tests/bench/image_kernels/cuda/indices.h"
#include "tests/bench/image_kernels/cuda/transpose.h"

namespace upscaled::cuda {
namespace {

__global__ void Naive(const float* src, Size size, float* dst) {
  const int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  if (x >= size.width || y >= size.height) return;
  dst[int64_t{x} * size.height + y] = src[int64_t{y} * size.width + x];
}

template <int kPitch, int kThreadRows>
__global__ void Tiled(const float* src, Size size, float* dst) {
  __shared__ float tile[kTile * kPitch];
  const int left = blockIdx.x * kTile, top = blockIdx.y * kTile;
#pragma unroll
  for (int turn = 0; turn < kTile / kThreadRows; ++turn) {
    const int row = TileRow(threadIdx.y, kThreadRows, turn);
    const int x = left + threadIdx.x, y = top + row;
    if (x < size.width && y < size.height) {
      tile[TileIndex(kPitch, row, threadIdx.x)] = src[int64_t{y} * size.width + x];
    }
  }
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < kTile / kThreadRows; ++turn) {
    const int row = TileRow(threadIdx.y, kThreadRows, turn);
    const int x = top + threadIdx.x, y = left + row;  // in the result
    if (x < size.height && y < size.width) {
      dst[int64_t{y} * size.height + x] = tile[TileIndex(kPitch, threadIdx.x, row)];
    }
  }
}

// Levels as floats; rounded like the other devices' value / 255.
__device__ __forceinline__ float ToUnit(uint8_t v) { return v / 255.0f; }

// NaN becomes 0.
__device__ __forceinline__ uint8_t ToLevel(float v) {
  return static_cast<uint8_t>(fmaf(fminf(fmaxf(v, 0.0f), 1.0f), 255.0f, 0.5f));
}

__device__ __forceinline__ void StorePlane(const uint8_t* rgb, float4* dst) {
  dst[0] = make_float4(ToUnit(rgb[0]), ToUnit(rgb[1]), ToUnit(rgb[2]), 0);
  dst[1] = make_float4(0, 0, 0, 0);
}

__device__ __forceinline__ void StoreLevels(float4 plane, uint8_t* rgb) {
  rgb[0] = ToLevel(plane.x);
  rgb[1] = ToLevel(plane.y);
  rgb[2] = ToLevel(plane.z);
}

__device__ __forceinline__ int64_t GlobalThread() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__global__ void ToPlanesNaive(const uint8_t* src, int64_t pixels, float* dst) {
  const int64_t i = GlobalThread(), pixel = i / 8;
  const int channel = static_cast<int>(i % 8);
  if (pixel < pixels) dst[i] = channel < 3 ? ToUnit(src[pixel * 3 + channel]) : 0.0f;
}

__global__ void ToPlanesPixel(const uint8_t* src, int64_t pixels, float4* dst) {
  const int64_t pixel = GlobalThread();
  if (pixel < pixels) StorePlane(src + 3 * pixel, dst + 2 * pixel);
}

__global__ void FromPlanesNaive(const float* src, int64_t pixels, uint8_t* dst) {
  const int64_t i = GlobalThread(), pixel = i / 3;
  if (pixel < pixels) dst[i] = ToLevel(src[pixel * 8 + i % 3]);
}

__global__ void FromPlanesPixel(const float4* src, int64_t pixels, uint8_t* dst) {
  const int64_t pixel = GlobalThread();
  if (pixel < pixels) StoreLevels(src[2 * pixel], dst + 3 * pixel);
}

constexpr int kThreads = 256;
constexpr int kBlockPixels = 4 * kThreads;
constexpr int kBlockBytes = 3 * kBlockPixels;  // a multiple of 4: blocks begin with whole words

// Bytes of the block's pixels, up to the end of the last block.
__device__ __forceinline__ int BytesOfBlock(int64_t pixels) {
  return static_cast<int>(
      min(int64_t{kBlockBytes}, 3 * pixels - int64_t{blockIdx.x} * kBlockBytes));
}

__global__ void ToPlanesShared(const uint8_t* src, int64_t pixels, float4* dst) {
  __shared__ __align__(4) uint8_t bytes[kBlockBytes];
  const uint8_t* block_src = src + int64_t{blockIdx.x} * kBlockBytes;
  const int count = BytesOfBlock(pixels);
  for (int i = threadIdx.x; i < count / 4; i += kThreads) {
    reinterpret_cast<uint32_t*>(bytes)[i] = reinterpret_cast<const uint32_t*>(block_src)[i];
  }
  if (threadIdx.x < count % 4) {
    bytes[count / 4 * 4 + threadIdx.x] = block_src[count / 4 * 4 + threadIdx.x];
  }
  __syncthreads();
  float4* block_dst = dst + int64_t{blockIdx.x} * kBlockPixels * 2;
  for (int i = threadIdx.x; i < count / 3; i += kThreads) {
    StorePlane(bytes + 3 * i, block_dst + 2 * i);
  }
}

__global__ void FromPlanesShared(const float4* src, int64_t pixels, uint8_t* dst) {
  __shared__ __align__(4) uint8_t bytes[kBlockBytes];
  const float4* block_src = src + int64_t{blockIdx.x} * kBlockPixels * 2;
  const int count = BytesOfBlock(pixels);
  for (int i = threadIdx.x; i < count / 3; i += kThreads) {
    StoreLevels(block_src[2 * i], bytes + 3 * i);
  }
  __syncthreads();
  uint8_t* block_dst = dst + int64_t{blockIdx.x} * kBlockBytes;
  for (int i = threadIdx.x; i < count / 4; i += kThreads) {
    reinterpret_cast<uint32_t*>(block_dst)[i] = reinterpret_cast<const uint32_t*>(bytes)[i];
  }
  if (threadIdx.x < count % 4) {
    block_dst[count / 4 * 4 + threadIdx.x] = bytes[count / 4 * 4 + threadIdx.x];
  }
}

}  // namespace

cudaError_t LaunchTranspose(TransposeStep step, const float* src, Size size, float* dst,
                            cudaStream_t stream) {
  const dim3 blocks(BlockCount(size.width, kTile), BlockCount(size.height, kTile));
  switch (step) {
    case TransposeStep::kNaive:
      Naive<<<blocks, dim3(kTile, kTile), 0, stream>>>(src, size, dst);
      break;
    case TransposeStep::kShared:
      Tiled<kTile, kTile><<<blocks, dim3(kTile, kTile), 0, stream>>>(src, size, dst);
      break;
    case TransposeStep::kPadded:
      Tiled<kTile + 1, kTile><<<blocks, dim3(kTile, kTile), 0, stream>>>(src, size, dst);
      break;
    case TransposeStep::kSeveral:
      Tiled<kTile + 1, 8><<<blocks, dim3(kTile, 8), 0, stream>>>(src, size, dst);
      break;
  }
  return cudaGetLastError();
}

cudaError_t LaunchToPlanes(PlanesStep step, const uint8_t* src, int64_t pixels, float* dst,
                           cudaStream_t stream) {
  auto* vectors = reinterpret_cast<float4*>(dst);
  switch (step) {
    case PlanesStep::kNaive:
      ToPlanesNaive<<<BlockCount(8 * pixels, kThreads), kThreads, 0, stream>>>(src, pixels, dst);
      break;
    case PlanesStep::kPixel:
      ToPlanesPixel<<<BlockCount(pixels, kThreads), kThreads, 0, stream>>>(src, pixels, vectors);
      break;
    case PlanesStep::kShared:
      ToPlanesShared<<<BlockCount(pixels, kBlockPixels), kThreads, 0, stream>>>(src, pixels,
                                                                                vectors);
      break;
  }
  return cudaGetLastError();
}

cudaError_t LaunchFromPlanes(PlanesStep step, const float* src, int64_t pixels, uint8_t* dst,
                             cudaStream_t stream) {
  const auto* vectors = reinterpret_cast<const float4*>(src);
  switch (step) {
    case PlanesStep::kNaive:
      FromPlanesNaive<<<BlockCount(3 * pixels, kThreads), kThreads, 0, stream>>>(src, pixels, dst);
      break;
    case PlanesStep::kPixel:
      FromPlanesPixel<<<BlockCount(pixels, kThreads), kThreads, 0, stream>>>(vectors, pixels, dst);
      break;
    case PlanesStep::kShared:
      FromPlanesShared<<<BlockCount(pixels, kBlockPixels), kThreads, 0, stream>>>(vectors, pixels,
                                                                                  dst);
      break;
  }
  return cudaGetLastError();
}

}  // namespace upscaled::cuda
