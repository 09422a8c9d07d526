#include "engine/image/file_end.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file_kind.h"
#include "engine/base/string_view.h"
#include "engine/image/bmp_header.h"
#include "engine/image/endian.h"
#include "engine/image/jpeg_marker.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

constexpr size_t kRiffHeadBytes = 12;
constexpr size_t kChunkHeadBytes = 8, kChunkCheckBytes = 4;
constexpr size_t kGifScreenFlags = 10;  // behind the signature and the screen's size

}  // namespace

size_t FillHead(std::vector<uint8_t>& head, std::span<const uint8_t> bytes, size_t count) {
  const size_t taken = std::min(bytes.size(), count - head.size());
  head.insert(head.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(taken));
  return taken;
}

void FileEnd::Pass(std::span<const uint8_t> bytes) {
  while (!bytes.empty() && kind_ != Kind::kOther) {
    size_t count = 0;
    if (ended_) {
      behind_.Pass(bytes);
      count = bytes.size();
    } else if (skip_ > 0) {
      count = static_cast<size_t>(std::min<int64_t>(skip_, std::ssize(bytes)));
      skip_ -= static_cast<int64_t>(count);
      ended_ = last_ && skip_ == 0;
    } else if (kind_ == Kind::kUnread) {
      count = Begin(bytes);
    } else if (kind_ == Kind::kJpeg) {
      count = PassJpeg(bytes);
    } else if (kind_ == Kind::kGif) {
      count = PassGif(bytes);
    } else if (kind_ == Kind::kBmp) {
      count = bmp_ == BmpPart::kHead ? PassBmpHead(bytes) : PassBmpRuns(bytes);
    } else {
      count = kind_ == Kind::kPng ? PassChunkHead(bytes) : PassBoxHead(bytes);
    }
    bytes = bytes.subspan(count);
  }
}

size_t FileEnd::Begin(std::span<const uint8_t> bytes) {
  const size_t count = FillHead(bytes, kRiffHeadBytes);
  if (head_.size() < kRiffHeadBytes) return count;
  const std::vector<uint8_t> head = std::exchange(head_, {});
  if (BeginsWith(head, "\x89PNG\r\n\x1a\n")) {
    kind_ = Kind::kPng;
    head_.assign(head.begin() + 8, head.end());
  } else if (BeginsWith(head, "RIFF") && BeginsWith(std::span(head).subspan(8), "WEBP")) {
    kind_ = Kind::kWebp;
    const int64_t length = LoadLe32(&head[4]);
    skip_ = length + length % 2 + 8 - static_cast<int64_t>(kRiffHeadBytes);
    last_ = true;
    if (skip_ <= 0) kind_ = Kind::kOther;
  } else if (BeginsWith(head, "\xFF\xD8")) {
    kind_ = Kind::kJpeg;
    Pass(std::span(head).subspan(2));
  } else if (BeginsWith(head, "GIF8")) {
    kind_ = Kind::kGif;
    Pass(std::span(head).subspan(kGifScreenFlags));
  } else if (BeginsWith(head, "BM")) {
    kind_ = Kind::kBmp;
    head_ = head;
  } else if (BeginsWith(std::span(head).subspan(4), "ftyp")) {
    kind_ = Kind::kHeif;
    Pass(head);
  } else {
    kind_ = Kind::kOther;
  }
  return count;
}

size_t FileEnd::PassChunkHead(std::span<const uint8_t> bytes) {
  const size_t count = FillHead(bytes, kChunkHeadBytes);
  if (head_.size() < kChunkHeadBytes) return count;
  last_ = BeginsWith(std::span(head_).subspan(4), "IEND");
  skip_ = int64_t{LoadBe32(head_.data())} + static_cast<int64_t>(kChunkCheckBytes);
  head_.clear();
  return count;
}

// Bytes that begin no box stand behind the file's end.
size_t FileEnd::PassBoxHead(std::span<const uint8_t> bytes) {
  constexpr std::string_view kPictures[] = {"ftyp", "meta", "mdat", "moov", "moof",
                                            "styp", "sidx", "free", "skip", "wide"};
  const bool is_long = head_.size() >= kChunkHeadBytes;
  const size_t wanted = is_long ? 2 * kChunkHeadBytes : kChunkHeadBytes;
  const size_t count = FillHead(bytes, wanted);
  if (head_.size() < wanted) return count;
  const uint64_t short_size = LoadBe32(head_.data());
  if (short_size == 1 && !is_long) return count;  // its size follows in 64 bits
  const uint64_t size =
      is_long ? uint64_t{LoadBe32(&head_[8])} << 32 | LoadBe32(&head_[12]) : short_size;
  const std::string_view type(reinterpret_cast<const char*>(&head_[4]), 4);
  const bool holds_pictures = std::ranges::count(kPictures, type) > 0;
  const bool goes_on = size == 0 && holds_pictures;  // to the file's end
  if (!goes_on && (size < wanted || size > INT64_MAX)) {
    ended_ = true;
    behind_.Pass(std::exchange(head_, {}));
    return count;
  }
  if (!holds_pictures) boxes_.Add(type);
  skip_ = goes_on ? INT64_MAX : static_cast<int64_t>(size - wanted);
  head_.clear();
  return count;
}

