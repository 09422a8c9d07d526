#include "engine/train/gemm.h"

#include <omp.h>

#include "engine/base/check.h"
#include "oneapi/dnnl/dnnl.h"

namespace upscaled::train {
namespace {

double At(const Matrix<double>& m, int row, int column) {
  return m.transposed ? m.values[column * m.stride + row] : m.values[row * m.stride + column];
}

}  // namespace

void Gemm(int rows, int columns, int depth, Matrix<float> a, Matrix<float> b, bool add, float* c,
          size_t c_stride) {
  omp_set_num_threads(1);  // of this thread's products
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns, depth, 1.0f, a.values,
      static_cast<dnnl_dim_t>(a.stride), b.values, static_cast<dnnl_dim_t>(b.stride),
      add ? 1.0f : 0.0f, c, static_cast<dnnl_dim_t>(c_stride));
  UPSCALED_CHECK(status == dnnl_success);
}

void Gemm(int rows, int columns, int depth, Matrix<double> a, Matrix<double> b, bool add, double* c,
          size_t c_stride) {
  for (int r = 0; r < rows; ++r) {
    for (int n = 0; n < columns; ++n) {
      double sum = 0;
      for (int d = 0; d < depth; ++d) sum += At(a, r, d) * At(b, d, n);
      double& result = c[r * c_stride + n];
      result = add ? result + sum : sum;
    }
  }
}

}  // namespace upscaled::train
