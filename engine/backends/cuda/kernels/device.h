// The kernels' device operations, by the PTX ISA's names: inline PTX where nvcc compiles, and
// elsewhere declarations. Tests define them to run the kernels without a GPU.
//
// Shared memory is addressed in bytes from the start of the block's dynamic shared memory.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/portable.h"
#include "engine/backends/cuda/kernels/tensor_map.h"

namespace upscaled::cuda {
inline constexpr int kWarpThreads = 32;
}

#ifdef __CUDACC__

#include <cuda_fp16.h>

#define UPSCALED_DEVICE __device__ __forceinline__

namespace upscaled::cuda {

extern __shared__ __align__(128) unsigned char shared_memory[];

UPSCALED_DEVICE int ThreadIndex() { return static_cast<int>(threadIdx.x); }
UPSCALED_DEVICE int BlockX() { return static_cast<int>(blockIdx.x); }
UPSCALED_DEVICE int BlockY() { return static_cast<int>(blockIdx.y); }
UPSCALED_DEVICE int BlockZ() { return static_cast<int>(blockIdx.z); }
UPSCALED_DEVICE int GridX() { return static_cast<int>(gridDim.x); }
UPSCALED_DEVICE void SyncThreads() { __syncthreads(); }
UPSCALED_DEVICE void SyncWarp() { __syncwarp(); }
// The first lane's value, known to the compiler as the same in all lanes.
UPSCALED_DEVICE int OfWarp(int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }
// The value of the lane with a number different by these bits.
UPSCALED_DEVICE int ShuffleXor(int value, int bits) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, bits);
}

template <typename T>
UPSCALED_DEVICE T* SharedAt(uint32_t address) {
  return reinterpret_cast<T*>(shared_memory + address);
}
UPSCALED_DEVICE uint32_t SharedState(uint32_t address) {  // in the state space .shared
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory)) + address;
}

UPSCALED_DEVICE float HalfToFloat(uint16_t half) { return __half2float(__ushort_as_half(half)); }
UPSCALED_DEVICE uint16_t FloatToHalf(float value) {
  return __half_as_ushort(__float2half_rn(value));
}

// 16 bytes, zeros if not `inside`, when the source is not read.
UPSCALED_DEVICE void CopyAsync16(uint32_t dst, const void* src, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedState(dst)), "l"(src),
               "r"(inside ? 16 : 0)
               : "memory");
}
UPSCALED_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `kPending` of the thread's latest groups are in flight.
template <int kPending>
UPSCALED_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
// Four 8x8 matrices of halves; lane l gives the address of row l % 8 of matrix l / 8.
UPSCALED_DEVICE void LoadMatrices(uint32_t (&matrices)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(SharedState(address))
               : "memory");
}
// The same matrices, transposed: a lane's two halves of each are of column lane / 4.
UPSCALED_DEVICE void LoadTransposed(uint32_t (&matrices)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(SharedState(address))
               : "memory");
}
// Its inverse (sm_90 and later).
UPSCALED_DEVICE void StoreTransposed(uint32_t address, const uint32_t (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(SharedState(address)), "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]),
                 "r"(matrices[3])
               : "memory");
}
// Two floats as halves; NaN where they are beyond the range: infinity * 0 + infinity.
UPSCALED_DEVICE uint32_t PackHalves(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  asm("fma.rn.f16x2 %0, %0, %1, %0;" : "+r"(pair) : "r"(0));
  return pair;
}
// m16n8k16: sum += a * b.
UPSCALED_DEVICE void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                 uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Barriers of arrivals in shared memory (mbarrier), 8 bytes each. Phases alternate between parity 0
// and 1.
UPSCALED_DEVICE void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedState(barrier)), "r"(arrivals)
               : "memory");
}
UPSCALED_DEVICE void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedState(barrier)) : "memory");
}
// A thread's tries for all of its waits: more than a right kernel needs, as each takes a hundred
// clocks at least, and up to a time set by the device. When they are used up, no wait waits any
// more. Then the thread copies nothing any more, stores NaN, and marks the launch
// (ConvParams::gave_up): the kernel ends.
struct Patience {
  int tries = 1 << 20;

  UPSCALED_DEVICE bool IsUsedUp() const { return tries <= 0; }
};
// Until the phase of this parity is complete.
UPSCALED_DEVICE void WaitForPhase(uint32_t barrier, int parity, Patience& patience) {
  asm volatile(
      "{\n"
      ".reg .pred complete, left;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "@complete bra done;\n"
      "sub.s32 %0, %0, 1;\n"
      "setp.gt.s32 left, %0, 0;\n"
      "@left bra again;\n"
      "done:\n"
      "}"
      : "+r"(patience.tries)
      : "r"(SharedState(barrier)), "r"(parity)
      : "memory");
}
// An arrival; the phase also waits for `bytes` of the engine's copies.
UPSCALED_DEVICE void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedState(barrier)),
               "r"(bytes)
               : "memory");
}
// Makes initialized barriers visible to the copy engine.
UPSCALED_DEVICE void FenceBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// A meeting of `threads` threads, whole warps, by the number of one of 15 places.
UPSCALED_DEVICE void SyncWarps(int place, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(place), "r"(threads) : "memory");
}

