// A result has the colours of its source: the low frequencies are carried over.
//
// Networks shift them: they darken dithers, checkerboards and screentones. Networks with
// adversarial training shift flat colours, too. To each colour of the result is added
//
//   lowpass(source - reduce(result))
//
// `reduce` takes the mean of the pixels made of one source pixel, `lowpass` is a Gaussian over
// source pixels, and the sum is interpolated linearly to the result's pixels. Alpha stays.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/kept_colours_row.h"

namespace upscaled {

// A round misses the part beyond the ends of the colours' range; the second gives most of it to
// their neighbours: a black and white dither comes within 0.5 of its mean, not 0.9.
inline constexpr int kKeptColoursRounds = 2;
// A mean over fewer pixels would undo the network's work on edges and noise. A wider one leaves
// more of the shift at the sides of a pattern.
inline constexpr double kKeptColoursSigmaPx = 2;
// The interpolation looks one pixel farther than the Gaussian.
inline constexpr int kKeptColoursBorderPx = kKeptColoursRadiusPx + 1;

class KeptColours final : public RowSource {
 public:
  // `result`: RGB or RGBA of kU16, a multiple of the size of `source`. `source` has the same
  // channels and 8 or 16 bits. Both must outlive it; its rows are the result's.
  KeptColours(RowSource& result, RowSource& source);

  const ImageSpec& spec() const override { return result_.spec(); }
  absl::Status ReadRows(MutableImageView rows) override;

  static size_t Bytes(const ImageSpec& source, const ImageSpec& result);

 private:
  using Row = std::vector<float>;  // of RGB, over 0..65535, with kRowPaddingFloats at its end

  // The result's rows of source row `y`.
  MutableImageView HeldResult(int y);
  absl::Status PullSourceRow();
  void Subtract(const ImageView& source, const ImageView& result);
  void SmoothAcross(Row& smoothed) const;
  void SmoothDown(int y, Row& correction) const;
  // The correction of source row `y`, at most one row beyond either end.
  const Row& CorrectionOf(int y) const;
  // Sets `enlarged_` for a row of the result.
  void Enlarge(int row);

  RowSource& result_;
  RowSource& source_;
  const int width_, height_;  // the source's
  const int scale_;
  const size_t samples_;  // of RGB in a row of the source
  const std::vector<ColumnPhase> phases_;
  const HalfGaussian gaussian_;  // the sum over both sides is 1
  Image held_result_;            // a ring of the rows that wait for their correction
  Image source_row_;
  std::vector<uint32_t> sums_;  // of the result's rows of a source row
  // Source - reduced result, with kKeptColoursRadiusPx replicated pixels at both ends.
  Row difference_;
  std::vector<Row> smoothed_;     // a ring: differences after the horizontal step
  std::vector<Row> corrections_;  // a ring: those around the row that is being corrected
  Row mixed_;     // the correction of a row between two source rows, a pixel wider at both ends
  Row enlarged_;  // and of each pixel of that row, 0 for alpha
  int pulled_rows_ = 0;
  int corrected_rows_ = 0;
  int next_row_ = 0;
};

}  // namespace upscaled
