// Metadata and warnings of an image as bytes between the server and a decode worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/image/metadata.h"

namespace upscaled::server {

struct ImageNotes {
  ImageMetadata metadata;
  std::vector<std::string> warnings;
};

// The notes' bytes beyond the metadata themselves: warnings, and the numbers of all blocks.
inline constexpr size_t kMaxNotesOverhead = size_t{256} << 10;

std::string SerializeNotes(const ImageNotes& notes);

// nullopt: `bytes` are no notes. Trusts nothing in them.
std::optional<ImageNotes> ParseNotes(std::span<const uint8_t> bytes);

}  // namespace upscaled::server
