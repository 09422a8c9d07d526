// The unit of PNG encoding: some rows, filtered and deflated independently of all others: threads
// can share an image. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/image.h"
#include "engine/image/piece_deflater.h"

namespace upscaled {

class PngBand {
 public:
  // For images of `spec`, but for their height. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<std::unique_ptr<PngBand>> Create(const ImageSpec& spec, int compression);

  // Rows of each band of an image but the last. Depends on the width only.
  static int RowsOf(const ImageSpec& spec);
  // Memory of a band.
  static size_t BytesOf(const ImageSpec& spec);

  // Begins again below `above`, the last row of another band; null: at the top of the image.
  void Begin(const PngBand* above);
  // Takes the next row, of at most RowsOf.
  void AddRow(const uint8_t* samples);
  int row_count() const { return row_count_; }

  // Makes the IDAT chunk of the rows; touches nothing but this band.
  void Encode(bool last);
  const std::vector<uint8_t>& chunk() const { return chunk_; }
  // Checksum and length of the filtered rows in the chunks.
  uint32_t adler() const { return adler_; }
  size_t filtered_bytes() const { return filtered_.size(); }

 private:
  PngBand(const ImageSpec& spec, int compression, std::unique_ptr<PieceDeflater> deflater);

  uint8_t* Row(int y) { return rows_.data() + row_bytes_ * (y + 1); }  // -1: the one above
  void Filter();

  const size_t row_bytes_;
  const int pixel_bytes_;
  const bool swaps_;     // samples have two bytes, which the file holds in the other order
  const bool predicts_;  // else the rows are stored as they are
  const std::unique_ptr<PieceDeflater> deflater_;
  bool first_ = true;
  int row_count_ = 0;
  std::vector<uint8_t> rows_;
  std::vector<uint8_t> filtered_;
  std::vector<uint8_t> chunk_;
  uint32_t adler_ = 0;
};

}  // namespace upscaled
