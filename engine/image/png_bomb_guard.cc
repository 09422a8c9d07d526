// Source: PNG specification (third edition), sections 5 and 11.3.
#include "engine/image/png_bomb_guard.h"

#include <algorithm>

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/endian.h"

namespace upscaled {
namespace {

// Encoders may leave some padding after the last row. This much inflates to 4 MB, and libpng throws
// it away in some milliseconds.
constexpr size_t kMaxSurplusBytes = 4 << 10;

// The fields before a chunk's deflated data, a letter each: 't' text up to a zero byte, 'b' a byte,
// 'c' a byte with zero for data that are not compressed after all.
std::string_view FieldsOf(std::string_view type) {
  if (type == "iCCP" || type == "zTXt") return "tb";
  if (type == "iTXt") return "tcbtt";
  return {};
}

}  // namespace

void PngBombGuard::EndInflate::operator()(z_stream_s* stream) const {
  inflateEnd(stream);
  delete stream;
}

absl::Status PngBombGuard::Follow(std::span<const uint8_t> bytes, bool has_all_rows) {
  while (!bytes.empty()) {
    size_t count;
    if (data_bytes_ > 0) {
      count = std::min(bytes.size(), data_bytes_);
      RETURN_IF_ERROR(FollowData(bytes.first(count), has_all_rows));
      data_bytes_ -= count;
    } else if (skip_bytes_ > 0) {
      count = std::min(bytes.size(), skip_bytes_);
      skip_bytes_ -= count;
    } else {
      count = std::min(bytes.size(), head_.size() - head_bytes_);
      std::copy_n(bytes.begin(), count, head_.begin() + head_bytes_);
      head_bytes_ += count;
      if (head_bytes_ == head_.size()) RETURN_IF_ERROR(BeginChunk());
    }
    bytes = bytes.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status PngBombGuard::BeginChunk() {
  head_bytes_ = 0;
  data_bytes_ = LoadBe32(head_.data());
  skip_bytes_ = kPngCrcBytes;
  type_ = {reinterpret_cast<const char*>(&head_[4]), 4};
  fields_ = FieldsOf(type_);
  inflater_.reset();
  if (fields_.empty()) return absl::OkStatus();
  inflater_.reset(new z_stream_s());
  if (inflateInit(inflater_.get()) == Z_OK) return absl::OkStatus();
  return absl::ResourceExhaustedError("PNG: no memory for zlib");
}

absl::Status PngBombGuard::FollowData(std::span<const uint8_t> data, bool has_all_rows) {
  if (type_ == "IDAT" && has_all_rows) {
    surplus_bytes_ += data.size();
    if (surplus_bytes_ > kMaxSurplusBytes)
      return absl::ResourceExhaustedError(
          absl::StrCat("PNG: the IDAT chunks go on for at least ", kMaxSurplusBytes + 1,
                       " bytes after the last row; the limit is ", kMaxSurplusBytes));
  }
  for (; !fields_.empty() && !data.empty(); data = data.subspan(1)) {
    if (fields_[0] == 'c' && data[0] == 0) inflater_.reset();
    if (fields_[0] != 't' || data[0] == 0) fields_.remove_prefix(1);
  }
  return inflater_ == nullptr ? absl::OkStatus() : Inflate(data);
}

absl::Status PngBombGuard::Inflate(std::span<const uint8_t> data) {
  inflater_->next_in = const_cast<Bytef*>(data.data());  // zlib only reads it
  inflater_->avail_in = static_cast<uInt>(data.size());
  uint8_t inflated[8 << 10];
  while (inflater_->avail_in > 0) {
    inflater_->next_out = inflated;
    inflater_->avail_out = sizeof(inflated);
    const int result = inflate(inflater_.get(), Z_NO_FLUSH);
    inflated_bytes_ += sizeof(inflated) - inflater_->avail_out;
    if (const size_t limit = limits_.max_metadata_bytes; inflated_bytes_ > limit)
      return BeyondLimit(
          limits_, DecodeLimit::kMetadataBytes, static_cast<int64_t>(limit + 1),
          absl::StrCat("PNG: the compressed metadata inflate to at least ", limit + 1,
                       " bytes by the chunk ", absl::string_view(type_.data(), type_.size()),
                       "; the limit is ", limit));
    if (result == Z_OK) continue;
    inflater_.reset();  // at its end, or corrupt; then libpng drops it as well
    break;
  }
  return absl::OkStatus();
}

}  // namespace upscaled
