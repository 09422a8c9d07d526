// Samples of libavif's images, and of others put into them. Private to engine/image.
#pragma once

#include <optional>

#include <avif/avif.h>

#include "absl/status/status.h"
#include "engine/base/geometry.h"
#include "engine/image/image.h"
#include "engine/image/metadata.h"

namespace upscaled {

// Turns `frame` into RGB or gray, with alpha if `image` has it. `frame` has the size of `image`, or
// of `crop`, a part of it. `name` is the format's, for messages. Takes memory for all of the frame,
// if it is gray or cropped.
absl::Status ConvertAvifImage(const char* name, const avifImage& frame,
                              const std::optional<Rect>& crop, MutableImageView image);

// Adds cICP (ISO/IEC 23091-2) for samples that ConvertAvifImage gave, unless `metadata` has a
// profile already, or the colours are those of sRGB. Numbers that are not stated count as sRGB's,
// as in browsers.
void AddCicp(const avifImage& frame, ImageMetadata& metadata);

}  // namespace upscaled
