#include "server/rest/cors.h"

#include <algorithm>

namespace upscaled::server {
namespace {

constexpr char kAllowedFields[] =
    "Authorization, Content-Digest, Content-Type, If-None-Match, Prefer, Range, Traceparent, "
    "Upscale-Priority, X-API-Key, X-Request-Id";
constexpr char kExposedFields[] =
    "Accept-Ranges, Content-Disposition, Content-Range, ETag, Location, Preference-Applied, "
    "Retry-After, "
    "Server-Timing, Upscale-Error, Upscale-Header, Upscale-Height, Upscale-Model, Upscale-Summary, "
    "Upscale-Tiles, Upscale-Warning, Upscale-Width, Warning, X-Request-Id";
constexpr char kMaxAgeSeconds[] = "7200";  // Chromium takes no more

}  // namespace

bool Cors::Allows(std::string_view origin) const {
  return !origin.empty() && std::any_of(origins_.begin(), origins_.end(), [&](const auto& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

std::vector<HttpField> Cors::Fields(const HttpRequest& request) const {
  if (!enabled()) return {};
  std::vector<HttpField> fields = {{"Vary", "Origin"}};
  const std::string origin(request.Field("Origin"));
  if (!Allows(origin)) return fields;
  fields.push_back({"Access-Control-Allow-Origin", origin});
  fields.push_back({"Access-Control-Expose-Headers", kExposedFields});
  return fields;
}

HttpResponse Cors::Preflight(const HttpRequest& request, const std::string& methods) const {
  HttpResponse response{.status = 204, .fields = Fields(request)};
  if (!Allows(request.Field("Origin"))) return response;
  response.fields.push_back({"Access-Control-Allow-Methods", methods});
  response.fields.push_back({"Access-Control-Allow-Headers", kAllowedFields});
  response.fields.push_back({"Access-Control-Max-Age", kMaxAgeSeconds});
  return response;
}

}  // namespace upscaled::server
