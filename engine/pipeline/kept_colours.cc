#include "engine/pipeline/kept_colours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

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
std::array<float, kRadiusPx + 1> MakeGaussian() {
  std::array<double, kRadiusPx + 1> weights{};
  double sum = 0;
  for (int i = 0; i <= kRadiusPx; ++i) {
    weights[i] = std::exp(-0.5 * i * i / (kKeptColoursSigmaPx * kKeptColoursSigmaPx));
    sum += i == 0 ? weights[i] : 2 * weights[i];
  }
  std::array<float, kRadiusPx + 1> normalised{};
  for (int i = 0; i <= kRadiusPx; ++i) normalised[i] = static_cast<float>(weights[i] / sum);
  return normalised;
}

// `width` samples of one colour in `row`: source - mean of the result's, over 0..65535.
template <typename T>
void SubtractRow(const ImageView& source, const ImageView& result, int scale, float* difference) {
  constexpr float kUnit = kFullScale<uint16_t> / kFullScale<T>;
  const int channels = source.spec.channels;
  const float share = 1.0f / static_cast<float>(scale * scale);
  const T* from = source.row_as<T>(0);
  for (int x = 0; x < source.width_px(); ++x, from += channels, difference += kRgbChannels) {
    for (int c = 0; c < kRgbChannels; ++c) {
      uint32_t sum = 0;
      for (int j = 0; j < scale; ++j) {
        const uint16_t* to = result.row_as<uint16_t>(j) + x * scale * channels + c;
        for (int i = 0; i < scale; ++i) sum += to[i * channels];
      }
      difference[c] = kUnit * static_cast<float>(from[c]) - share * static_cast<float>(sum);
    }
  }
}

}  // namespace

KeptColours::KeptColours(RowSource& result, RowSource& source)
    : result_(result),
      source_(source),
      width_(source.spec().width_px),
      height_(source.spec().height_px),
      scale_(result.spec().width_px / width_),
      gaussian_(MakeGaussian()),
      held_result_(WithHeight(result.spec(), kHeldRows * scale_)),
      source_row_(OneRow(source.spec())),
      difference_(static_cast<size_t>(kRgbChannels * (width_ + 2 * kRadiusPx))),
      smoothed_(kSmoothedRows, Row(static_cast<size_t>(kRgbChannels * width_))),
      corrections_(kCorrectionRows, Row(static_cast<size_t>(kRgbChannels * width_))),
      mixed_(static_cast<size_t>(kRgbChannels * (width_ + 2))) {
  UPSCALED_CHECK(result.spec().type == SampleType::kU16 && result.spec().channels >= kRgbChannels);
  UPSCALED_CHECK(source.spec().channels == result.spec().channels);
}

size_t KeptColours::Bytes(const ImageSpec& source, const ImageSpec& result) {
  constexpr size_t kOverheadBytes = 2048;
  constexpr size_t kRows = kSmoothedRows + kCorrectionRows + 2;
  const auto width = static_cast<size_t>(source.width_px + 2 * kRadiusPx);
  const int scale = result.width_px / source.width_px;
  return width * kRows * kRgbChannels * sizeof(float) + ImageBytes(OneRow(source)) +
         ImageBytes(WithHeight(result, kHeldRows * scale)) + kOverheadBytes;
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
    std::memcpy(rows.row(i), HeldResult(y).row(next_row_ % scale_), spec().row_bytes());
    Correct(next_row_, rows.Crop({0, i, spec().width_px, 1}));
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
  float* inner = difference_.data() + kRgbChannels * kRadiusPx;
  if (source.spec.type == SampleType::kU8) {
    SubtractRow<uint8_t>(source, result, scale_, inner);
  } else {
    SubtractRow<uint16_t>(source, result, scale_, inner);
  }
  const float* last = inner + kRgbChannels * (width_ - 1);
  for (int i = 0; i < kRadiusPx; ++i) {
    std::copy_n(inner, kRgbChannels, difference_.data() + kRgbChannels * i);
    std::copy_n(last, kRgbChannels, inner + kRgbChannels * (width_ + i));
  }
}

void KeptColours::SmoothAcross(Row& smoothed) const {
  const float* from = difference_.data() + kRgbChannels * kRadiusPx;
  for (size_t i = 0; i < smoothed.size(); ++i) smoothed[i] = gaussian_[0] * from[i];
  for (int k = 1; k <= kRadiusPx; ++k) {
    const float *left = from - kRgbChannels * k, *right = from + kRgbChannels * k;
    for (size_t i = 0; i < smoothed.size(); ++i) smoothed[i] += gaussian_[k] * (left[i] + right[i]);
  }
}

void KeptColours::SmoothDown(int y, Row& correction) const {
  const auto row = [&](int at) {
    return smoothed_[static_cast<size_t>(std::clamp(at, 0, height_ - 1) % kSmoothedRows)].data();
  };
  const float* here = row(y);
  for (size_t i = 0; i < correction.size(); ++i) correction[i] = gaussian_[0] * here[i];
  for (int k = 1; k <= kRadiusPx; ++k) {
    const float *above = row(y - k), *below = row(y + k);
    for (size_t i = 0; i < correction.size(); ++i) {
      correction[i] += gaussian_[k] * (above[i] + below[i]);
    }
  }
}

const KeptColours::Row& KeptColours::CorrectionOf(int y) const {
  return corrections_[static_cast<size_t>(std::clamp(y, 0, height_ - 1) % kCorrectionRows)];
}

void KeptColours::Correct(int row, const MutableImageView& pixels) {
  const int y = row / scale_;
  const auto weight_of = [this](const LinearPhase& phase) {
    return static_cast<float>(phase.second_parts) / static_cast<float>(2 * scale_);
  };
  const LinearPhase down = LinearPhaseOf(row % scale_, scale_);
  const float* above = CorrectionOf(y + down.first).data();
  const float* below = CorrectionOf(y + down.first + 1).data();
  const float weight = weight_of(down);
  float* mixed = mixed_.data() + kRgbChannels;
  for (int i = 0; i < kRgbChannels * width_; ++i) {
    mixed[i] = above[i] + weight * (below[i] - above[i]);
  }
  std::copy_n(mixed, kRgbChannels, mixed - kRgbChannels);
  std::copy_n(mixed + kRgbChannels * (width_ - 1), kRgbChannels, mixed + kRgbChannels * width_);

  const int channels = spec().channels;
  for (int phase = 0; phase < scale_; ++phase) {
    const LinearPhase across = LinearPhaseOf(phase, scale_);
    const float right_weight = weight_of(across);
    const float* left = mixed + kRgbChannels * across.first;
    uint16_t* pixel = pixels.row_as<uint16_t>(0) + phase * channels;
    for (int x = 0; x < width_; ++x, left += kRgbChannels, pixel += scale_ * channels) {
      for (int c = 0; c < kRgbChannels; ++c) {
        const float correction = left[c] + right_weight * (left[c + kRgbChannels] - left[c]);
        const float value = static_cast<float>(pixel[c]) + correction;
        pixel[c] = static_cast<uint16_t>(
            std::min(std::max(0.0f, value + 0.5f), kFullScale<uint16_t> + 0.0f));
      }
    }
  }
}

}  // namespace upscaled
