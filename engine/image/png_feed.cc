#include "engine/image/png_feed.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/image/endian.h"
#include "engine/image/png_metadata.h"

namespace upscaled {
namespace {

constexpr size_t kChecksumBytes = 4;  // Adler-32
constexpr uint8_t kAncillaryBit = 0x20;

}  // namespace

absl::Status PngFeed::Read(std::span<uint8_t> dst, bool has_all_rows) {
  while (!dst.empty()) {
    const bool passes = part_ == Part::kData || part_ == Part::kChecksum;
    size_t count = 0;
    if (ready_begin_ < ready_end_) {
      count = std::min(dst.size(), ready_end_ - ready_begin_);
      std::copy_n(ready_.begin() + ready_begin_, count, dst.begin());
      ready_begin_ += count;
    } else if (passes && data_bytes_ > 0) {
      count = std::min(dst.size(), data_bytes_);
      RETURN_IF_ERROR(ReadSource(dst.first(count), has_all_rows));
      data_bytes_ -= count;
    } else {
      RETURN_IF_ERROR(Advance(has_all_rows));
    }
    dst = dst.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status PngFeed::ReadSource(std::span<uint8_t> dst, bool has_all_rows) {
  while (!dst.empty()) {
    ASSIGN_OR_RETURN(const size_t count, source_.Read(dst));
    if (count == 0) return absl::OutOfRangeError("the file has ended");
    RETURN_IF_ERROR(guard_.Follow(dst.first(count), has_all_rows));
    if (part_ == Part::kData || part_ == Part::kChecksum)
      crc_ = static_cast<uint32_t>(crc32(crc_, dst.data(), static_cast<uInt>(count)));
    dst = dst.subspan(count);
  }
  return absl::OkStatus();
}

void PngFeed::MakeReady(std::span<const uint8_t> bytes) {
  std::ranges::copy(bytes, ready_.begin());
  ready_begin_ = 0;
  ready_end_ = bytes.size();
}

absl::Status PngFeed::Advance(bool has_all_rows) {
  switch (part_) {
    case Part::kSignature: {
      uint8_t signature[kPngSignatureBytes];
      RETURN_IF_ERROR(ReadSource(signature, has_all_rows));
      MakeReady(signature);
      part_ = Part::kHead;
      return absl::OkStatus();
    }
    case Part::kHead:
      return BeginChunk(has_all_rows);
    case Part::kData: {
      if (checksum_bytes_ == 0) return EndChunk(has_all_rows);
      // The end of the first chunk, its CRC being anything, and the beginning of the second.
      uint8_t between[kPngCrcBytes + kPngChunkHeaderBytes] = {};
      std::copy(head_.begin(), head_.end(), between + kPngCrcBytes);
      StoreBe32(static_cast<uint32_t>(checksum_bytes_), between + kPngCrcBytes);
      MakeReady(between);
      data_bytes_ = std::exchange(checksum_bytes_, 0);
      part_ = Part::kChecksum;
      return absl::OkStatus();
    }
    case Part::kChecksum:
    case Part::kCrc:
      return EndChunk(has_all_rows);
  }
  return absl::OkStatus();
}

absl::Status PngFeed::BeginChunk(bool has_all_rows) {
  RETURN_IF_ERROR(ReadSource(head_, has_all_rows));
  data_bytes_ = LoadBe32(head_.data());
  crc_ = static_cast<uint32_t>(crc32(0, &head_[4], 4));
  std::array<uint8_t, kPngChunkHeaderBytes> told = head_;
  const std::string_view type(reinterpret_cast<const char*>(&head_[4]), 4);
  if (type == "IDAT" && data_bytes_ > kChecksumBytes) {
    checksum_bytes_ = kChecksumBytes;
    data_bytes_ -= kChecksumBytes;
    StoreBe32(static_cast<uint32_t>(data_bytes_), told.data());
  }
  MakeReady(told);
  part_ = Part::kData;
  return absl::OkStatus();
}

void PngFeed::RecordType(std::string_view type) {
  constexpr std::string_view kPixels[] = {"IDAT", "fdAT", "fcTL", "IEND"};
  if (has_pixels_ && std::ranges::count(kPixels, type) == 0 && !IsPngMetadata(type))
    late_types_.Add(type);
}

absl::Status PngFeed::EndChunk(bool has_all_rows) {
  part_ = Part::kCrc;
  uint8_t crc[kPngCrcBytes];
  RETURN_IF_ERROR(ReadSource(crc, has_all_rows));
  MakeReady(crc);
  part_ = Part::kHead;
  const std::string_view type(reinterpret_cast<const char*>(&head_[4]), 4);
  bad_crc_ = LoadBe32(crc) != crc_;
  has_pixels_ = has_pixels_ || type == "IDAT";
  if (!bad_crc_ || (head_[4] & kAncillaryBit) != 0) {
    RecordType(type);
    return absl::OkStatus();
  }
  if (type == "IDAT")
    bad_pixels_crc_ = true;
  else if (type == "IEND")
    bad_end_crc_ = true;
  else
    return absl::InvalidArgumentError(
        absl::StrCat("PNG: the CRC of the chunk ", ToAbsl(type), " is wrong"));
  return absl::OkStatus();
}

}  // namespace upscaled
