// The running build of the program, or of a loaded library.
#pragma once

#include <string>

namespace upscaled {

// The linker's hash (NT_GNU_BUILD_ID), hexadecimal, of the file with `address`, a function or an
// object; "" if the linker made none.
std::string BuildIdOf(const void* address);

// The hash of the program.
std::string BuildId();

}  // namespace upscaled
