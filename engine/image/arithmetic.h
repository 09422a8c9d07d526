// The part of the build and of the machine behind the bytes of decoded, resized and encoded images,
// apart from this code.
#pragma once

#include <string>

namespace upscaled {

// Versions of the codecs' libraries and of the C library's mathematics, and the instruction sets by
// which the stages and the libraries choose their code: processes with equal texts give equal
// bytes. Human-readable, a line.
std::string ImageArithmetic();

}  // namespace upscaled
