// The attributes of one node.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// Reading an attribute marks it. An unread one is then an error: without its meaning the image
// would be wrong. INVALID_ARGUMENT: of another type than asked for.
class Attributes {
 public:
  // Borrows the node.
  explicit Attributes(const NodeProto& node) : node_(node) {}

  bool Has(std::string_view name) const;
  // The attribute, or `missing` without it.
  absl::StatusOr<int64_t> Int(std::string_view name, int64_t missing);
  absl::StatusOr<float> Float(std::string_view name, float missing);
  absl::StatusOr<std::string> String(std::string_view name, std::string_view missing);
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view name);  // empty when missing
  absl::StatusOr<std::vector<float>> Floats(std::string_view name);  // empty when missing
  absl::StatusOr<const TensorProto*> Tensor(std::string_view name);  // null when missing

  // UNIMPLEMENTED unless the attribute is missing or `value`.
  absl::Status Expect(std::string_view name, int64_t value);
  absl::Status ExpectFloat(std::string_view name, float value);
  // UNIMPLEMENTED names an unread attribute.
  absl::Status CheckAllRead() const;

 private:
  // Null without it.
  absl::StatusOr<const AttributeProto*> Find(std::string_view name,
                                             AttributeProto::AttributeType type);

  const NodeProto& node_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace upscaled::onnx
