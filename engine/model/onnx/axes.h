// Axes as nodes name them: from the first, or backwards from behind the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/onnx/attributes.h"

namespace upscaled::onnx {

// In 0..axes - 1. INVALID_ARGUMENT: it is another axis.
absl::StatusOr<int64_t> ToAxis(int64_t axis, size_t axes);
absl::StatusOr<std::vector<int64_t>> ToAxes(const std::vector<int64_t>& given, size_t axes);

// Marks the named ones of `axes` axes. INVALID_ARGUMENT: a number lies outside, or comes twice.
absl::StatusOr<std::vector<bool>> MarkAxes(const std::vector<int64_t>& named, size_t axes);

// INVALID_ARGUMENT: the order has not each axis once.
absl::Status CheckPermutation(const std::vector<int64_t>& order, size_t axes);

// The sides of a Split's results along an axis of `side`: those that it wants, or equal ones, the
// last of them smaller where they do not divide it.
absl::StatusOr<std::vector<int64_t>> SplitParts(Attributes& attributes,
                                                const std::vector<int64_t>& wanted, size_t outputs,
                                                int64_t side);

}  // namespace upscaled::onnx
