// Answers in JSON.
#pragma once

#include <string>

#include "server/http/http_message.h"

namespace upscaled::server {

// An answer with status 200, kept by no cache.
HttpResponse JsonResponse(std::string json);

}  // namespace upscaled::server
