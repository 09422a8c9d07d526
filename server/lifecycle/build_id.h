// Which build of the program this is.
#pragma once

#include <string>

namespace upscaled::server {

// The linker's hash of the program (NT_GNU_BUILD_ID), hexadecimal; "" if it made none.
std::string BuildId();

}  // namespace upscaled::server
