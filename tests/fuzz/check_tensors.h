// The rules for a file of weights that a loader accepted.
#pragma once

#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

// Aborts unless each tensor that can be read has as many values as its shape says.
void CheckTensors(const TensorFile& file);

}  // namespace upscaled
