// The human-readable documentation of the service.
#pragma once

#include <string>
#include <string_view>

namespace upscaled::server {

// A page of HTML, without scripts or assets, from a well-formed description in OpenAPI 3.1.
std::string DocsPage(std::string_view openapi_json);

}  // namespace upscaled::server
