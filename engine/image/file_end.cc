#include "engine/image/file_end.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file_kind.h"
#include "engine/base/string_view.h"
#include "engine/image/endian.h"
#include "engine/image/jpeg_marker.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

constexpr size_t kRiffHeadBytes = 12;
constexpr size_t kChunkHeadBytes = 8, kChunkCheckBytes = 4;

}  // namespace

void FileEnd::Pass(std::span<const uint8_t> bytes) {
  while (!bytes.empty() && kind_ != Kind::kOther) {
    size_t count = 0;
    if (ended_) {
      count = PassBehind(bytes);
    } else if (skip_ > 0) {
      count = static_cast<size_t>(std::min<int64_t>(skip_, std::ssize(bytes)));
      skip_ -= static_cast<int64_t>(count);
      ended_ = last_ && skip_ == 0;
    } else if (kind_ == Kind::kUnread) {
      count = Begin(bytes);
    } else {
      count = kind_ == Kind::kJpeg ? PassJpeg(bytes) : PassChunkHead(bytes);
    }
    bytes = bytes.subspan(count);
  }
}

size_t FileEnd::Begin(std::span<const uint8_t> bytes) {
  const size_t count = std::min(bytes.size(), kRiffHeadBytes - head_.size());
  head_.insert(head_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
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
  } else {
    kind_ = Kind::kOther;
  }
  return count;
}

size_t FileEnd::PassChunkHead(std::span<const uint8_t> bytes) {
  const size_t count = std::min(bytes.size(), kChunkHeadBytes - head_.size());
  head_.insert(head_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
  if (head_.size() < kChunkHeadBytes) return count;
  last_ = BeginsWith(std::span(head_).subspan(4), "IEND");
  skip_ = int64_t{LoadBe32(head_.data())} + static_cast<int64_t>(kChunkCheckBytes);
  head_.clear();
  return count;
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

size_t FileEnd::PassBehind(std::span<const uint8_t> bytes) {
  const size_t count = std::min(bytes.size(), kFileKindBytes - begin_behind_.size());
  begin_behind_.insert(begin_behind_.end(), bytes.begin(),
                       bytes.begin() + static_cast<ptrdiff_t>(count));
  behind_ += std::ssize(bytes);
  return bytes.size();
}

std::string FileEnd::Warning() const {
  if (behind_ == 0) return "";
  const std::string_view name = kind_ == Kind::kPng    ? "PNG"
                                : kind_ == Kind::kJpeg ? "JPEG"
                                                       : "WebP";
  std::string text = absl::StrCat("behind the ", ToAbsl(name), "'s end ", behind_,
                                  behind_ == 1 ? " byte was" : " bytes were", " left out");
  const std::optional<FileKind> kind = RecognizeFileKind(begin_behind_);
  if (kind.has_value()) absl::StrAppend(&text, " (", ToAbsl(kind->name), " begins there)");
  return text;
}

}  // namespace upscaled
