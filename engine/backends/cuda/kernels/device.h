// The device operations that kernels use, by the PTX ISA's names: inline PTX where nvcc
// compiles, and declarations elsewhere, which tests define to run the kernels without a GPU.
//
// Shared memory is addressed in bytes from the start of the block's dynamic shared memory.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/portable.h"

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
// The first lane's value, of which the compiler knows that it is the same in all lanes.
UPSCALED_DEVICE int OfWarp(int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }
// That of the lane whose number differs by these bits.
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
// Until at most `kPending` of the thread's latest groups are under way.
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
// Until the phase of this parity is complete.
UPSCALED_DEVICE void WaitForPhase(uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
      "@!complete bra again;\n"
      "}" ::"r"(SharedState(barrier)),
      "r"(parity)
      : "memory");
}
// Makes the thread's writes to shared memory visible to wgmma.
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
// m64n256k16: sums = a * b, or sums += a * b. Operands are descriptors (wgmma_operand.h).
UPSCALED_DEVICE void MultiplyGroup(float (&d)[128], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127}, "
      "%128, %129, accumulate, 1, 1, 0, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
        "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
        "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
        "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),
        "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]),
        "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),
        "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
        "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]),
        "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

// After the wait: keeps the sums' uses behind it, which otherwise depend on the products' issue
// alone.
UPSCALED_DEVICE void HoldSums(float (&d)[128]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

UPSCALED_DEVICE void AtomicAdd(int64_t* sum, int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
}

}  // namespace upscaled::cuda

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
void WaitForPhase(uint32_t barrier, int parity);
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
void MultiplyGroup(float (&d)[128], uint64_t a, uint64_t b, bool add);
inline void HoldSums(float (&/*d*/)[128]) {}
void AtomicAdd(int64_t* sum, int64_t value);

}  // namespace upscaled::cuda

#endif
