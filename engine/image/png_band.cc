#include "engine/image/png_band.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/png_chunk.h"

namespace upscaled {
namespace {

// Bytes of rows: enough to hide the fresh start of each band, and few for the cache.
constexpr size_t kBandBytes = 256 << 10;
constexpr uint8_t kZlibHeader[] = {0x78, 0x01};  // deflate, a window of 32 KB
constexpr uint8_t kNone = 0, kPaeth = 4;         // filter types

// PNG specification, section 9.4. GCC makes vectors of it. To choose the best filter for each row
// takes more time than deflating, and saves nothing.
void FilterPaeth(const uint8_t* __restrict row, const uint8_t* __restrict above, int pixel_bytes,
                 size_t row_bytes, uint8_t* __restrict dst) {
  const size_t begin = pixel_bytes;
  for (size_t i = 0; i < begin; ++i) dst[i] = row[i] - above[i];
  for (size_t i = begin; i < row_bytes; ++i) {
    const int16_t left = row[i - begin], up = above[i], corner = above[i - begin];
    const int16_t from_left = std::abs(up - corner), from_up = std::abs(left - corner);
    const int16_t from_corner = std::abs(left + up - 2 * corner);
    const int16_t other = from_up <= from_corner ? up : corner;
    const int16_t from_other = std::min(from_up, from_corner);
    dst[i] = row[i] - (from_left <= from_other ? left : other);
  }
}

}  // namespace

int PngBand::RowsOf(const ImageSpec& spec) {
  return static_cast<int>(std::max<size_t>(kBandBytes / spec.row_bytes(), 1));
}

size_t PngBand::BytesOf(const ImageSpec& spec) {
  const size_t rows = std::min(RowsOf(spec), spec.height_px);
  const size_t filtered = rows * (spec.row_bytes() + 1);
  return sizeof(PngBand) + kPieceDeflaterBytes + (rows + 1) * spec.row_bytes() + filtered +
         DeflatedBound(filtered) + 64;
}

absl::StatusOr<std::unique_ptr<PngBand>> PngBand::Create(const ImageSpec& spec, int compression) {
  ASSIGN_OR_RETURN(std::unique_ptr<PieceDeflater> deflater, MakePieceDeflater(compression));
  return std::unique_ptr<PngBand>(new PngBand(spec, compression, std::move(deflater)));
}

PngBand::PngBand(const ImageSpec& spec, int compression, std::unique_ptr<PieceDeflater> deflater)
    : row_bytes_(spec.row_bytes()),
      pixel_bytes_(static_cast<int>(spec.pixel_bytes())),
      swaps_(spec.type == SampleType::kU16 && std::endian::native == std::endian::little),
      predicts_(compression > 0),
      deflater_(std::move(deflater)) {
  const size_t rows = std::min(RowsOf(spec), spec.height_px);
  rows_.resize((rows + 1) * row_bytes_);
  filtered_.reserve(rows * (row_bytes_ + 1));
  chunk_.reserve(kPngChunkHeadBytes + sizeof(kZlibHeader) + DeflatedBound(filtered_.capacity()) +
                 kPngChunkTailBytes);
}

void PngBand::Begin(const PngBand* above) {
  first_ = above == nullptr;
  if (first_)
    std::memset(Row(-1), 0, row_bytes_);
  else
    std::memmove(Row(-1), above->rows_.data() + row_bytes_ * above->row_count_, row_bytes_);
  row_count_ = 0;
}

void PngBand::AddRow(const uint8_t* samples) {
  uint8_t* row = Row(row_count_++);
  if (!swaps_) {
    std::memcpy(row, samples, row_bytes_);
    return;
  }
  for (size_t i = 0; i < row_bytes_; i += 2) {
    row[i] = samples[i + 1];
    row[i + 1] = samples[i];
  }
}

void PngBand::Filter() {
  filtered_.resize(row_count_ * (row_bytes_ + 1));
  uint8_t* dst = filtered_.data();
  for (int y = 0; y < row_count_; ++y, dst += row_bytes_) {
    *dst++ = predicts_ ? kPaeth : kNone;
    if (predicts_)
      FilterPaeth(Row(y), Row(y - 1), pixel_bytes_, row_bytes_, dst);
    else
      std::memcpy(dst, Row(y), row_bytes_);
  }
  adler_ = Adler32(filtered_);
}

void PngBand::Encode(bool last) {
  Filter();
  const size_t begin = kPngChunkHeadBytes + (first_ ? sizeof(kZlibHeader) : 0);
  chunk_.resize(begin + DeflatedBound(filtered_.size()));
  if (first_) std::copy_n(kZlibHeader, sizeof(kZlibHeader), chunk_.begin() + kPngChunkHeadBytes);
  chunk_.resize(begin + deflater_->Deflate(filtered_, last, std::span(chunk_).subspan(begin)));
  FinishPngChunk("IDAT", chunk_);
}

}  // namespace upscaled
