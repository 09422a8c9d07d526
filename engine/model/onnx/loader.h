// ONNX: https://onnx.ai/onnx/operators
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled {

// A network of a file's content, its scale and border inferred from the layers; validated. Height
// and width are free, for any size of the export. INVALID_ARGUMENT for a broken file, UNIMPLEMENTED
// for an operator or attribute outside our operations, both naming the node; RESOURCE_EXHAUSTED for
// one with too much memory to read.
absl::StatusOr<Network> ParseOnnx(std::string_view bytes);

// Whether a file with this beginning is likely ONNX; ONNX has no magic number.
bool LooksLikeOnnx(std::string_view head);

}  // namespace upscaled
