// Tensors as a .safetensors file: from PyTorch's programs to what no reader has to run.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

// Names and shapes as they are, values in fp32. Errors of TensorFile::Read.
absl::StatusOr<std::string> WriteSafetensors(const TensorFile& tensors);

}  // namespace upscaled
