// Answers in JSON.
#pragma once

#include <string>

#include "server/http/http_message.h"

namespace upscaled::server {

// An answer with status 200 that no cache keeps.
HttpResponse JsonResponse(std::string json);

}  // namespace upscaled::server
