// How near an enlarged image's pixels are to marked pixels of its source, as weights: full next to
// a marked pixel, zero farther away, and a ramp between. A stage with one effect near them and
// another elsewhere shows no edge. Streamed: it holds some rows of marks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/base/geometry.h"

namespace upscaled {

// The weight is full up to this far from a marked source pixel, along either axis,
inline constexpr int kFullWeightUpToPx = 1;
// and zero from this far on, the interpolation between source pixels included.
inline constexpr int kZeroWeightFromPx = 5;

class NearWeights {
 public:
  // Fills in a row of the source, top to bottom: not 0 for a marked pixel.
  using NextMarks = absl::FunctionRef<absl::Status(std::span<uint8_t> marks)>;

  NearWeights(Size source, int scale);

  // Moves to a row of the enlarged image. Its rows come in order.
  absl::Status MoveTo(int row, NextMarks next_marks);
  // Weights of the row's pixels, from 0 to full().
  std::span<const int> row() const { return row_; }
  int full() const { return full_; }
  // Throughout the row.
  bool is_full() const { return row_state_ == State::kFull; }
  bool is_zero() const { return row_state_ == State::kZero; }

  static size_t Bytes(Size source, int scale);

 private:
  enum class State : uint8_t { kFull, kZero, kMixed };
  // Weights of a row of source pixels, from 0 to kZeroWeightFromPx - kFullWeightUpToPx.
  struct SourceRow {
    std::vector<uint8_t> weights;
    State state = State::kMixed;
  };

  absl::Status PullMarks(int end_row, NextMarks next_marks);
  void Weigh(int y, SourceRow& row) const;
  // The weights of source row `y`, at most one row beyond either end.
  const SourceRow& SourceRowAt(int y) const;
  void Interpolate(int row);

  const Size source_;
  const int scale_;
  const int full_;
  // Rings: the distance of the next marked pixel in each pixel's row, at most kZeroWeightFromPx,
  // and weights of the rows around the present one.
  std::vector<std::vector<uint8_t>> distances_;
  std::vector<SourceRow> source_rows_;
  std::vector<int> mixed_;  // weights between two source rows
  std::vector<int> row_;
  State row_state_ = State::kMixed;
  int distance_rows_ = 0;
  int source_row_count_ = 0;
};

}  // namespace upscaled
