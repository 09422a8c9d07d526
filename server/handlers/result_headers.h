// Descriptions of results without a computation, and of sources with stored results.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/image/codec.h"
#include "server/handlers/image_request.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// The header of a result the client has already; without the request's id. `request` is resolved.
upscale::v1::UpscaleImageHeader HeaderOf(const ImageRequest& request, const std::string& name);

// The header of a stored result: as announced, with the warnings from the pixels.
upscale::v1::UpscaleImageHeader StoredHeader(upscale::v1::UpscaleImageHeader announced,
                                             const upscale::v1::UpscaleSummary& summary);

// The part of a source's header ResolveJob and HeaderOf look at, for StoredResult::source_header.
// Empty for moving images, and for possibly moving ones.
std::string SourceToText(const ImageHeader& source);
// No value for texts of other versions.
std::optional<ImageHeader> SourceFromText(const std::string& text);

}  // namespace upscaled::server
