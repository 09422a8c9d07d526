// The end of an image within its file: bytes may follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/image/left_out.h"

namespace upscaled {

// Copies bytes to `head` until it has `count`, and returns how many.
size_t FillHead(std::vector<uint8_t>& head, std::span<const uint8_t> bytes, size_t count);

// Bytes behind an image's end.
class BytesBehind {
 public:
  void Pass(std::span<const uint8_t> bytes);
  int64_t count() const { return count_; }
  // Whether these only fill the file up to words, as writers of BMP and TIFF do.
  bool is_padding() const;
  // "behind the PNG's end 12 bytes were left out (a JPEG begins there)"; "" without bytes.
  std::string Warning(std::string_view format) const;

 private:
  int64_t count_ = 0;
  std::vector<uint8_t> begin_;  // the first of them
};

// Follows a PNG (ISO 15948: chunks up to IEND), a JPEG (ITU-T T.81, annex B: segments up to EOI), a
// WebP (RIFF's length), a GIF (blocks up to the trailer), a BMP (rows or runs, and the profile) or
// a HEIF file (ISO/IEC 14496-12: boxes) as its bytes pass, in order. Phones put films behind
// photographs, and pipes put images together. The decoders of TIFF and JPEG XL look for the bytes
// themselves. Knows no end of broken files.
class FileEnd {
 public:
  void Pass(std::span<const uint8_t> bytes);
  // Bytes behind the image's end.
  int64_t bytes_behind() const { return is_padded() ? 0 : behind_.count(); }
  // BytesBehind::Warning, or the boxes of a HEIF file that hold no picture; "" without any.
  std::string Warning() const;

 private:
  enum class Kind : uint8_t { kUnread, kPng, kJpeg, kWebp, kGif, kBmp, kHeif, kOther };
  enum class JpegPart : uint8_t { kMarker, kSegment, kScan };
  enum class BmpPart : uint8_t { kHead, kRuns };
  enum class GifPart : uint8_t { kScreen, kBlock, kImage, kLabel, kSubBlocks };

  // Each takes the first of the waiting bytes, and tells how many.
  size_t Begin(std::span<const uint8_t> bytes);
  size_t PassChunkHead(std::span<const uint8_t> bytes);
  size_t PassBoxHead(std::span<const uint8_t> bytes);
  size_t PassJpeg(std::span<const uint8_t> bytes);
  size_t PassGif(std::span<const uint8_t> bytes);
  size_t PassBmpHead(std::span<const uint8_t> bytes);
  size_t PassBmpRuns(std::span<const uint8_t> bytes);
  void EndBmpRuns();
  size_t FillHead(std::span<const uint8_t> bytes, size_t count) {
    return upscaled::FillHead(head_, bytes, count);
  }
  bool is_padded() const { return kind_ == Kind::kBmp && behind_.is_padding(); }

  Kind kind_ = Kind::kUnread;
  JpegPart jpeg_ = JpegPart::kMarker;
  GifPart gif_ = GifPart::kScreen;
  BmpPart bmp_ = BmpPart::kHead;
  bool runs_of_nibbles_ = false;
  int64_t bmp_rows_ = 0;       // that runs have not ended yet
  int64_t bmp_at_ = 0;         // the bytes up to the next run
  int64_t profile_end_ = 0;    // of a BMP's
  std::vector<uint8_t> head_;  // of a chunk, a segment or the file, until it is whole
  int64_t skip_ = 0;           // bytes up to the next head
  bool last_ = false;          // whether the image ends behind them
  bool ended_ = false;
  uint8_t before_ = 0;  // the last byte of a scan
  BytesBehind behind_;
  LeftOut boxes_;
};

}  // namespace upscaled
