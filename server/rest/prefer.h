// The Prefer field (RFC 7240): wishes a client can do without.
#pragma once

#include <span>

#include "server/http/http_message.h"

namespace upscaled::server {

inline constexpr char kRespondAsync[] = "respond-async";

// Whether one of the fields lists respond-async, in any case and next to other wishes.
bool PrefersAsync(std::span<const HttpField> fields);

}  // namespace upscaled::server
