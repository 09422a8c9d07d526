#include "engine/pipeline/alpha_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/image/full_scale.h"
#include "engine/image/resample.h"

namespace upscaled {
namespace {

constexpr int kTaps = 4;
constexpr int kChannels = 4;
constexpr int kAlpha = 3;

// One phase of the enlarged grid: the four source samples from `first` (relative to the source
// sample of the phase) and their weights.
struct Phase {
  int first;
  std::array<float, kTaps> weights;
};

std::vector<Phase> MakePhases(int factor) {
  std::vector<Phase> phases(factor);
  for (int i = 0; i < factor; ++i) {
    const double centre = (i + 0.5) / factor - 0.5;
    phases[i].first = static_cast<int>(std::floor(centre)) - 1;
    for (int k = 0; k < kTaps; ++k) {
      const double distance = phases[i].first + k - centre;
      phases[i].weights[k] = static_cast<float>(FilterWeight(Filter::kCatmullRom, distance));
    }
  }
  return phases;
}

// Alpha of one enlarged row before the horizontal step, over 0..1, with kAlphaHaloPx replicated
// samples at both ends.
template <typename Src>
void FilterColumns(const ImageView& src, int src_y, int image_height_px, int y, const Phase& phase,
                   float* column) {
  const float unit = 1.0f / kFullScale<Src>;
  const int width = src.width_px();
  const Src* rows[kTaps];
  for (int k = 0; k < kTaps; ++k) {
    const int row = std::clamp(y + phase.first + k, 0, image_height_px - 1);
    rows[k] = src.row_as<Src>(row - src_y) + kAlpha;
  }
  float* inner = column + kAlphaHaloPx;
  for (int x = 0; x < width; ++x) {
    float sum = 0;
    for (int k = 0; k < kTaps; ++k) sum += phase.weights[k] * unit * rows[k][x * kChannels];
    inner[x] = sum;
  }
  std::fill_n(column, kAlphaHaloPx, inner[0]);
  std::fill_n(inner + width, kAlphaHaloPx, inner[width - 1]);
}

template <typename Dst>
void FilterRow(const float* column, const std::vector<Phase>& phases, const MutableImageView& dst,
               int row) {
  const int factor = static_cast<int>(phases.size());
  const float max = kFullScale<Dst>;
  for (int i = 0; i < factor; ++i) {
    const Phase& phase = phases[i];
    const float* from = column + kAlphaHaloPx + phase.first;
    Dst* to = dst.row_as<Dst>(row) + i * kChannels + kAlpha;
    for (int x = 0; x < dst.width_px() / factor; ++x) {
      float sum = 0;
      for (int k = 0; k < kTaps; ++k) sum += phase.weights[k] * from[x + k];
      to[x * factor * kChannels] =
          static_cast<Dst>(std::min(std::max(0.0f, sum), 1.0f) * max + 0.5f);
    }
  }
}

}  // namespace

void EnlargeAlpha(const ImageView& src, int src_y, int image_height_px, int factor,
                  const MutableImageView& dst, int dst_y) {
  const std::vector<Phase> phases = MakePhases(factor);
  std::vector<float> column(src.width_px() + 2 * kAlphaHaloPx);
  for (int row = 0; row < dst.height_px(); ++row) {
    const int y = (dst_y + row) / factor;
    const Phase& phase = phases[(dst_y + row) % factor];
    if (src.spec.type == SampleType::kU8) {
      FilterColumns<uint8_t>(src, src_y, image_height_px, y, phase, column.data());
    } else {
      FilterColumns<uint16_t>(src, src_y, image_height_px, y, phase, column.data());
    }
    if (dst.spec.type == SampleType::kU8) {
      FilterRow<uint8_t>(column.data(), phases, dst, row);
    } else {
      FilterRow<uint16_t>(column.data(), phases, dst, row);
    }
  }
}

}  // namespace upscaled
