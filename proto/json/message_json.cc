#include "proto/json/message_json.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "proto/json/enum_names.h"
#include "proto/json/shallow_json.h"

namespace upscaled {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

constexpr char kSeconds[] = "_seconds";
constexpr int kIndent = 1;

bool IsDuration(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field.message_type()->full_name() == "google.protobuf.Duration";
}

// The field itself, or the values of a map.
const FieldDescriptor& ValuesOf(const FieldDescriptor& field) {
  return field.is_map() ? *field.message_type()->map_value() : field;
}

// Calls `convert` for the field's value, or for each of a list or a map.
template <typename Convert>
Json ForEach(const FieldDescriptor& field, const Json& value, const Convert& convert) {
  if (field.is_map() && value.is_object()) {
    Json map = Json::object();
    for (const auto& [key, one] : value.items()) map[key] = convert(one);
    return map;
  }
  if (!value.is_array()) return convert(value);
  Json list = Json::array();
  for (const Json& element : value) list.push_back(convert(element));
  return list;
}

Json ToSeconds(const Json& duration) {
  double seconds = 0;
  (void)absl::SimpleAtod(absl::StripSuffix(duration.get<std::string>(), "s"), &seconds);
  return seconds;
}

Json FromSeconds(const Json& seconds) {
  return seconds.is_number() ? Json(absl::StrFormat("%.9fs", seconds.get<double>())) : seconds;
}

Json ToDialect(const Json& object, const Descriptor& type);

// One value of protobuf's JSON.
Json ToDialect(const Json& value, const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      return value.is_string() ? Json::parse(value.get<std::string>()) : value;
    case FieldDescriptor::CPPTYPE_ENUM: {
      // A number, which the contract has no name for, stays one.
      const EnumValueDescriptor* const named =
          value.is_string() ? field.enum_type()->FindValueByName(value.get<std::string>())
                            : nullptr;
      return named == nullptr ? value : Json(ShortName(*named));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return value.is_object() ? ToDialect(value, *field.message_type()) : value;
    default:
      return value;
  }
}

Json ToDialect(const Json& object, const Descriptor& type) {
  Json converted = Json::object();
  for (const auto& [name, value] : object.items()) {
    const FieldDescriptor* const field = type.FindFieldByName(name);
    if (field == nullptr) continue;  // none: protobuf has written it
    const FieldDescriptor& values = ValuesOf(*field);
    if (IsDuration(values)) {
      converted[name + kSeconds] = ForEach(*field, value, ToSeconds);
    } else {
      converted[name] =
          ForEach(*field, value, [&](const Json& one) { return ToDialect(one, values); });
    }
  }
  return converted;
}

Json FromDialect(const Json& object, const Descriptor& type);

Json FromDialect(const Json& value, const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && value.is_string()) {
    const EnumValueDescriptor* const named =
        FindEnumValue(*field.enum_type(), value.get<std::string>());
    return named == nullptr ? value : Json(named->name());
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && value.is_object()) {
    return FromDialect(value, *field.message_type());
  }
  return value;
}

// Leaves out fields that `type` does not have, however deep they are.
Json FromDialect(const Json& object, const Descriptor& type) {
  Json converted = Json::object();
  for (const auto& [name, value] : object.items()) {
    const FieldDescriptor* field = type.FindFieldByName(name);
    const FieldDescriptor* const duration =
        type.FindFieldByName(std::string(absl::StripSuffix(name, kSeconds)));
    if (field == nullptr && duration != nullptr && IsDuration(ValuesOf(*duration))) {
      converted[duration->name()] = ForEach(*duration, value, FromSeconds);
    } else if (field != nullptr) {
      const FieldDescriptor& values = ValuesOf(*field);
      converted[name] =
          ForEach(*field, value, [&](const Json& one) { return FromDialect(one, values); });
    }
  }
  return converted;
}

}  // namespace

std::string MessageToJson(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails for unresolved Any messages only, which the contract does not have.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return ToDialect(Json::parse(json), *message.GetDescriptor()).dump(indented ? kIndent : -1);
}

bool ReadMessageJson(absl::string_view json, google::protobuf::Message& message) {
  const Json object = ParseShallow<Json>(std::string(json));
  if (!object.is_object()) return false;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  return google::protobuf::util::JsonStringToMessage(
             FromDialect(object, *message.GetDescriptor()).dump(), &message, options)
      .ok();
}

}  // namespace upscaled
