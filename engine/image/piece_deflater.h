// Deflates the pieces of one stream independently of each other: threads can share the work.
// Private to engine/image.
//
// Raw deflate (RFC 1951): Every piece but the last ends with an empty stored block, at a byte, and
// none refers to earlier bytes; pieces put one after the other are one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace upscaled {

// One piece at a time. Not thread safe.
class PieceDeflater {
 public:
  virtual ~PieceDeflater() = default;
  // Writes `piece` into `deflated`, of at least DeflatedBound bytes, and returns how many it takes.
  virtual size_t Deflate(std::span<const uint8_t> piece, bool last,
                         std::span<uint8_t> deflated) = 0;
};

// `level` as zlib's, 0..9. Levels 1 to 3 are ISA-L's 1 and 2 where the build has it: the sizes of
// zlib's in a fifth of the time. RESOURCE_EXHAUSTED without memory. It takes at most
// kPieceDeflaterBytes. The bytes of ISA-L may differ between generations of CPUs. libdeflate 1.14
// takes half of zlib's time, but deflates in one piece and so would hold the whole image.
absl::StatusOr<std::unique_ptr<PieceDeflater>> MakePieceDeflater(int level);
inline constexpr size_t kPieceDeflaterBytes = 768 << 10;

constexpr size_t DeflatedBound(size_t piece_bytes) {
  return piece_bytes + piece_bytes / 8 + piece_bytes / 64 + 1024;
}

// The checksums of PNG, as zlib's functions of the same name give them, from 0 and 1.
uint32_t Crc32(std::span<const uint8_t> bytes);
uint32_t Adler32(std::span<const uint8_t> bytes);

}  // namespace upscaled
