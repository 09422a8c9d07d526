// Colours as JPEG XL states them, and as the chunk cICP of PNG does. Private to engine/image.
#pragma once

#include <jxl/color_encoding.h>

#include <optional>
#include <string>
#include <string_view>

namespace upscaled {

// The data of cICP, "" for sRGB. nullopt: it has no numbers for these colours.
std::optional<std::string> CicpOf(const JxlColorEncoding& encoding);

// The reverse. nullopt: JPEG XL has no name for these colours.
std::optional<JxlColorEncoding> EncodingOfCicp(std::string_view cicp, bool gray);

}  // namespace upscaled
