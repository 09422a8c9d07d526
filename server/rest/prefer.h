// The Prefer field (RFC 7240): what a client would like and can do without.
#pragma once

#include <span>

#include "server/http/http_message.h"

namespace upscaled::server {

inline constexpr char kRespondAsync[] = "respond-async";

// Whether one of the fields, of which there may be several, lists respond-async, whatever its case
// and beside whatever else.
bool PrefersAsync(std::span<const HttpField> fields);

}  // namespace upscaled::server
