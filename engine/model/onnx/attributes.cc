#include "engine/model/onnx/attributes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

template <typename Value>
absl::Status CheckExpected(std::string_view name, Value given, Value expected) {
  if (given == expected) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(ToAbsl(name), " ", given, " is not supported, only ", expected));
}

}  // namespace

bool Attributes::Has(std::string_view name) const {
  return std::any_of(node_.attribute().begin(), node_.attribute().end(),
                     [name](const AttributeProto& a) { return a.name() == name; });
}

absl::StatusOr<const AttributeProto*> Attributes::Find(std::string_view name,
                                                       AttributeProto::AttributeType type) {
  const AttributeProto* found = nullptr;
  for (const AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (found != nullptr || attribute.type() != type) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", ToAbsl(name), "' ",
                       found != nullptr ? "is given twice" : "has the wrong type"));
    }
    found = &attribute;
  }
  read_.emplace(name);
  return found;
}

absl::StatusOr<int64_t> Attributes::Int(std::string_view name, int64_t missing) {
  ASSIGN_OR_RETURN(const AttributeProto* attribute, Find(name, AttributeProto::INT));
  return attribute == nullptr ? missing : attribute->i();
}

absl::StatusOr<float> Attributes::Float(std::string_view name, float missing) {
  ASSIGN_OR_RETURN(const AttributeProto* attribute, Find(name, AttributeProto::FLOAT));
  return attribute == nullptr ? missing : attribute->f();
}

absl::StatusOr<std::string> Attributes::String(std::string_view name, std::string_view missing) {
  ASSIGN_OR_RETURN(const AttributeProto* attribute, Find(name, AttributeProto::STRING));
  return attribute == nullptr ? std::string(missing) : attribute->s();
}

absl::StatusOr<std::vector<int64_t>> Attributes::Ints(std::string_view name) {
  ASSIGN_OR_RETURN(const AttributeProto* attribute, Find(name, AttributeProto::INTS));
  if (attribute == nullptr) return std::vector<int64_t>();
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

absl::StatusOr<std::vector<float>> Attributes::Floats(std::string_view name) {
  ASSIGN_OR_RETURN(const AttributeProto* attribute, Find(name, AttributeProto::FLOATS));
  if (attribute == nullptr) return std::vector<float>();
  return std::vector<float>(attribute->floats().begin(), attribute->floats().end());
}

absl::StatusOr<const TensorProto*> Attributes::Tensor(std::string_view name) {
  ASSIGN_OR_RETURN(const AttributeProto* attribute, Find(name, AttributeProto::TENSOR));
  return attribute == nullptr ? nullptr : &attribute->t();
}

absl::Status Attributes::Expect(std::string_view name, int64_t value) {
  ASSIGN_OR_RETURN(const int64_t given, Int(name, value));
  return CheckExpected(name, given, value);
}

absl::Status Attributes::ExpectFloat(std::string_view name, float value) {
  ASSIGN_OR_RETURN(const float given, Float(name, value));
  return CheckExpected(name, given, value);
}

absl::Status Attributes::CheckAllRead() const {
  for (const AttributeProto& attribute : node_.attribute()) {
    if (read_.count(attribute.name()) == 0) {
      return absl::UnimplementedError(
          absl::StrCat("attribute ", Quote(attribute.name()), " is not supported"));
    }
  }
  return absl::OkStatus();
}

}  // namespace upscaled::onnx
