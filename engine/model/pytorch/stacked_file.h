// Files of torch.save before PyTorch 1.6, as many published networks have it: four pickles (a magic
// number, a version, the machine, the value), a pickled list of keys, and for each key the number
// of a storage's values (8 bytes) and the values.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled::pytorch {

// See ParsePytorch.
absl::StatusOr<std::unique_ptr<TensorFile>> ParseStackedFile(std::string bytes);

}  // namespace upscaled::pytorch
