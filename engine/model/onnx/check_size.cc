#include "engine/model/onnx/check_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"

namespace upscaled::onnx {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The content of a length-delimited field, as far as its size in memory goes.
enum class Kind : uint8_t {
  kBytes,    // as large as in the file
  kNumbers,  // packed, each a byte or more
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kLeaf,  // a message of plain fields
};

struct Field {
  Kind parent;
  int number;
  Kind kind;
};

// After schema.proto; no kind contains itself.
constexpr Field kFields[] = {
    {Kind::kModel, 7, Kind::kGraph},       {Kind::kModel, 8, Kind::kLeaf},
    {Kind::kGraph, 1, Kind::kNode},        {Kind::kGraph, 5, Kind::kTensor},
    {Kind::kGraph, 11, Kind::kValueInfo},  {Kind::kGraph, 12, Kind::kValueInfo},
    {Kind::kNode, 5, Kind::kAttribute},    {Kind::kAttribute, 5, Kind::kTensor},
    {Kind::kAttribute, 7, Kind::kNumbers}, {Kind::kAttribute, 8, Kind::kNumbers},
    {Kind::kTensor, 1, Kind::kNumbers},    {Kind::kTensor, 5, Kind::kNumbers},
    {Kind::kTensor, 7, Kind::kNumbers},    {Kind::kValueInfo, 2, Kind::kType},
    {Kind::kType, 1, Kind::kTensorType},   {Kind::kTensorType, 2, Kind::kShape},
    {Kind::kShape, 1, Kind::kLeaf},
};

Kind KindOf(Kind parent, int number) {
  for (const Field& field : kFields) {
    if (field.parent == parent && field.number == number) return field.kind;
  }
  return Kind::kBytes;
}

absl::Status Truncated() { return absl::InvalidArgumentError("is no ONNX model, or cut short"); }

class Counter {
 public:
  // All fields of a message, to the stream's limit.
  absl::Status CountMessage(CodedInputStream& stream, Kind kind) {
    while (const uint32_t tag = stream.ReadTag()) {
      RETURN_IF_ERROR(Add(1));
      const Kind field = KindOf(kind, WireFormatLite::GetTagFieldNumber(tag));
      const bool delimited =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (!delimited || field == Kind::kBytes) {
        if (!WireFormatLite::SkipField(&stream, tag)) return Truncated();
        continue;
      }
      RETURN_IF_ERROR(CountDelimited(stream, field));
    }
    return stream.ConsumedEntireMessage() ? absl::OkStatus() : Truncated();
  }

 private:
  absl::Status CountDelimited(CodedInputStream& stream, Kind kind) {
    uint32_t length = 0;
    if (!stream.ReadVarint32(&length) || length > kMaxOnnxBytes) return Truncated();
    if (kind == Kind::kNumbers) {
      RETURN_IF_ERROR(Add(length));
      return stream.Skip(static_cast<int>(length)) ? absl::OkStatus() : Truncated();
    }
    const CodedInputStream::Limit outer = stream.PushLimit(static_cast<int>(length));
    RETURN_IF_ERROR(CountMessage(stream, kind));
    stream.PopLimit(outer);
    return absl::OkStatus();
  }

  absl::Status Add(size_t fields) {
    count_ += fields;
    if (count_ <= kMaxOnnxFields) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("has more than ", kMaxOnnxFields, " fields and small numbers, the limit"));
  }

  size_t count_ = 0;
};

}  // namespace

absl::Status CheckSize(std::string_view bytes) {
  CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
  return Counter().CountMessage(stream, Kind::kModel);
}

}  // namespace upscaled::onnx
