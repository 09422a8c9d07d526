// Tensors as a .safetensors file: from PyTorch's programs to plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::string WriteSafetensors(std::span<const NamedTensor> tensors);

// Names and shapes as they are, values in fp32. Errors of TensorFile::Read.
absl::StatusOr<std::string> WriteSafetensors(const TensorFile& tensors);

}  // namespace upscaled
