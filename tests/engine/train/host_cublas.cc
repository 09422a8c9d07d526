#include "tests/engine/train/host_cublas.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace upscaled::test {
namespace {

std::atomic<int> allocations_left = std::numeric_limits<int>::max();
std::atomic<int> allocations = 0;

cudaError_t Allocate(void** data, size_t bytes) {
  if (allocations_left-- <= 0) return cudaErrorMemoryAllocation;
  ++allocations;
  *data = std::malloc(bytes);
  std::memset(*data, 0xFF, bytes);
  return cudaSuccess;
}

cudaError_t Free(void* data) {
  --allocations;
  std::free(data);
  return cudaSuccess;
}

cudaError_t Set(void* data, int value, size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}

cudaError_t Copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                 size_t height, cudaMemcpyKind /*kind*/) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  for (size_t y = 0; y < height; ++y) {
    std::memcpy(static_cast<char*>(to) + y * to_pitch,
                static_cast<const char*>(from) + y * from_pitch, width);
  }
  return cudaSuccess;
}

cublasStatus_t Create(cublasHandle_t* handle) {
  static char any;
  *handle = reinterpret_cast<cublasHandle_t>(&any);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Destroy(cublasHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }

// c = alpha * op(a) x op(b) + beta * c, in columns, as cuBLAS's manual has it.
template <typename Real>
cublasStatus_t Multiply(cublasHandle_t /*handle*/, cublasOperation_t turn_a,
                        cublasOperation_t turn_b, int m, int n, int k, const Real* alpha,
                        const Real* a, int lda, long long step_a,  // NOLINT: cuBLAS's type
                        const Real* b, int ldb, long long step_b,  // NOLINT
                        const Real* beta, Real* c, int ldc, long long step_c,  // NOLINT
                        int count) {
  const bool a_turned = turn_a == CUBLAS_OP_T, b_turned = turn_b == CUBLAS_OP_T;
  if (m < 0 || n < 0 || k < 0 || count < 0 || lda < (a_turned ? k : m) ||
      ldb < (b_turned ? n : k) || ldc < m ||
      (count > 1 && step_c < (long long){ldc} * (n - 1) + m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (int i = 0; i < count; ++i, a += step_a, b += step_b, c += step_c) {
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        double sum = 0;
        for (int d = 0; d < k; ++d) {
          sum += double{a[a_turned ? size_t{1} * row * lda + d : size_t{1} * d * lda + row]} *
                 b[b_turned ? size_t{1} * d * ldb + column : size_t{1} * column * ldb + d];
        }
        Real& to = c[size_t{1} * column * ldc + row];
        to = static_cast<Real>(*alpha * sum + (*beta == 0 ? 0 : *beta * to));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

train::CublasApi HostCublas() {
  return {.allocate = &Allocate,
          .free = &Free,
          .set = &Set,
          .copy = &Copy,
          .create = &Create,
          .destroy = &Destroy,
          .multiply_floats = &Multiply<float>,
          .multiply_doubles = &Multiply<double>};
}

void SetHostCublasAllocations(int count) { allocations_left = count; }

int HostCublasAllocations() { return allocations; }

}  // namespace upscaled::test
