// Hugging Face's .safetensors: a JSON header of names, types and places, and the values.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

// Checks the whole header against the present bytes: tensors must fill them, without a gap and
// without an overlap. INVALID_ARGUMENT and RESOURCE_EXHAUSTED name the value and the limit.
absl::StatusOr<std::unique_ptr<TensorFile>> ParseSafetensors(std::string bytes);

// Whether a file with this beginning may be one.
bool LooksLikeSafetensors(std::string_view head);

}  // namespace upscaled
