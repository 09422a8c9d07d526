#include "engine/train/cuda/cublas.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

#define UPSCALED_STRING_OF(x) #x
#define UPSCALED_STRING(x) UPSCALED_STRING_OF(x)

namespace upscaled::train {
namespace {

// The interface this is compiled for.
constexpr char kLibrary[] = "libcublas.so." UPSCALED_STRING(CUBLAS_VER_MAJOR);

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

absl::StatusOr<CublasApi> LoadCublas() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  CublasApi api{
      .allocate = &cudaMalloc, .free = &cudaFree, .set = &cudaMemset, .copy = &cudaMemcpy2D};
  if (library != nullptr && Find(library, "cublasCreate_v2", api.create) &&
      Find(library, "cublasDestroy_v2", api.destroy) &&
      Find(library, "cublasSgemmStridedBatched", api.multiply_floats) &&
      Find(library, "cublasDgemmStridedBatched", api.multiply_doubles)) {
    return api;
  }
  return absl::UnavailableError(dlerror());
}

absl::StatusOr<std::shared_ptr<Cublas>> Cublas::Create(const CublasApi& api) {
  std::shared_ptr<Cublas> cublas(new Cublas(api));
  absl::MutexLock lock(&cublas->mutex_);
  const cublasStatus_t created = api.create(&cublas->handle_);
  if (created == CUBLAS_STATUS_SUCCESS) return cublas;
  return absl::UnavailableError(
      absl::StrCat("no CUDA device works here: cublasCreate gives error ", int{created}));
}

Cublas::~Cublas() {
  if (handle_ != nullptr) api_.destroy(handle_);
}

absl::Status Cublas::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void Cublas::Note(bool worked, int error, std::string_view call) {
  if (worked || !status_.ok()) return;
  status_ = absl::UnavailableError(absl::StrCat("CUDA: ", ToAbsl(call), " gives error ", error));
}

void* Cublas::Allocate(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  void* data = nullptr;
  if (!status_.ok()) return data;
  const cudaError_t error = api_.allocate(&data, bytes);
  Note(error == cudaSuccess, error, absl::StrCat("cudaMalloc of ", bytes, " bytes"));
  return error == cudaSuccess ? data : nullptr;
}

void Cublas::Free(void* data) {
  absl::MutexLock lock(&mutex_);
  if (data != nullptr) api_.free(data);
}

void Cublas::Clear(void* data, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  const cudaError_t error = api_.set(data, 0, bytes);
  Note(error == cudaSuccess, error, "cudaMemset");
}

template <typename Real>
void Cublas::Copy(const Real* from, const Lines& lines, Real* to, size_t to_stride,
                  cudaMemcpyKind kind, std::string_view call) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  const cudaError_t error =
      api_.copy(to, to_stride * sizeof(Real), from, lines.stride * sizeof(Real),
                lines.values * sizeof(Real), lines.count, kind);
  Note(error == cudaSuccess, error, call);
}

template <typename Real>
void Cublas::Upload(const Real* from, const Lines& lines, Real* to, size_t to_stride) {
  Copy(from, lines, to, to_stride, cudaMemcpyHostToDevice, "a copy to the device");
}

template <typename Real>
void Cublas::Download(const Real* from, const Lines& lines, Real* to, size_t to_stride) {
  Copy(from, lines, to, to_stride, cudaMemcpyDeviceToHost, "a copy from the device");
}

// cuBLAS's matrices are columns of adjacent values. Read as rows, they are transposed: c^T = b^T x
// a^T.
template <typename Real>
void Cublas::Multiply(const ProductArgs<Real>& product, const ProductBatch& batch) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  const bool turned = product.a_row == 1 && product.a_depth != 1;
  const Real one = 1, kept = product.add ? 1 : 0;
  const auto multiply = [&] {
    if constexpr (std::is_same_v<Real, float>) {
      return api_.multiply_floats;
    } else {
      return api_.multiply_doubles;
    }
  }();
  const cublasStatus_t status =
      multiply(handle_, CUBLAS_OP_N, turned ? CUBLAS_OP_T : CUBLAS_OP_N, product.columns,
               product.rows, product.depth, &one, product.b, static_cast<int>(product.b_stride), 0,
               product.a, static_cast<int>(turned ? product.a_depth : product.a_row),
               static_cast<long long>(batch.a_step),  // NOLINT: cuBLAS's type
               &kept, product.c, static_cast<int>(product.c_stride),
               static_cast<long long>(batch.c_step), batch.count);  // NOLINT
  Note(status == CUBLAS_STATUS_SUCCESS, status, "a matrix product");
}

template void Cublas::Upload(const float*, const Lines&, float*, size_t);
template void Cublas::Upload(const double*, const Lines&, double*, size_t);
template void Cublas::Download(const float*, const Lines&, float*, size_t);
template void Cublas::Download(const double*, const Lines&, double*, size_t);
template void Cublas::Multiply(const ProductArgs<float>&, const ProductBatch&);
template void Cublas::Multiply(const ProductArgs<double>&, const ProductBatch&);

}  // namespace upscaled::train
