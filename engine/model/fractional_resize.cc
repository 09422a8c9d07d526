#include "engine/model/fractional_resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/int_math.h"

namespace upscaled {
namespace {

constexpr int kMaxTerm = 8;

// One phase of the result along an axis: the input's pixels from `first` on that it is the sum of,
// times their weights. Counted from the first input pixel of the phase's period.
struct Phase {
  int first = 0;
  std::vector<double> weights;
};

// Keys, "Cubic convolution interpolation", with a = -0.75; `x`: a distance of up to 2.
double Cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

Phase PhaseOf(Interpolation interpolation, Fraction factor, int index) {
  if (interpolation == Interpolation::kNearest) return {index * factor.down / factor.up, {1}};
  // The centre of result pixel `index` lies at (index + 1/2) * down / up - 1/2.
  const int numerator = (2 * index + 1) * factor.down - factor.up;
  const int before = FloorDiv(numerator, 2 * factor.up);
  const double fraction = static_cast<double>(numerator) / (2 * factor.up) - before;
  if (interpolation == Interpolation::kBilinear) return {before, {1 - fraction, fraction}};
  return {before - 1,
          {Cubic(fraction + 1), Cubic(fraction), Cubic(1 - fraction), Cubic(2 - fraction)}};
}

std::vector<Phase> PhasesOf(Interpolation interpolation, Fraction factor) {
  std::vector<Phase> phases;
  for (int i = 0; i < factor.up; ++i) phases.push_back(PhaseOf(interpolation, factor, i));
  return phases;
}

// How far the phases look beyond their period, on either side.
int ReachOf(const std::vector<Phase>& phases, Fraction factor) {
  int reach = 0;
  for (const Phase& phase : phases) {
    const int last = phase.first + static_cast<int>(phase.weights.size()) - 1;
    reach = std::max({reach, -phase.first, last - (factor.down - 1)});
  }
  return reach;
}

Layer MakeLayer(Op op, int in_channels, int out_channels) {
  Layer layer;
  layer.op = op;
  layer.in_channels = in_channels;
  layer.out_channels = out_channels;
  return layer;
}

// All phases of both axes: up x up results of each channel, in the order of a pixel shuffle.
Layer MakeConv(const std::vector<Phase>& phases, Fraction factor, int channels, int reach) {
  const int up = factor.up;
  Layer conv = MakeLayer(Op::kGroupedConv, channels, channels * up * up);
  conv.groups = channels;
  conv.kernel_px = factor.down + 2 * reach;
  conv.stride_px = factor.down;
  conv.weights.assign(size_t{1} * conv.out_channels * conv.kernel_px * conv.kernel_px, 0.0f);
  conv.bias.assign(conv.out_channels, 0.0f);
  float* kernel = conv.weights.data();
  for (int channel = 0; channel < channels; ++channel) {
    for (const Phase& y : phases) {
      for (const Phase& x : phases) {
        for (size_t i = 0; i < y.weights.size(); ++i) {
          float* const row = kernel + (y.first + reach + i) * conv.kernel_px;
          for (size_t j = 0; j < x.weights.size(); ++j) {
            row[x.first + reach + j] = static_cast<float>(y.weights[i] * x.weights[j]);
          }
        }
        kernel += size_t{1} * conv.kernel_px * conv.kernel_px;
      }
    }
  }
  return conv;
}

}  // namespace

std::optional<Fraction> FractionOf(double factor) {
  constexpr double kRounding = 1e-6;  // of a factor that was written as text or as a float
  for (int down = 1; down <= kMaxTerm; ++down) {
    const double up = std::round(factor * down);
    const bool close = std::abs(factor * down - up) <= kRounding * down;  // not so of NaN
    if (close && up >= 1 && up <= kMaxTerm) return Fraction{static_cast<int>(up), down};
  }
  return std::nullopt;
}

std::vector<Layer> MakeFractionalResize(Interpolation interpolation, Fraction factor,
                                        int channels) {
  const std::vector<Phase> phases = PhasesOf(interpolation, factor);
  const int reach = ReachOf(phases, factor);
  std::vector<Layer> layers;
  if (reach > 0) {
    Layer& pad = layers.emplace_back(MakeLayer(Op::kPad, channels, channels));
    pad.padding_px = reach;
    pad.pad_mode = PadMode::kReplicate;
  }
  layers.push_back(MakeConv(phases, factor, channels, reach));
  if (factor.up > 1) {
    Layer& shuffle = layers.emplace_back(
        MakeLayer(Op::kPixelShuffle, channels * factor.up * factor.up, channels));
    shuffle.factor = factor.up;
  }
  return layers;
}

}  // namespace upscaled
