#include "engine/pipeline/near_weights.h"

#include <algorithm>
#include <cstdlib>

#include "engine/base/status_macros.h"
#include "engine/pipeline/linear_phase.h"

namespace upscaled {
namespace {

constexpr int kSteps = kZeroWeightFromPx - kFullWeightUpToPx;
constexpr int kDistanceRows = 2 * kZeroWeightFromPx - 1;
constexpr int kSourceRows = 3;

// Turns marks into the distance to the next marked pixel of the row.
void MeasureDistances(std::span<uint8_t> row) {
  int distance = kZeroWeightFromPx;
  for (uint8_t& value : row) {
    distance = value != 0 ? 0 : std::min(distance + 1, kZeroWeightFromPx);
    value = static_cast<uint8_t>(distance);
  }
  distance = kZeroWeightFromPx;
  for (size_t x = row.size(); x-- > 0;) {
    distance = std::min<int>(row[x], distance + 1);
    row[x] = static_cast<uint8_t>(distance);
  }
}

// Lowers distances to those by way of another row, `rows_away` from it.
void Approach(const uint8_t* distances, uint8_t rows_away, std::span<uint8_t> nearest) {
  uint8_t* const to = nearest.data();
  const size_t width = nearest.size();  // a store of bytes may change anything but a local
  for (size_t x = 0; x < width; ++x) to[x] = std::min(to[x], std::max(distances[x], rows_away));
}

// The mean of two values by their parts of `whole`, times `whole`.
int Mix(int first, int second, int second_parts, int whole) {
  return first * (whole - second_parts) + second * second_parts;
}

}  // namespace

NearWeights::NearWeights(Size source, int scale)
    : source_(source),
      scale_(scale),
      full_(kSteps * (2 * scale) * (2 * scale)),
      distances_(kDistanceRows, std::vector<uint8_t>(static_cast<size_t>(source.width))),
      source_rows_(kSourceRows, {std::vector<uint8_t>(static_cast<size_t>(source.width))}),
      mixed_(static_cast<size_t>(source.width)),
      row_(static_cast<size_t>(source.width * scale)) {}

size_t NearWeights::Bytes(Size source, int scale) {
  constexpr size_t kOverheadBytes = 1024;
  return static_cast<size_t>(source.width) *
             (kDistanceRows + kSourceRows + sizeof(int) * static_cast<size_t>(1 + scale)) +
         kOverheadBytes;
}

absl::Status NearWeights::MoveTo(int row, NextMarks next_marks) {
  const int end = std::min(row / scale_ + 2, source_.height);
  for (; source_row_count_ < end; ++source_row_count_) {
    RETURN_IF_ERROR(PullMarks(source_row_count_ + kZeroWeightFromPx, next_marks));
    Weigh(source_row_count_, source_rows_[static_cast<size_t>(source_row_count_ % kSourceRows)]);
  }
  Interpolate(row);
  return absl::OkStatus();
}

absl::Status NearWeights::PullMarks(int end_row, NextMarks next_marks) {
  for (; distance_rows_ < std::min(end_row, source_.height); ++distance_rows_) {
    const std::span<uint8_t> row(distances_[static_cast<size_t>(distance_rows_ % kDistanceRows)]);
    RETURN_IF_ERROR(next_marks(row));
    MeasureDistances(row);
  }
  return absl::OkStatus();
}

void NearWeights::Weigh(int y, SourceRow& row) const {
  std::vector<uint8_t>& nearest = row.weights;
  std::ranges::fill(nearest, static_cast<uint8_t>(kZeroWeightFromPx));
  const int end = std::min(y + kZeroWeightFromPx, distance_rows_);
  for (int other = std::max(0, y - kZeroWeightFromPx + 1); other < end; ++other) {
    const uint8_t* const distances = distances_[static_cast<size_t>(other % kDistanceRows)].data();
    Approach(distances, static_cast<uint8_t>(std::abs(other - y)), nearest);
  }
  for (uint8_t& value : nearest) {
    value = static_cast<uint8_t>(kZeroWeightFromPx - std::max<int>(value, kFullWeightUpToPx));
  }
  const auto [least, most] = std::ranges::minmax(nearest);
  row.state = least == kSteps ? State::kFull : most == 0 ? State::kZero : State::kMixed;
}

const NearWeights::SourceRow& NearWeights::SourceRowAt(int y) const {
  const int row = std::clamp(y, 0, source_.height - 1);
  return source_rows_[static_cast<size_t>(row % kSourceRows)];
}

void NearWeights::Interpolate(int row) {
  const LinearPhase down = LinearPhaseOf(row % scale_, scale_);
  const SourceRow& above = SourceRowAt(row / scale_ + down.first);
  const SourceRow& below = SourceRowAt(row / scale_ + down.first + 1);
  row_state_ = above.state == below.state ? above.state : State::kMixed;
  if (row_state_ != State::kMixed) {
    std::ranges::fill(row_, is_full() ? full_ : 0);
    return;
  }
  const int whole = 2 * scale_, width = source_.width;
  for (size_t x = 0; x < mixed_.size(); ++x) {
    mixed_[x] = Mix(above.weights[x], below.weights[x], down.second_parts, whole);
  }
  int* weight = row_.data();
  for (int x = 0; x < width; ++x) {
    for (int i = 0; i < scale_; ++i) {
      const LinearPhase across = LinearPhaseOf(i, scale_);
      const int left = std::max(0, x + across.first);
      const int right = std::min(width - 1, x + across.first + 1);
      *weight++ = Mix(mixed_[static_cast<size_t>(left)], mixed_[static_cast<size_t>(right)],
                      across.second_parts, whole);
    }
  }
}

}  // namespace upscaled
