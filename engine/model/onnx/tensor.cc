#include "engine/model/onnx/tensor.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/half.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/numbers.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is copied as it is");

absl::Status CheckStored(const TensorProto& tensor, int64_t announced, int64_t stored) {
  if (announced == stored) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(tensor.name()), " of ",
                                                 DescribeShape(tensor), " needs ", announced,
                                                 " values, has ", stored));
}

absl::Status Unsupported(const TensorProto& tensor, const char* supported) {
  return absl::UnimplementedError(absl::StrCat("tensor ", Quote(tensor.name()), " has the type ",
                                               DataTypeName(tensor.data_type()), ", supported are ",
                                               supported));
}

// The values as `Stored`, from raw_data or from the field for their type, converted one by one.
template <typename Stored, typename Value, typename Field, typename Convert>
absl::StatusOr<std::vector<Value>> Read(const TensorProto& tensor, const Field& field,
                                        Convert convert) {
  if (tensor.data_location() != TensorProto::DEFAULT) {
    return absl::UnimplementedError(absl::StrCat("tensor '", tensor.name(),
                                                 "' keeps its values in another file (external "
                                                 "data); save the model as a single file"));
  }
  ASSIGN_OR_RETURN(const int64_t count, ValueCount(tensor));
  const std::string& raw = tensor.raw_data();
  std::vector<Value> values;
  if (raw.empty()) {
    RETURN_IF_ERROR(CheckStored(tensor, count, field.size()));
    values.reserve(count);
    for (const auto value : field) values.push_back(convert(static_cast<Stored>(value)));
    return values;
  }
  if (raw.size() != static_cast<size_t>(count) * sizeof(Stored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quote(tensor.name()), " of ", DescribeShape(tensor), " needs ",
                     count * sizeof(Stored), " bytes, has ", raw.size()));
  }
  values.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, raw.data() + i * sizeof(Stored), sizeof(Stored));
    values.push_back(convert(value));
  }
  return values;
}

}  // namespace

absl::StatusOr<int64_t> ValueCount(const TensorProto& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims()) {
    // Neither product nor factor passes 2^27, so nothing overflows.
    if (dim < 0 || dim > kMaxWeights || (count *= dim) > kMaxWeights) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(tensor.name()),
                                                     " has the shape ", DescribeShape(tensor),
                                                     ", must have 0..", kMaxWeights, " values"));
    }
  }
  return count;
}

absl::StatusOr<std::vector<float>> ReadFloats(const TensorProto& tensor) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return Read<float, float>(tensor, tensor.float_data(), [](float v) { return v; });
    case TensorProto::FLOAT16:
      return Read<uint16_t, float>(tensor, tensor.int32_data(), HalfToFloat);
    default:
      return Unsupported(tensor, "float and float16");
  }
}

absl::StatusOr<std::vector<int64_t>> ReadInts(const TensorProto& tensor) {
  switch (tensor.data_type()) {
    case TensorProto::INT64:
      return Read<int64_t, int64_t>(tensor, tensor.int64_data(), [](int64_t v) { return v; });
    case TensorProto::INT32:
      return Read<int32_t, int64_t>(tensor, tensor.int32_data(), [](int32_t v) { return v; });
    default:
      return Unsupported(tensor, "int64 and int32");
  }
}

absl::StatusOr<Numbers> ReadNumbers(const TensorProto& tensor) {
  const auto with_dims =
      [&tensor](bool whole, absl::StatusOr<std::vector<double>> values) -> absl::StatusOr<Numbers> {
    RETURN_IF_ERROR(values.status());
    return Numbers{whole, {tensor.dims().begin(), tensor.dims().end()}, *std::move(values)};
  };
  const auto as_is = [](auto value) { return static_cast<double>(value); };
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return with_dims(false, Read<float, double>(tensor, tensor.float_data(), as_is));
    case TensorProto::FLOAT16:
      return with_dims(false, Read<uint16_t, double>(tensor, tensor.int32_data(), HalfToFloat));
    case TensorProto::DOUBLE:
      return with_dims(false, Read<double, double>(tensor, tensor.double_data(), as_is));
    case TensorProto::INT64:
      return with_dims(true, Read<int64_t, double>(tensor, tensor.int64_data(), as_is));
    case TensorProto::INT32:
      return with_dims(true, Read<int32_t, double>(tensor, tensor.int32_data(), as_is));
    case TensorProto::BOOL:
      return with_dims(true, Read<uint8_t, double>(tensor, tensor.int32_data(), as_is));
    default:
      return Unsupported(tensor, "float, float16, double, int64, int32 and bool");
  }
}

std::optional<double> ReadScalar(const TensorProto& tensor) {
  const absl::StatusOr<int64_t> count = ValueCount(tensor);
  if (!count.ok() || *count != 1) return std::nullopt;
  const absl::StatusOr<Numbers> numbers = ReadNumbers(tensor);
  if (!numbers.ok()) return std::nullopt;
  return numbers->values[0];
}

std::string DescribeShape(const TensorProto& tensor) {
  constexpr int kMaxShown = 8;
  if (tensor.dims_size() == 0) return "a scalar";
  if (tensor.dims_size() > kMaxShown) return absl::StrCat(tensor.dims_size(), " dimensions");
  return absl::StrJoin(tensor.dims(), "x");
}

std::string DataTypeName(int data_type) {
  switch (data_type) {
    case TensorProto::FLOAT:
      return "float";
    case TensorProto::INT32:
      return "int32";
    case TensorProto::INT64:
      return "int64";
    case TensorProto::FLOAT16:
      return "float16";
    case TensorProto::DOUBLE:
      return "double";
    case TensorProto::BOOL:
      return "bool";
    default:
      return absl::StrCat("number ", data_type);
  }
}

bool IsFloatType(int data_type) {
  return data_type == TensorProto::FLOAT || data_type == TensorProto::FLOAT16 ||
         data_type == TensorProto::DOUBLE;
}

}  // namespace upscaled::onnx
