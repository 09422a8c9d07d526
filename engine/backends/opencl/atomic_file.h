// Files that a reader sees whole or not at all.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "absl/status/status.h"

namespace upscaled::opencl {

// Writes the parts, one after the other, beside `path` and renames. Nothing is left behind when it
// fails. Not synced: after a lost power supply the file may be cut short.
absl::Status WriteAtomically(const std::filesystem::path& path,
                             std::initializer_list<std::string_view> parts);

}  // namespace upscaled::opencl