size_t FileEnd::PassGif(std::span<const uint8_t> bytes) {
  constexpr uint8_t kImage = 0x2C, kExtension = 0x21, kTrailer = 0x3B, kHasTable = 0x80;
  constexpr size_t kRestOfScreen = 3, kRestOfImage = 9, kCodeSize = 1;
  const auto table_bytes = [](uint8_t flags) -> int64_t {
    return (flags & kHasTable) != 0 ? int64_t{3} << ((flags & 7) + 1) : 0;
  };
  switch (gif_) {
    case GifPart::kScreen: {
      const size_t count = FillHead(bytes, kRestOfScreen);
      if (head_.size() < kRestOfScreen) return count;
      skip_ = table_bytes(head_[0]);
      head_.clear();
      gif_ = GifPart::kBlock;
      return count;
    }
    case GifPart::kBlock:
      if (bytes[0] == kTrailer)
        ended_ = true;
      else if (bytes[0] == kImage)
        gif_ = GifPart::kImage;
      else if (bytes[0] == kExtension)
        gif_ = GifPart::kLabel;
      else
        kind_ = Kind::kOther;
      return 1;
    case GifPart::kImage: {
      const size_t count = FillHead(bytes, kRestOfImage);
      if (head_.size() < kRestOfImage) return count;
      skip_ = table_bytes(head_.back()) + kCodeSize;
      head_.clear();
      gif_ = GifPart::kSubBlocks;
      return count;
    }
    case GifPart::kLabel:
      gif_ = GifPart::kSubBlocks;
      return 1;
    case GifPart::kSubBlocks:
      skip_ = bytes[0];
      if (bytes[0] == 0) gif_ = GifPart::kBlock;
      return 1;
  }
  return 1;
}

size_t FileEnd::PassBmpHead(std::span<const uint8_t> bytes) {
  head_.push_back(bytes[0]);
  const absl::StatusOr<std::optional<BmpLayout>> parsed = ParseBmpLayout(head_);
  if (parsed.ok() && !parsed->has_value()) return 1;
  const auto at = std::ssize(head_);
  head_.clear();
  if (!parsed.ok() || (*parsed)->size.width < 1 || (*parsed)->size.height < 1) {
    kind_ = Kind::kOther;
    return 1;
  }
  const BmpLayout& layout = **parsed;
  const auto begin = static_cast<int64_t>(layout.pixels_offset);
  const auto row_bytes = static_cast<int64_t>(layout.stored_row_bytes());
  profile_end_ = static_cast<int64_t>(layout.profile_end);
  skip_ = begin - at;
  if (layout.coding != BmpCoding::kPlain) {
    bmp_ = BmpPart::kRuns;
    bmp_rows_ = layout.size.height;
    bmp_at_ = begin;
    runs_of_nibbles_ = layout.coding == BmpCoding::kRle4;
  } else if (row_bytes > (INT64_MAX - begin) / layout.size.height) {
    kind_ = Kind::kOther;
  } else {
    skip_ = std::max(begin + row_bytes * layout.size.height, profile_end_) - at;
    last_ = true;
  }
  return 1;
}

