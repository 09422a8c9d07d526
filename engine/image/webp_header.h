// The container of a WebP file up to the pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "engine/image/left_out.h"

namespace upscaled {

// The first whole chunk `type` in a file, or in as much of it as there is.
std::optional<std::span<const uint8_t>> FindWebpChunk(std::span<const uint8_t> file,
                                                      std::string_view type);

// The chunks of metadata that the file's VP8X chunk announces. Readers (libwebp's demuxer,
// browsers) heed no others.
struct WebpAnnounced {
  bool icc = false, exif = false, xmp = false;
  bool late() const { return exif || xmp; }  // those that may stand behind the pixels
};
WebpAnnounced AnnouncedInWebp(std::span<const uint8_t> prefix);

// The announced profile before the pixels; empty without.
std::span<const uint8_t> WebpProfile(std::span<const uint8_t> prefix);

// The announced blocks of a file; "" without.
std::string WebpExif(std::span<const uint8_t> file);
std::string WebpXmp(std::span<const uint8_t> file);

// Finds the chunks that a result does not keep: unknown ones, second ones, and those that stand in
// the wrong place or that VP8X does not announce.
class WebpLeftOut {
 public:
  // `prefix` reaches up to the pixels.
  explicit WebpLeftOut(std::span<const uint8_t> prefix);
  // The next bytes of the file, from its first one to its stated end.
  void Pass(std::span<const uint8_t> bytes);
  // "WebP: chunks are left out: ...", and the same of those that are not announced; nothing without
  // such chunks.
  void Warn(std::vector<std::string>& warnings) const;

 private:
  void BeginChunk(uint32_t type, uint64_t length);

  LeftOut chunks_, unannounced_;
  uint8_t flags_ = 0;               // of VP8X
  uint64_t skip_;                   // bytes up to the next chunk's head
  std::vector<uint8_t> head_;       // of a chunk, until it is whole
  std::vector<uint32_t> expected_;  // types of the chunks that count, as far as they have come
};

// The file's size by its header, which `prefix` must hold.
size_t WebpFileBytes(std::span<const uint8_t> prefix);
// Returns the part of `prefix` before the file's stated end.
std::span<const uint8_t> WithinWebpFile(std::span<const uint8_t> prefix);

// The largest file of which the header tells the orientation: its EXIF stands behind the pixels.
size_t MaxOrientedBytes(const DecodeLimits& limits);

// Whether `prefix` of the file of `image` reaches beyond the data of the image's Huffman tables.
// Before this, libwebp must have no more bytes, since it allocates the tables. RESOURCE_EXHAUSTED
// when there are more than kMaxHuffmanBlocks.
absl::StatusOr<bool> CheckHuffmanTables(std::span<const uint8_t> prefix, Size image);

}  // namespace upscaled
