// The look at an ONNX file before Protobuf builds its messages, which take far more than the bytes
// that stand for them.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace upscaled::onnx {

// RESOURCE_EXHAUSTED: more than kMaxOnnxFields fields and numbers in what the schema reads (weights
// in float_data and raw_data aside). INVALID_ARGUMENT: no protocol buffer.
absl::Status CheckSize(std::string_view bytes);

}  // namespace upscaled::onnx
