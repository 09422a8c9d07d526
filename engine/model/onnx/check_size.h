// The look at an ONNX file before Protobuf builds its messages: they take far more than their
// bytes.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace upscaled::onnx {

// RESOURCE_EXHAUSTED: more than kMaxOnnxFields fields and numbers in the parts the schema reads
// (weights in float_data and raw_data aside). INVALID_ARGUMENT: no protocol buffer.
absl::Status CheckSize(std::string_view bytes);

}  // namespace upscaled::onnx
