// Computes nodes of numbers only.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/onnx/attributes.h"
#include "engine/model/onnx/numbers.h"

namespace upscaled::onnx {

// Whether there is a function for the operator below.
bool CanEvaluate(std::string_view op);
// Whether it is of numbers that follow from the size. The others that can be evaluated are curves
// and products, which are of planes if they are not of weights only.
bool IsOfNumbers(std::string_view op);

// The node's `outputs` results for these inputs; null for an omitted one. INVALID_ARGUMENT or
// UNIMPLEMENTED: inputs or attributes outside of the operator's, or of ours. RESOURCE_EXHAUSTED:
// more than kMaxOnnxFolded numbers.
absl::StatusOr<std::vector<Numbers>> Evaluate(std::string_view op, Attributes& attributes,
                                              const std::vector<const Numbers*>& inputs,
                                              size_t outputs);

}  // namespace upscaled::onnx
