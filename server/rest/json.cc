#include "server/rest/json.h"

#include <utility>

namespace upscaled::server {

HttpResponse JsonResponse(std::string json) {
  json.push_back('\n');
  return {.status = 200,
          .fields = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          .body = std::move(json)};
}

}  // namespace upscaled::server
