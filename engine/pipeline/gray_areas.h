// Gray stays gray: no network's tint gets into the result of gray pixels.
//
// A result's pixel takes the luma of its colour where all source pixels around it are gray (R = G =
// B) and keeps its colour next to coloured ones, with a ramp between (NearWeights). So a wholly
// gray image gets the result of a gray image, and no edge shows between gray and colour. It is
// decided by pixels, since a stream does not know how it will end. A black and white page with a
// coloured picture is right in both parts, and a sepia picture stays as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/near_weights.h"

namespace upscaled {

inline constexpr int kGrayAreasBorderPx = kZeroWeightFromPx;

class GrayAreas final : public RowSource {
 public:
  // `result`: RGB or RGBA of 8 or 16 bits, a multiple of the size of `source`. `source` has the
  // same channels and 8 or 16 bits. Both must outlive it; its rows are the result's as `type`.
  GrayAreas(RowSource& result, RowSource& source, SampleType type);

  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override;

  static size_t Bytes(const ImageSpec& source, const ImageSpec& result);

 private:
  absl::Status MarkColoured(std::span<uint8_t> marks);
  template <typename T>
  void MakeGray();

  RowSource& result_;
  RowSource& source_;
  const ImageSpec spec_;
  NearWeights near_colour_;
  Image source_row_, result_row_;
  int next_row_ = 0;
};

}  // namespace upscaled
