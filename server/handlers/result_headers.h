// Descriptions of results that are not computed, and of sources whose results are stored.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/image/codec.h"
#include "server/handlers/image_request.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// The header of a result that the client has already; without the request's id. `request` is
// resolved.
upscale::v1::UpscaleImageHeader HeaderOf(const ImageRequest& request, const std::string& name);

// The header of a stored result: as announced, with the warnings that only the pixels have shown.
upscale::v1::UpscaleImageHeader StoredHeader(upscale::v1::UpscaleImageHeader announced,
                                             const upscale::v1::UpscaleSummary& summary);

// All of a source's header that ResolveJob and HeaderOf look at, for StoredResult::source_header.
// Empty for images that move, or may.
std::string SourceToText(const ImageHeader& source);
// No value for texts of other versions.
std::optional<ImageHeader> SourceFromText(const std::string& text);

}  // namespace upscaled::server
