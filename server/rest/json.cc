#include "server/rest/json.h"

#include <utility>

#include "google/protobuf/util/json_util.h"

namespace upscaled::server {

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails for unresolved Any messages alone, which the contract does not have.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

HttpResponse JsonResponse(std::string json) {
  json.push_back('\n');
  return {.status = 200,
          .fields = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          .body = std::move(json)};
}

}  // namespace upscaled::server
