#include "engine/pipeline/kept_colours.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/full_scale.h"
#include "engine/pipeline/linear_phase.h"
#include "engine/pipeline/row_spec.h"

namespace upscaled {
namespace {

constexpr int kRadiusPx = kKeptColoursRadiusPx;
constexpr int kSmoothedRows = 2 * kRadiusPx + 1;
constexpr int kCorrectionRows = 3;
// Source rows between the corrected one and the last one behind its correction.
constexpr int kHeldRows = kKeptColoursBorderPx + 1;

// Half a Gaussian, from its middle on; its sum over both sides is 1.
HalfGaussian MakeGaussian() {
  std::array<double, kRadiusPx + 1> weights{};
  double sum = 0;
  for (int i = 0; i <= kRadiusPx; ++i) {
    weights[i] = std::exp(-0.5 * i * i / (kKeptColoursSigmaPx * kKeptColoursSigmaPx));
    sum += i == 0 ? weights[i] : 2 * weights[i];
  }
  HalfGaussian normalised{};
  for (int i = 0; i <= kRadiusPx; ++i) normalised[i] = static_cast<float>(weights[i] / sum);
  return normalised;
}

// The differences of a row: source - mean of the result's, over 0..65535. `sums`: of the result's
// rows of it, `scale` of them.
template <typename T>
void SubtractRow(const ImageView& source, const uint32_t* sums, int scale, float* difference) {
  constexpr float kUnit = kFullScale<uint16_t> / kFullScale<T>;
  const int channels = source.spec.channels;
  const float share = 1.0f / static_cast<float>(scale * scale);
  const T* from = source.row_as<T>(0);
  for (int x = 0; x < source.width_px(); ++x, from += channels, difference += kRgbChannels) {
    for (int c = 0; c < kRgbChannels; ++c) {
      uint32_t sum = 0;
      for (int i = 0; i < scale; ++i) sum += sums[i * channels + c];
      difference[c] = kUnit * static_cast<float>(from[c]) - share * static_cast<float>(sum);
    }
    sums += scale * channels;
  }
}

float SecondWeight(const LinearPhase& phase, int scale) {
  return static_cast<float>(phase.second_parts) / static_cast<float>(2 * scale);
}

std::vector<ColumnPhase> ColumnPhases(int scale) {
  std::vector<ColumnPhase> phases;
  for (int i = 0; i < scale; ++i) {
    const LinearPhase phase = LinearPhaseOf(i, scale);
    phases.push_back({kRgbChannels * phase.first, SecondWeight(phase, scale)});
  }
  return phases;
}

size_t PaddedFloats(int width, int channels) {
  return static_cast<size_t>(width) * static_cast<size_t>(channels) + kRowPaddingFloats;
}

}  // namespace

KeptColours::KeptColours(RowSource& result, RowSource& source)
    : result_(result),
      source_(source),
      width_(source.spec().width_px),
      height_(source.spec().height_px),
      scale_(result.spec().width_px / width_),
      samples_(static_cast<size_t>(kRgbChannels * width_)),
      phases_(ColumnPhases(scale_)),
      gaussian_(MakeGaussian()),
      held_result_(WithHeight(result.spec(), kHeldRows * scale_)),
      source_row_(OneRow(source.spec())),
      sums_(static_cast<size_t>(result.spec().width_px * result.spec().channels)),
      difference_(PaddedFloats(width_ + 2 * kRadiusPx, kRgbChannels)),
      smoothed_(kSmoothedRows, Row(PaddedFloats(width_, kRgbChannels))),
      corrections_(kCorrectionRows, Row(PaddedFloats(width_, kRgbChannels))),
      mixed_(PaddedFloats(width_ + 2, kRgbChannels)),
      enlarged_(PaddedFloats(result.spec().width_px, result.spec().channels)) {
  UPSCALED_CHECK(result.spec().type == SampleType::kU16 && result.spec().channels >= kRgbChannels);
  UPSCALED_CHECK(source.spec().channels == result.spec().channels);
}

size_t KeptColours::Bytes(const ImageSpec& source, const ImageSpec& result) {
  constexpr size_t kOverheadBytes = 2048;
  constexpr size_t kRows = kSmoothedRows + kCorrectionRows + 2;
  const int scale = result.width_px / source.width_px;
  return PaddedFloats(source.width_px + 2 * kRadiusPx, kRgbChannels) * kRows * sizeof(float) +
         PaddedFloats(result.width_px, result.channels) * (sizeof(float) + sizeof(uint32_t)) +
         ImageBytes(OneRow(source)) + ImageBytes(WithHeight(result, kHeldRows * scale)) +
         kOverheadBytes;
}

absl::Status KeptColours::ReadRows(MutableImageView rows) {
  UPSCALED_CHECK(rows.height_px() <= spec().height_px - next_row_);
  for (int i = 0; i < rows.height_px(); ++i, ++next_row_) {
    const int y = next_row_ / scale_;
    for (; corrected_rows_ < std::min(y + 2, height_); ++corrected_rows_) {
      while (pulled_rows_ < std::min(corrected_rows_ + kRadiusPx + 1, height_)) {
        RETURN_IF_ERROR(PullSourceRow());
      }
      SmoothDown(corrected_rows_,
                 corrections_[static_cast<size_t>(corrected_rows_ % kCorrectionRows)]);
    }
    Enlarge(next_row_);
    CorrectRow(HeldResult(y).row_as<uint16_t>(next_row_ % scale_), enlarged_.data(), sums_.size(),
               rows.row_as<uint16_t>(i));
  }
  return absl::OkStatus();
}

MutableImageView KeptColours::HeldResult(int y) {
  return held_result_.mutable_view().Crop({0, y % kHeldRows * scale_, spec().width_px, scale_});
}

absl::Status KeptColours::PullSourceRow() {
  const MutableImageView result = HeldResult(pulled_rows_);
  RETURN_IF_ERROR(result_.ReadRows(result));
  RETURN_IF_ERROR(source_.ReadRows(source_row_.mutable_view()));
  Subtract(source_row_.view(), result);
  SmoothAcross(smoothed_[static_cast<size_t>(pulled_rows_ % kSmoothedRows)]);
  ++pulled_rows_;
  return absl::OkStatus();
}

void KeptColours::Subtract(const ImageView& source, const ImageView& result) {
  std::ranges::fill(sums_, 0);
  for (int j = 0; j < scale_; ++j)
    AddSamples(result.row_as<uint16_t>(j), sums_.size(), sums_.data());
  float* inner = difference_.data() + kRgbChannels * kRadiusPx;
  if (source.spec.type == SampleType::kU8) {
    SubtractRow<uint8_t>(source, sums_.data(), scale_, inner);
  } else {
    SubtractRow<uint16_t>(source, sums_.data(), scale_, inner);
  }
  const float* last = inner + kRgbChannels * (width_ - 1);
  for (int i = 0; i < kRadiusPx; ++i) {
    std::copy_n(inner, kRgbChannels, difference_.data() + kRgbChannels * i);
    std::copy_n(last, kRgbChannels, inner + kRgbChannels * (width_ + i));
  }
}

void KeptColours::SmoothAcross(Row& smoothed) const {
  const float* from = difference_.data() + kRgbChannels * kRadiusPx;
  SmoothedRows left, right;
  for (int k = 0; k <= kRadiusPx; ++k) {
    left[k] = from - kRgbChannels * k;
    right[k] = from + kRgbChannels * k;
  }
  SmoothRow(gaussian_, left, right, samples_, smoothed.data());
}

void KeptColours::SmoothDown(int y, Row& correction) const {
  const auto row = [&](int at) {
    return smoothed_[static_cast<size_t>(std::clamp(at, 0, height_ - 1) % kSmoothedRows)].data();
  };
  SmoothedRows above, below;
  for (int k = 0; k <= kRadiusPx; ++k) {
    above[k] = row(y - k);
    below[k] = row(y + k);
  }
  SmoothRow(gaussian_, above, below, samples_, correction.data());
}

const KeptColours::Row& KeptColours::CorrectionOf(int y) const {
  return corrections_[static_cast<size_t>(std::clamp(y, 0, height_ - 1) % kCorrectionRows)];
}

void KeptColours::Enlarge(int row) {
  const int y = row / scale_;
  const LinearPhase down = LinearPhaseOf(row % scale_, scale_);
  float* mixed = mixed_.data() + kRgbChannels;
  MixRows(CorrectionOf(y + down.first).data(), CorrectionOf(y + down.first + 1).data(),
          SecondWeight(down, scale_), samples_, mixed);
  std::copy_n(mixed, kRgbChannels, mixed - kRgbChannels);
  std::copy_n(mixed + kRgbChannels * (width_ - 1), kRgbChannels, mixed + kRgbChannels * width_);
  EnlargeRow(mixed, width_, phases_, spec().channels, enlarged_.data());
}

}  // namespace upscaled