// The copy engine (TMA): boxes at {8 x, y, plane, tile}, see tensor_map.h, and whole runs of bytes.
// Its bytes count at a barrier. The storing thread waits for its stores.
UPSCALED_DEVICE void LoadBox(uint32_t to, const TensorMap& map, int x, int y, int plane, int tile,
                             uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(SharedState(to)),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(SharedState(barrier)), "r"(x), "r"(y), "r"(plane),
      "r"(tile)
      : "memory");
}
UPSCALED_DEVICE void StoreBox(const TensorMap& map, int x, int y, int plane, int tile,
                              uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n"
      "cp.async.bulk.commit_group;" ::"l"(reinterpret_cast<uint64_t>(&map)),
      "r"(SharedState(from)), "r"(x), "r"(y), "r"(plane), "r"(tile)
      : "memory");
}
UPSCALED_DEVICE void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedState(to)),
      "l"(from), "r"(bytes), "r"(SharedState(barrier))
      : "memory");
}
// Until the engine has read, or written, the thread's stores.
UPSCALED_DEVICE void WaitStoresRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
UPSCALED_DEVICE void WaitStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Makes the thread's writes to shared memory visible to wgmma and the copy engine.
UPSCALED_DEVICE void FenceForProducts() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Hands registers from one group of 128 threads to another.
template <int kCount>
UPSCALED_DEVICE void ReduceRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
UPSCALED_DEVICE void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Products of 128 threads (wgmma). Their sums may not be touched between Begin and Wait.
UPSCALED_DEVICE void BeginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
UPSCALED_DEVICE void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
UPSCALED_DEVICE void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// After the wait: keeps the sums' uses behind it; otherwise they depend only on the products'
// issue.
template <int kCount>
UPSCALED_DEVICE void HoldSums(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

UPSCALED_DEVICE void AtomicAdd(int64_t* sum, int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
}

}  // namespace upscaled::cuda

#include "engine/backends/cuda/kernels/wgmma_shapes.h"

#else

#define UPSCALED_DEVICE inline

namespace upscaled::cuda {

int ThreadIndex();
int BlockX();
int BlockY();
int BlockZ();
int GridX();
void SyncThreads();
void SyncWarp();
inline int OfWarp(int value) { return value; }
int ShuffleXor(int value, int bits);
unsigned char* SharedMemory();
template <typename T>
T* SharedAt(uint32_t address) {
  return reinterpret_cast<T*>(SharedMemory() + address);
}
uint32_t SharedState(uint32_t address);
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);
void CopyAsync16(uint32_t dst, const void* src, bool inside);
void CommitCopies();
void WaitPending(int pending);
template <int kPending>
void WaitCopies() {
  WaitPending(kPending);
}
void LoadMatrices(uint32_t (&matrices)[4], uint32_t address);
void LoadTransposed(uint32_t (&matrices)[4], uint32_t address);
void StoreTransposed(uint32_t address, const uint32_t (&matrices)[4]);
uint32_t PackHalves(float low, float high);
void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void InitBarrier(uint32_t barrier, int arrivals);
void Arrive(uint32_t barrier);
struct Patience {
  int tries = 1;  // one, for all of its waits

  bool IsUsedUp() const { return tries <= 0; }
};
void WaitForPhase(uint32_t barrier, int parity, Patience& patience);
void ArriveExpecting(uint32_t barrier, uint32_t bytes);
void FenceBarriers();
void SyncWarps(int place, int threads);
void LoadBox(uint32_t to, const TensorMap& map, int x, int y, int plane, int tile,
             uint32_t barrier);
void StoreBox(const TensorMap& map, int x, int y, int plane, int tile, uint32_t from);
void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier);
void WaitStoresRead();
void WaitStores();
void FenceForProducts();
template <int kCount>
void ReduceRegisters() {}
template <int kCount>
void RaiseRegisters() {}
void BeginProducts();
void CommitProducts();
void WaitPendingProducts(int pending);
template <int kPending>
void WaitProducts() {
  WaitPendingProducts(kPending);
}
void MultiplyColumns(float* d, int columns, uint64_t a, uint64_t b, bool add);
template <int kCount>
void MultiplyGroup(float (&d)[kCount], uint64_t a, uint64_t b, bool add) {
  MultiplyColumns(d, 2 * kCount, a, b, add);
}
template <int kCount>
void HoldSums(float (&/*d*/)[kCount]) {}
void AtomicAdd(int64_t* sum, int64_t value);

}  // namespace upscaled::cuda

#endif
