// Where the build has no CUDA.
#include "absl/status/status.h"
#include "engine/train/cuda/cuda_convs.h"

namespace upscaled::train {

absl::StatusOr<ConvDevice> OpenCudaConvs() {
  return absl::UnavailableError("this build has no CUDA");
}

}  // namespace upscaled::train
