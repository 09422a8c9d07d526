// Values of the contract's enums by the names that people write: "strip-location" for
// METADATA_POLICY_STRIP_LOCATION.
#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace upscaled {

// "METADATA_POLICY_", as value 0 is METADATA_POLICY_UNSPECIFIED.
inline std::string EnumPrefix(const google::protobuf::EnumDescriptor& type) {
  return std::string(absl::StripSuffix(type.FindValueByNumber(0)->name(), "UNSPECIFIED"));
}

inline std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  return absl::StrReplaceAll(
      absl::AsciiStrToLower(absl::StripPrefix(value.name(), EnumPrefix(*value.type()))),
      {{"_", "-"}});
}

// The value of a short name, or of the contract's whole one; null for other names.
inline const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}}));
  const std::string prefix = EnumPrefix(type);
  return type.FindValueByName(absl::StartsWith(upper, prefix) ? upper
                                                              : absl::StrCat(prefix, upper));
}

// "" for values that the contract does not have.
template <typename Enum>
std::string ShortName(Enum value) {
  const auto* const named =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(static_cast<int>(value));
  return named == nullptr ? "" : ShortName(*named);
}

// Returns the unspecified value for unknown names.
template <typename Enum>
Enum EnumNamed(absl::string_view name) {
  const auto* const value = FindEnumValue(*google::protobuf::GetEnumDescriptor<Enum>(), name);
  return static_cast<Enum>(value == nullptr ? 0 : value->number());
}

}  // namespace upscaled
