#include "engine/backends/cpu/kernels/winograd_int16.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "engine/backends/cpu/kernels/winograd.h"
#include "engine/backends/cpu/kernels/winograd_kernel.h"
#include "engine/backends/cpu/kernels/winograd_weights.h"
#include "engine/base/cpu_info.h"

namespace upscaled::cpu {
namespace {

constexpr WeightTransform<4> kWeights =
    WeightsOfPoints(kWinograd16BitPoints[0], kWinograd16BitPoints[1]);
constexpr int kPoints = static_cast<int>(kWeights.size());
constexpr int kPointCount = kPoints * kPoints;

// The scales of transformed inputs: [point][channel], 0 beyond the layer's.
HugeBuffer SrcScales(int channels, const InputRanges& ranges) {
  const int padded = RoundUp(channels, kHalfPlaneChannels);
  HugeBuffer scales(static_cast<size_t>(kPointCount) * padded);
  std::fill_n(scales.data(), scales.size(), 0.0f);
  for (int point = 0; point < kPointCount; ++point) {
    const float* const of_point = ranges.data() + static_cast<size_t>(point) * channels;
    SetInputScales({of_point, static_cast<size_t>(channels)},
                   scales.data() + static_cast<size_t>(point) * padded);
  }
  return scales;
}

// One output channel's transformed weights, divided by the scales of their factors: [point][input
// channel].
std::vector<double> DescaledWeights(const Layer& layer, int out, const HugeBuffer& src_scale) {
  const size_t channels = layer.in_channels;
  const size_t padded = src_scale.size() / kPointCount;
  std::vector<double> weights(kPointCount * channels);
  for (size_t i = 0; i < channels; ++i) {
    TransformWeights(&layer.weights[(out * channels + i) * 9], kWeights,
                     [&](double value, int y, int x) {
                       const size_t point = x * kPoints + y;
                       weights[point * channels + i] = value / src_scale.data()[point * padded + i];
                     });
  }
  return weights;
}

// The place of an input channel among those of its point; the last 16 of an odd number are in
// order.
int PlaceOf(int channel, int padded_channels) {
  const int plane = channel / kHalfPlaneChannels * kHalfPlaneChannels;
  if (padded_channels - plane < kHalfPlaneChannels) return channel;
  return plane + Int16PlaceOf(channel - plane);
}

WinogradWeights PackInt16(const Layer& layer, const WinogradVariant& variant,
                          const InputRanges& ranges) {
  const int block = variant.out_channels;
  const int blocks = CeilDiv(RoundUp(layer.out_channels, variant.out_multiple), block);
  const int padded_in = RoundUp(layer.in_channels, variant.in_multiple);
  const size_t count = size_t{1} * kPointCount * padded_in * block * blocks;
  WinogradWeights packed{HugeBuffer(count / 2), SrcScales(layer.in_channels, ranges),
                         HugeBuffer(size_t{1} * kPointCount * block * blocks)};
  if (layer.weights.empty()) return packed;
  auto* const values = reinterpret_cast<int16_t*>(packed.values.data());
  std::fill_n(values, count, int16_t{0});
  std::fill_n(packed.dst_scale.data(), packed.dst_scale.size(), 0.0f);
  const size_t channels = layer.in_channels;
  for (int o = 0; o < layer.out_channels; ++o) {
    const std::vector<double> weights = DescaledWeights(layer, o, packed.src_scale);
    for (int point = 0; point < kPointCount; ++point) {
      const std::span<const double> of_point(&weights[point * channels], channels);
      const double scale = Int16WeightScale(of_point);
      const size_t panel = size_t{1} * (o / block) * kPointCount + point;
      packed.dst_scale.data()[panel * block + o % block] = static_cast<float>(1 / scale);
      for (size_t i = 0; i < channels; ++i) {
        const int place = PlaceOf(static_cast<int>(i), padded_in);
        const size_t pair = panel * padded_in / 2 + place / 2;
        values[(pair * block + o % block) * 2 + place % 2] =
            static_cast<int16_t>(std::lrint(of_point[i] * scale));
      }
    }
  }
  return packed;
}

// The most vectors at a time that divide those of the layer, but for two, which waste little of
// many and are the fastest.
const WinogradVariant& ChooseVariant(int out_channels) {
  const int vectors = CeilDiv(out_channels, kPlaneChannels);
  if (vectors == 1) return kWinogradF4Vnni[0];
  return kWinogradF4Vnni[vectors % 2 != 0 && vectors % 3 == 0 ? 2 : 1];
}

class RangeObserver final : public LayerKernel {
 public:
  RangeObserver(const Layer& layer, std::unique_ptr<LayerKernel> kernel, InputRanges& ranges)
      : kernel_(std::move(kernel)),
        padding_px_(layer.padding_px),
        channels_(layer.in_channels),
        ranges_(ranges) {
    ranges_.assign(static_cast<size_t>(kPointCount) * channels_, 0.0f);
  }

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    for (int plane = 0; plane < src[0].planes(); ++plane) Observe(src[0], plane, rows);
    kernel_->Run(src, dst, rows, scratch);
  }

