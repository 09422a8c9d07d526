// The end of an image within its file: bytes may follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/image/left_out.h"

namespace upscaled {

// Copies bytes to `head` until it has `count`, and returns how many.
size_t FillHead(std::vector<uint8_t>& head, std::span<const uint8_t> bytes, size_t count);

// Follows a PNG (ISO 15948: chunks up to IEND), a JPEG (ITU-T T.81, annex B: segments up to EOI), a
// WebP (RIFF's length), a GIF (blocks up to the trailer) or a HEIF file (ISO/IEC 14496-12: boxes)
// as its bytes pass, in order. Phones put films behind photographs, and pipes put images together.
// Knows no end of other formats, nor of broken files.
class FileEnd {
 public:
  void Pass(std::span<const uint8_t> bytes);
  // Bytes behind the image's end.
  int64_t bytes_behind() const { return behind_; }
  // "behind the PNG's end 12 bytes were left out (a JPEG begins there)", or the boxes of a HEIF
  // file that hold no picture; "" without such bytes.
  std::string Warning() const;

 private:
  enum class Kind : uint8_t { kUnread, kPng, kJpeg, kWebp, kGif, kHeif, kOther };
  enum class JpegPart : uint8_t { kMarker, kSegment, kScan };
  enum class GifPart : uint8_t { kScreen, kBlock, kImage, kLabel, kSubBlocks };

  // Each takes the first of the waiting bytes, and tells how many.
  size_t Begin(std::span<const uint8_t> bytes);
  size_t PassChunkHead(std::span<const uint8_t> bytes);
  size_t PassBoxHead(std::span<const uint8_t> bytes);
  size_t PassJpeg(std::span<const uint8_t> bytes);
  size_t PassGif(std::span<const uint8_t> bytes);
  size_t FillHead(std::span<const uint8_t> bytes, size_t count) {
    return upscaled::FillHead(head_, bytes, count);
  }
  size_t PassBehind(std::span<const uint8_t> bytes);

  Kind kind_ = Kind::kUnread;
  JpegPart jpeg_ = JpegPart::kMarker;
  GifPart gif_ = GifPart::kScreen;
  std::vector<uint8_t> head_;  // of a chunk, a segment or the file, until it is whole
  int64_t skip_ = 0;           // bytes up to the next head
  bool last_ = false;          // whether the image ends behind them
  bool ended_ = false;
  uint8_t before_ = 0;  // the last byte of a scan
  int64_t behind_ = 0;
  std::vector<uint8_t> begin_behind_;  // the first of those behind
  LeftOut boxes_;
};

}  // namespace upscaled
