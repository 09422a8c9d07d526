#include "engine/train/cuda/cuda_convs.h"

#include <memory>

#include "engine/base/status_macros.h"
#include "engine/train/cuda/cublas.h"
#include "engine/train/cuda/cublas_conv.h"

namespace upscaled::train {

absl::StatusOr<ConvDevice> OpenCudaConvs() {
  ASSIGN_OR_RETURN(const CublasApi api, LoadCublas());
  ASSIGN_OR_RETURN(const std::shared_ptr<Cublas> cublas, Cublas::Create(api));
  return CublasConvs(cublas);
}

}  // namespace upscaled::train
