// Alpha computed as a gray image, held to its source in flat areas: opaque stays opaque and
// transparent stays transparent, and a network's ripples make no halo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/near_weights.h"

namespace upscaled {

// A pixel is at an edge where one of its four neighbours differs.
inline constexpr int kFlatAlphaBorderPx = kZeroWeightFromPx + 1;

// One channel of kU16: the computed alpha next to edges, the source's farther away, with a ramp
// between (NearWeights).
class FlatAlpha final : public RowSource {
 public:
  // `computed`: RGB of kU16, alpha in each channel, a multiple of the size of `source`. `source` is
  // RGBA of 8 or 16 bits. Both must outlive it.
  FlatAlpha(RowSource& computed, RowSource& source);

  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override;

  static size_t Bytes(const ImageSpec& source, int scale);

 private:
  // Alpha of source row `y`, at most one row beyond either end.
  const std::vector<uint16_t>& AlphaOf(int y) const;
  absl::Status PullAlpha();
  absl::Status MarkEdges(std::span<uint8_t> marks);
  void Mix(int row, uint16_t* alpha) const;

  RowSource& computed_;
  RowSource& source_;
  const ImageSpec spec_;
  const int scale_;
  NearWeights near_edges_;
  Image source_row_, computed_row_;
  std::vector<std::vector<uint16_t>> alpha_;  // a ring of the source's rows
  int alpha_rows_ = 0;
  int marked_rows_ = 0;
  int next_row_ = 0;
};

}  // namespace upscaled