  int block_px() const override { return kernel_->block_px(); }
  Margin margin() const override { return kernel_->margin(); }
  size_t ScratchFloats() const override { return kernel_->ScratchFloats(); }
  size_t WeightBytes() const override { return kernel_->WeightBytes(); }

 private:
  void Observe(const Tensor& src, int plane, const Rect& rows) const {
    float largest[kPointCount * kPlaneChannels] = {};
    for (int y = rows.y; y < rows.bottom(); y += block_px()) {
      const float* src_rows[kPoints];
      for (int i = 0; i < kPoints; ++i) {
        src_rows[i] = src.At(y - padding_px_ + i, rows.x - padding_px_);
      }
      for (int x = 0; x < rows.width; x += block_px()) {
        MeasureF4Points(src_rows, plane * src.plane_stride + x * kPlaneFloats, largest);
      }
    }
    const int first = plane * kPlaneChannels;
    for (int c = first; c < std::min(first + kPlaneChannels, channels_); ++c) {
      for (int point = 0; point < kPointCount; ++point) {
        float& range = ranges_[static_cast<size_t>(point) * channels_ + c];
        range = std::max(range, largest[point * kPlaneChannels + c - first]);
      }
    }
  }

  const std::unique_ptr<LayerKernel> kernel_;
  const int padding_px_;
  const int channels_;
  InputRanges& ranges_;
};

// Ranges of inputs within +-`largest`: a point is at most the sum of its transform's magnitudes.
InputRanges RangesWithin(double largest, int channels) {
  const double a2 = kWinograd16BitPoints[0] * kWinograd16BitPoints[0];
  const double b2 = kWinograd16BitPoints[1] * kWinograd16BitPoints[1];
  const double ends = a2 * b2 + a2 + b2 + 1;
  const double of_a = (1 + b2) * (1 + kWinograd16BitPoints[0]);
  const double of_b = (1 + a2) * (1 + kWinograd16BitPoints[1]);
  const double sums[kPoints] = {ends, of_a, of_a, of_b, of_b, ends};
  InputRanges ranges;
  for (const double x : sums) {
    for (const double y : sums)
      ranges.insert(ranges.end(), channels, static_cast<float>(largest * x * y));
  }
  return ranges;
}

}  // namespace

bool WinogradInt16Supports(const Layer& layer) {
  return WinogradSupports(layer) && layer.in_channels <= kMaxInt16Products;
}

std::unique_ptr<LayerKernel> MakeWinogradF4Int16(const Layer& layer, Isa /*isa*/) {
  constexpr double kLargestInput = 4;
  return MakeCalibratedWinogradF4Int16(
      layer, RangesWithin(kLargestInput / kInt16Margin, layer.in_channels));
}

std::unique_ptr<LayerKernel> MakeCalibratedWinogradF4Int16(const Layer& layer,
                                                           const InputRanges& ranges) {
  const WinogradVariant& variant = ChooseVariant(layer.out_channels);
  return std::make_unique<WinogradKernel>(layer, kWeights.size() - 2, variant, CoreCacheBytes(),
                                          PackInt16(layer, variant, ranges));
}

std::unique_ptr<LayerKernel> MakeRangeObserver(const Layer& layer,
                                               std::unique_ptr<LayerKernel> kernel,
                                               InputRanges& ranges) {
  return std::make_unique<RangeObserver>(layer, std::move(kernel), ranges);
}

}  // namespace upscaled::cpu
