// The parameters of an HEVC picture, read before a decoder gets it. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/geometry.h"

namespace upscaled {

// INVALID_ARGUMENT with the format's name.
absl::Status HeicFault(absl::string_view what);

inline constexpr int kHevcSequenceNal = 33;

// The type of a network abstraction layer unit, of 2 bytes or more.
constexpr int HevcNalType(std::span<const uint8_t> nal) { return nal[0] >> 1 & 63; }
// 0 for the picture itself; others are further views of it.
constexpr int HevcNalLayer(std::span<const uint8_t> nal) { return (nal[0] & 1) << 5 | nal[1] >> 3; }

// A sequence parameter set.
struct HevcSequence {
  Size coded;      // what the decoder computes
  Size shown;      // the part that it gives
  int chroma = 1;  // 0: gray; 1: 4:2:0; 2: 4:2:2; 3: 4:4:4
  int bits = 8;    // of each sample
  friend bool operator==(const HevcSequence&, const HevcSequence&) = default;
};

// Bound on the bytes of all samples of a pixel.
size_t HevcBytesPerPixel(const HevcSequence& sequence);

// INVALID_ARGUMENT: damaged, or of a kind without pictures.
absl::StatusOr<HevcSequence> ParseHevcSequence(std::span<const uint8_t> nal);

// The property "hvcC" of an item. Views of the parsed bytes.
struct HevcConfiguration {
  int length_bytes = 4;  // of the length before each unit of the item's data
  std::vector<std::span<const uint8_t>> parameter_sets;
  HevcSequence sequence;
};
absl::StatusOr<HevcConfiguration> ParseHevcConfiguration(std::span<const uint8_t> record);

}  // namespace upscaled
