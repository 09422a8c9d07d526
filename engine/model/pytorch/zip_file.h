// The files of torch.save since PyTorch 1.6: NAME/data.pkl, and NAME/data/KEY for each storage.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled::pytorch {

// See ParsePytorch.
absl::StatusOr<std::unique_ptr<TensorFile>> ParseZipFile(std::string bytes);

}  // namespace upscaled::pytorch
