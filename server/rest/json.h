// The contract's messages as JSON.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "server/http/http_message.h"

namespace upscaled::server {

// On one line, with the contract's field names, defaults printed.
std::string ToJson(const google::protobuf::Message& message);

// An answer with status 200 that no cache keeps.
HttpResponse JsonResponse(std::string json);

}  // namespace upscaled::server
