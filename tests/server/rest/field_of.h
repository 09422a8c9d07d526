// Fields of answers, for tests.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace upscaled::server {

// The first field of this name; "" without one.
inline std::string FieldOf(const HttpResponse& response, std::string_view name) {
  for (const HttpField& field : response.fields) {
    if (field.name == name) return field.value;
  }
  return "";
}

}  // namespace upscaled::server
