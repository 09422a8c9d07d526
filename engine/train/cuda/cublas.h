// A CUDA device as training needs it: memory, copies and matrix products.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/train/kernels/product.h"

namespace upscaled::train {

// All calls in use; tests put the host's in their place.
struct CublasApi {
  decltype(&cudaMalloc) allocate;
  decltype(&cudaFree) free;
  decltype(&cudaMemset) set;
  decltype(&cudaMemcpy2D) copy;
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSgemmStridedBatched) multiply_floats;
  decltype(&cublasDgemmStridedBatched) multiply_doubles;
};

// The runtime's, linked into programs, and cuBLAS's, loaded by them: they start where it is not
// installed. UNAVAILABLE when it cannot be loaded.
absl::StatusOr<CublasApi> LoadCublas();

// `count` products with one right side. Each next `a` and `c` lies `a_step` and `c_step` values on.
struct ProductBatch {
  int count = 1;
  size_t a_step = 0, c_step = 0;
};

// Lines of values, at this distance from one to the next.
struct Lines {
  size_t count, values, stride;
};

// For any thread. After the first error calls do nothing, and results are undefined.
class Cublas {
 public:
  // UNAVAILABLE without a working device.
  static absl::StatusOr<std::shared_ptr<Cublas>> Create(const CublasApi& api);
  ~Cublas();
  absl::Status status() const;

  // Null where memory is out.
  void* Allocate(size_t bytes);
  void Free(void* data);
  void Clear(void* data, size_t bytes);
  // `from` is the host's, `to` the device's; and back. Strides of either side in values.
  template <typename Real>
  void Upload(const Real* from, const Lines& lines, Real* to, size_t to_stride);
  template <typename Real>
  void Download(const Real* from, const Lines& lines, Real* to, size_t to_stride);
  // All matrices are the device's.
  template <typename Real>
  void Multiply(const ProductArgs<Real>& product, const ProductBatch& batch = {});

 private:
  explicit Cublas(const CublasApi& api) : api_(api) {}
  template <typename Real>
  void Copy(const Real* from, const Lines& lines, Real* to, size_t to_stride, cudaMemcpyKind kind,
            std::string_view call);
  void Note(bool worked, int error, std::string_view call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CublasApi api_;
  mutable absl::Mutex mutex_;
  cublasHandle_t handle_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Values of the device. Contents are undefined until written.
template <typename Real>
class DeviceArray {
 public:
  explicit DeviceArray(std::shared_ptr<Cublas> device) : device_(std::move(device)) {}
  ~DeviceArray() { device_->Free(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  // Makes room for `count` values; the old contents may be lost.
  Real* Reserve(size_t count) {
    if (count <= capacity_) return data_;
    device_->Free(data_);
    data_ = static_cast<Real*>(device_->Allocate(count * sizeof(Real)));
    capacity_ = data_ == nullptr ? 0 : count;
    return data_;
  }
  Real* data() const { return data_; }

 private:
  const std::shared_ptr<Cublas> device_;
  Real* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace upscaled::train
