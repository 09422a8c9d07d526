// The files compiled into the program; embed_files.cmake writes the source.
#pragma once

#include <span>
#include <string_view>

namespace upscaled::server {

struct EmbeddedFile {
  std::string_view name;  // without folders
  std::string_view bytes;
  std::string_view sha256;  // hexadecimal
};

// All of them.
std::span<const EmbeddedFile> EmbeddedFiles();

}  // namespace upscaled::server
