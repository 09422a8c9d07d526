// Rows are resized horizontally as they come, into rows of float pixels of 1, 2 or 4 lanes (RGB
// leaves the fourth empty): the inner loops run over whole vectors. Vertically,
//   - enlarging keeps the window of such rows that a result row is the weighted sum of;
//   - shrinking adds each row to the few result rows that it takes part in.
// Either way a handful of rows is held, and each sum runs over the source rows from top to bottom.
#include "engine/image/resample.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/base/aligned_buffer.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/full_scale.h"
#include "engine/image/resample_taps.h"

namespace upscaled {
namespace {

constexpr int LanesOf(int channels) { return channels == 3 ? 4 : channels; }

// Rows in the vertical pass at once.
int RowsHeld(const TapTable& vertical, bool shrinks) {
  int most = 1;
  const std::vector<Taps>& taps = vertical.taps;
  for (size_t y = 0, end = 0; y < taps.size(); ++y) {
    while (end < taps.size() && taps[end].first <= taps[y].last()) ++end;
    most = std::max(most, shrinks ? static_cast<int>(end - y) : taps[y].count);
  }
  return most;
}

template <typename T>
constexpr float kFull = static_cast<float>(kFullScale<T>);

// Rounds half up and clamps integers.
template <typename T>
T Store(float v) {
  if constexpr (std::is_same_v<T, float>)
    return v;
  else
    return static_cast<T>(std::min(std::max(v + 0.5f, 0.0f), kFull<T>));
}

// Pixels as floats, colours multiplied by alpha if they are `kWeighed`.
template <typename T, int kChannels, bool kWeighed>
void LoadRow(const T* src, float* dst, int width) {
  constexpr int kLanes = LanesOf(kChannels);
  for (int x = 0; x < width; ++x, src += kChannels, dst += kLanes) {
    if constexpr (kWeighed) {
      const float alpha = src[kChannels - 1];
      for (int c = 0; c < kChannels - 1; ++c) dst[c] = src[c] * (alpha / kFull<T>);
      dst[kChannels - 1] = alpha;
    } else {
      for (int c = 0; c < kChannels; ++c) dst[c] = src[c];
      if constexpr (kLanes > kChannels) dst[kChannels] = 0;
    }
  }
}

template <typename T, int kChannels, bool kWeighed>
void StoreRow(const float* src, T* dst, int width) {
  for (int x = 0; x < width; ++x, src += LanesOf(kChannels), dst += kChannels) {
    if constexpr (kWeighed) {
      const float alpha = src[kChannels - 1];  // may overshoot, and colours do as it does
      dst[kChannels - 1] = Store<T>(std::clamp(alpha, 0.0f, kFull<T>));
      const float scale = dst[kChannels - 1] > 0 ? kFull<T> / alpha : 0.0f;
      for (int c = 0; c < kChannels - 1; ++c) dst[c] = Store<T>(src[c] * scale);
    } else {
      for (int c = 0; c < kChannels; ++c) dst[c] = Store<T>(src[c]);
    }
  }
}

template <int kLanes>
void ResizeRow(const TapTable& table, const float* src, float* dst) {
  for (const Taps& taps : table.taps) {
    const float* weights = table.weights_of(taps);
    const float* pixel = src + static_cast<size_t>(taps.first) * kLanes;
    float sum[kLanes] = {};
    for (int k = 0; k < taps.count; ++k, pixel += kLanes)
      for (int c = 0; c < kLanes; ++c) sum[c] += weights[k] * pixel[c];
    dst = std::copy(sum, sum + kLanes, dst);
  }
}

// dst = weight * src, or += if not `first`.
void AddRow(float weight, const float* __restrict src, float* __restrict dst, size_t count,
            bool first) {
  if (first)
    for (size_t i = 0; i < count; ++i) dst[i] = weight * src[i];
  else
    for (size_t i = 0; i < count; ++i) dst[i] += weight * src[i];
}

template <typename T, int kChannels, bool kWeighed>
class Resizer final : public RowSource {
 public:
  Resizer(RowSource& source, const Rect& part, Size result, Filter filter)
      : source_(source),
        spec_{result.width, result.height, kChannels, source.spec().type},
        shrinks_(part.height > result.height),
        horizontal_(
            ComputeTaps(source.spec().width_px, {part.x, part.width}, result.width, filter)),
        vertical_(
            ComputeTaps(source.spec().height_px, {part.y, part.height}, result.height, filter)),
        rows_held_(RowsHeld(vertical_, shrinks_)),
        row_floats_(static_cast<size_t>(result.width) * kLanes),
        read_row_(source.spec().row_bytes()),
        loaded_row_(static_cast<size_t>(source.spec().width_px) * kLanes),
        sum_row_(row_floats_),
        held_rows_(row_floats_ * rows_held_) {}

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_) {
      while (next_source_row_ <= vertical_.taps[next_row_].last()) RETURN_IF_ERROR(TakeSourceRow());
      StoreRow<T, kChannels, kWeighed>(FinishRow(), rows.row_as<T>(y), spec_.width_px);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int kLanes = LanesOf(kChannels);

  float* HeldRow(int i) { return held_rows_.data() + row_floats_ * (i % rows_held_); }

  absl::Status TakeSourceRow() {
    ImageSpec row_spec = source_.spec();
    row_spec.height_px = 1;
    RETURN_IF_ERROR(source_.ReadRows(
        {read_row_.data(), row_spec, static_cast<ptrdiff_t>(row_spec.row_bytes())}));
    LoadRow<T, kChannels, kWeighed>(reinterpret_cast<const T*>(read_row_.data()),
                                    loaded_row_.data(), row_spec.width_px);
    ResizeRow<kLanes>(horizontal_, loaded_row_.data(),
                      shrinks_ ? sum_row_.data() : HeldRow(next_source_row_));
    if (shrinks_) AddToResultRows(next_source_row_);
    ++next_source_row_;
    return absl::OkStatus();
  }

  void AddToResultRows(int source_row) {
    for (int y = next_row_; y < spec_.height_px && vertical_.taps[y].first <= source_row; ++y) {
      const Taps& taps = vertical_.taps[y];
      if (source_row > taps.last()) continue;
      AddRow(vertical_.weights_of(taps)[source_row - taps.first], sum_row_.data(), HeldRow(y),
             row_floats_, source_row == taps.first);
    }
  }

  // The sum of next_row_, with all its source rows taken.
  const float* FinishRow() {
    if (shrinks_) return HeldRow(next_row_);
    const Taps& taps = vertical_.taps[next_row_];
    for (int k = 0; k < taps.count; ++k)
      AddRow(vertical_.weights_of(taps)[k], HeldRow(taps.first + k), sum_row_.data(), row_floats_,
             k == 0);
    return sum_row_.data();
  }

  RowSource& source_;
  const ImageSpec spec_;
  const bool shrinks_;  // vertically
  const TapTable horizontal_, vertical_;
  const int rows_held_;
  const size_t row_floats_;
  AlignedBuffer<uint8_t> read_row_;
  AlignedBuffer<float> loaded_row_;
  AlignedBuffer<float> sum_row_;    // shrinking: the source row; enlarging: the result row
  AlignedBuffer<float> held_rows_;  // a ring; shrinking: of result rows; enlarging: of source rows
  int next_source_row_ = 0;
  int next_row_ = 0;
};

template <typename T>
std::unique_ptr<RowSource> MakeTypedResizer(RowSource& source, const Rect& part, Size result,
                                            Filter filter, AlphaColour colour) {
  const bool weighs = colour == AlphaColour::kBleed;
  switch (source.spec().channels) {
    case 1:
      return std::make_unique<Resizer<T, 1, false>>(source, part, result, filter);
    case 2:
      if (!weighs) return std::make_unique<Resizer<T, 2, false>>(source, part, result, filter);
      return std::make_unique<Resizer<T, 2, true>>(source, part, result, filter);
    case 3:
      return std::make_unique<Resizer<T, 3, false>>(source, part, result, filter);
    default:
      if (!weighs) return std::make_unique<Resizer<T, 4, false>>(source, part, result, filter);
      return std::make_unique<Resizer<T, 4, true>>(source, part, result, filter);
  }
}

// Bound on a table's memory.
size_t TapTableBytes(int source_length, int result_length, Filter filter) {
  const double reach = FilterReach(source_length, result_length, filter);
  return result_length * (sizeof(Taps) + static_cast<size_t>(2 * reach + 2) * 2 * sizeof(float));
}

std::unique_ptr<RowSource> MakeResizerOfPart(RowSource& source, const Rect& part, Size result,
                                             Filter filter, AlphaColour colour) {
  switch (source.spec().type) {
    case SampleType::kU8:
      return MakeTypedResizer<uint8_t>(source, part, result, filter, colour);
    case SampleType::kU16:
      return MakeTypedResizer<uint16_t>(source, part, result, filter, colour);
    case SampleType::kF32:
      break;
  }
  return MakeTypedResizer<float>(source, part, result, filter, colour);
}

Rect WholeOf(const ImageSpec& source) { return {0, 0, source.width_px, source.height_px}; }

}  // namespace

std::unique_ptr<RowSource> MakeResizer(RowSource& source, Size result, Filter filter,
                                       AlphaColour colour) {
  return MakeResizerOfPart(source, WholeOf(source.spec()), result, filter, colour);
}

RowStage PlanResize(const ImageSpec& source, Size result, Filter filter, AlphaColour colour) {
  return PlanResizeOfPart(source, WholeOf(source), result, filter, colour);
}

RowStage PlanResizeOfPart(const ImageSpec& source, const Rect& part, Size result, Filter filter,
                          AlphaColour colour) {
  // Enlarging, a window of 2 * reach + 1 rows; shrinking, as many result rows overlap.
  const size_t rows_held = static_cast<size_t>(2 * FilterReach(1, 2, filter)) + 3;
  const size_t pixel_bytes = LanesOf(source.channels) * sizeof(float);
  const size_t bytes = source.row_bytes() + source.width_px * pixel_bytes +
                       result.width * pixel_bytes * (rows_held + 1) +
                       TapTableBytes(part.width, result.width, filter) +
                       TapTableBytes(part.height, result.height, filter);
  const double reach = std::max(FilterReach(part.width, result.width, filter),
                                FilterReach(part.height, result.height, filter));
  return {{.source = source,
           .result = {result.width, result.height, source.channels, source.type},
           .border_px = static_cast<int>(std::ceil(reach)),
           .memory_bytes = bytes},
          [=](RowSource& rows) { return MakeResizerOfPart(rows, part, result, filter, colour); }};
}

}  // namespace upscaled
