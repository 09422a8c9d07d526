// The values of an ONNX tensor, from any way of storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// The number of values by the dimensions. INVALID_ARGUMENT: negative, or more than kMaxWeights.
absl::StatusOr<int64_t> ValueCount(const TensorProto& tensor);

// Float or float16. UNIMPLEMENTED: another type, or values in another file. INVALID_ARGUMENT: other
// than as many values as announced.
absl::StatusOr<std::vector<float>> ReadFloats(const TensorProto& tensor);

// Int64 or int32; the same errors.
absl::StatusOr<std::vector<int64_t>> ReadInts(const TensorProto& tensor);

// The value of a tensor of one number, of any type of ReadNumbers; nullopt: of another number of
// them, or it cannot be read.
std::optional<double> ReadScalar(const TensorProto& tensor);

// "64x3x3x3"; "a scalar".
std::string DescribeShape(const TensorProto& tensor);

// The name of a TensorProto::data_type; also of unread ones.
std::string DataTypeName(int data_type);
bool IsFloatType(int data_type);

}  // namespace upscaled::onnx