// As the decoder reads them: up to the code of the end, or behind the last row.
size_t FileEnd::PassBmpRuns(std::span<const uint8_t> bytes) {
  constexpr uint8_t kEscape = 0, kEndOfRow = 0, kEndOfImage = 1, kStep = 2;
  constexpr size_t kCodeBytes = 2, kStepBytes = 4;
  const bool is_step = head_.size() >= kCodeBytes;  // which has two bytes more
  const size_t wanted = is_step ? kStepBytes : kCodeBytes;
  const size_t count = FillHead(bytes, wanted);
  const bool is_over = bmp_rows_ <= 0 && head_[0] != kEscape;  // only the end's code may follow
  if (head_.size() < wanted && !is_over) return count;
  const bool ends = head_.size() == kCodeBytes && head_[0] == kEscape && head_[1] == kEndOfImage;
  if (bmp_rows_ <= 0 && !ends) {
    const std::vector<uint8_t> behind = std::exchange(head_, {});
    EndBmpRuns();
    Pass(behind);
    return count;
  }
  if (head_[0] == kEscape && head_[1] == kStep && !is_step) return count;
  bmp_at_ += static_cast<int64_t>(wanted);
  if (ends) {
    head_.clear();
    EndBmpRuns();
    return count;
  }
  if (is_step) {
    bmp_rows_ -= head_[3];
  } else if (head_[0] == kEscape && head_[1] == kEndOfRow) {
    --bmp_rows_;
  } else if (head_[0] == kEscape) {  // pixels one by one, up to an even number of bytes
    const int64_t pixels = runs_of_nibbles_ ? (head_[1] + 1) / 2 : head_[1];
    skip_ = pixels + pixels % 2;
    bmp_at_ += skip_;
  }
  head_.clear();
  return count;
}

void FileEnd::EndBmpRuns() {
  last_ = true;
  skip_ = std::max<int64_t>(profile_end_ - bmp_at_, 0);
  ended_ = skip_ == 0;
}

size_t FileEnd::PassJpeg(std::span<const uint8_t> bytes) {
  const uint8_t byte = bytes[0];
  switch (jpeg_) {
    case JpegPart::kMarker:  // 0xFF, as often as the writer likes, and the marker's code
      if (byte == jpeg::kPrefix) {
        before_ = byte;
        return 1;
      }
      if (std::exchange(before_, 0) != jpeg::kPrefix) {
        kind_ = Kind::kOther;
      } else if (byte == jpeg::kEoi) {
        ended_ = true;
      } else if (byte != jpeg::kSoi && byte != jpeg::kTem && !jpeg::IsRestart(byte)) {
        jpeg_ = JpegPart::kSegment;
        head_ = {byte};
      }
      return 1;
    case JpegPart::kSegment:
      head_.push_back(byte);
      if (head_.size() < 3) return 1;
      skip_ = std::max(static_cast<int>(LoadBe16(&head_[1])) - 2, 0);
      jpeg_ = head_[0] == jpeg::kSos ? JpegPart::kScan : JpegPart::kMarker;
      head_.clear();
      return 1;
    case JpegPart::kScan: {
      if (before_ == jpeg::kPrefix && byte != 0 && byte != jpeg::kPrefix &&
          !jpeg::IsRestart(byte)) {
        jpeg_ = JpegPart::kMarker;  // which reads its code again
        return 0;
      }
      const void* const next = std::memchr(bytes.data(), jpeg::kPrefix, bytes.size());
      if (byte == jpeg::kPrefix || next == nullptr) {
        before_ = byte == jpeg::kPrefix ? byte : 0;
        return byte == jpeg::kPrefix ? 1 : bytes.size();
      }
      before_ = 0;
      return static_cast<size_t>(static_cast<const uint8_t*>(next) - bytes.data());
    }
  }
  return 1;
}

void BytesBehind::Pass(std::span<const uint8_t> bytes) {
  FillHead(begin_, bytes, kFileKindBytes);
  count_ += std::ssize(bytes);
}

bool BytesBehind::is_padding() const {
  constexpr int64_t kMaxPadding = 3;
  return count_ <= kMaxPadding && std::ranges::all_of(begin_, [](uint8_t b) { return b == 0; });
}

std::string BytesBehind::Warning(std::string_view format) const {
  if (count_ == 0) return {};
  std::string text = absl::StrCat("behind the ", ToAbsl(format), "'s end ", count_,
                                  count_ == 1 ? " byte was" : " bytes were", " left out");
  const std::optional<FileKind> kind = RecognizeFileKind(begin_);
  if (kind.has_value()) absl::StrAppend(&text, " (", ToAbsl(kind->name), " begins there)");
  return text;
}

std::string FileEnd::Warning() const {
  std::string text;
  if (!boxes_.empty()) text = absl::StrCat("boxes of the file are left out: ", boxes_.Names());
  if (behind_.count() == 0 || is_padded()) return text;
  constexpr std::string_view kNames[] = {"", "PNG", "JPEG", "WebP", "GIF", "BMP", "file"};
  return absl::StrCat(text, text.empty() ? "" : "; ",
                      behind_.Warning(kNames[static_cast<size_t>(kind_)]));
}

}  // namespace upscaled
