// The bytes of a PNG file before libpng. libpng loses the last row if it finds the checksum after
// it wrong, and knows no harmless wrong checksum. Private to engine/image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/byte_stream.h"
#include "engine/image/left_out.h"
#include "engine/image/png_bomb_guard.h"

namespace upscaled {

// Checks the CRC of critical chunks itself (libpng is told not to), and cuts each IDAT chunk into
// two: the last four bytes, possibly the checksum of the pixels, come in a chunk of their own. So
// libpng gives the row before it looks at them.
class PngFeed {
 public:
  // `source` must outlive it.
  PngFeed(ByteSource& source, const DecodeLimits& limits) : source_(source), guard_(limits) {}

  // Fills `dst`. `has_all_rows` as of PngBombGuard::Follow. OUT_OF_RANGE: the file has ended.
  absl::Status Read(std::span<uint8_t> dst, bool has_all_rows);

  // Whether a chunk of pixels, or the end's, had a wrong CRC.
  bool has_bad_pixels_crc() const { return bad_pixels_crc_; }
  bool has_bad_end_crc() const { return bad_end_crc_; }
  // Whether the last chunk so far had one.
  bool has_bad_crc() const { return bad_crc_; }
  // Types of the chunks behind the first of the pixels that a result does not keep.
  const LeftOut& late_types() const { return late_types_; }

 private:
  // The part of the file behind `ready_`.
  enum class Part : uint8_t { kSignature, kHead, kData, kChecksum, kCrc };

  absl::Status ReadSource(std::span<uint8_t> dst, bool has_all_rows);
  // Reads the next part into `ready_`, or begins one to pass through.
  absl::Status Advance(bool has_all_rows);
  absl::Status BeginChunk(bool has_all_rows);
  absl::Status EndChunk(bool has_all_rows);
  void RecordType(std::string_view type);
  void MakeReady(std::span<const uint8_t> bytes);

  ByteSource& source_;
  PngBombGuard guard_;
  Part part_ = Part::kSignature;
  std::array<uint8_t, 16> ready_ = {};  // bytes for libpng, from ready_begin_ on
  size_t ready_begin_ = 0, ready_end_ = 0;
  size_t data_bytes_ = 0;      // of the chunk's data, still to pass
  size_t checksum_bytes_ = 0;  // of IDAT's data, to follow in a chunk of their own
  std::array<uint8_t, kPngChunkHeaderBytes> head_ = {};
  uint32_t crc_ = 0;
  bool bad_crc_ = false, bad_pixels_crc_ = false, bad_end_crc_ = false;
  bool has_pixels_ = false;
  LeftOut late_types_;
};

}  // namespace upscaled
