// Values of the contract's enums by the names that people write: "strip-location" for
// METADATA_POLICY_STRIP_LOCATION.
#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace upscaled::client {

// "METADATA_POLICY_", as value 0 is METADATA_POLICY_UNSPECIFIED.
template <typename Enum>
std::string EnumPrefix() {
  const auto* const zero = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(0);
  return std::string(absl::StripSuffix(zero->name(), "UNSPECIFIED"));
}

// "" for values that the contract does not have.
template <typename Enum>
std::string ShortName(Enum value) {
  const auto* const named =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(static_cast<int>(value));
  if (named == nullptr) return "";
  return absl::StrReplaceAll(
      absl::AsciiStrToLower(absl::StripPrefix(named->name(), EnumPrefix<Enum>())), {{"_", "-"}});
}

// Returns the unspecified value for unknown names.
template <typename Enum>
Enum EnumNamed(absl::string_view short_name) {
  const std::string name = absl::StrCat(
      EnumPrefix<Enum>(), absl::AsciiStrToUpper(absl::StrReplaceAll(short_name, {{"-", "_"}})));
  const auto* const value = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByName(name);
  return static_cast<Enum>(value == nullptr ? 0 : value->number());
}

}  // namespace upscaled::client
