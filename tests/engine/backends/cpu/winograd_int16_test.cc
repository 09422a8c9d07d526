// The promises of winograd_f4_int16 beyond agreeing with the reference: no overflow, reports of
// numbers outside their range, and the observed ranges.
#include "engine/backends/cpu/kernels/winograd_int16.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "engine/backends/cpu/kernels/convert.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cpu/placed_tensor.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cpu::Isa;
using cpu::LayerKernel;
using test::MakeConv;
using test::PlacedTensor;

constexpr int kBlock = 4, kPoints = 6;
constexpr double kA = 0.6875, kB = 1.5, kA2 = kA * kA, kB2 = kB * kB;
// B^T of the points 0, +-kA, +-kB, infinity.
constexpr double kInputTransform[kPoints][kPoints] = {
    {kA2 * kB2, 0, -kA2 - kB2, 0, 1, 0}, {0, -kA* kB2, -kB2, kA, 1, 0},
    {0, kA* kB2, -kB2, -kA, 1, 0},       {0, -kB* kA2, -kA2, kB, 1, 0},
    {0, kB* kA2, -kA2, -kB, 1, 0},       {0, kA2* kB2, 0, -kA2 - kB2, 0, 1}};

class WinogradInt16Test : public ::testing::Test {
 protected:
  void SetUp() override {
    kernel_ = cpu::FindKernel("winograd_f4_int16");
    if (kernel_ == nullptr || !kernel_->RunsOn(isa_)) GTEST_SKIP() << "no AVX512_VNNI here";
  }

  // The kernel's result for inputs within +-4, as floats where it can store them.
  reference::Tensor Compute(const Layer& layer, const reference::Tensor& input) const {
    const auto kernel = kernel_->create(layer, isa_);
    const Rect& in = input.region;
    const int shrink = 2 - 2 * layer.padding_px;
    const Rect out{0, 0, in.width - shrink, in.height - shrink};
    const auto halves = Halves(layer.in_channels, input, kernel->margin());
    cpu::HugeBuffer scratch(kernel->ScratchFloats());
    std::fill_n(scratch.data(), scratch.size(), std::nanf(""));
    const PlacedTensor floats(layer.out_channels, {out.width, out.height}, {2, 2});
    if (layer.out_channels <= cpu::kPlaneChannels) {
      kernel->Run({&halves.tensor(), 1}, floats.tensor(), out, scratch.data());
    } else {
      const PlacedTensor result(layer.out_channels, {out.width, out.height}, {2, 2},
                                PlacedTensor::Kind::kHalves);
      kernel->Run({&halves.tensor(), 1}, result.tensor(), out, scratch.data());
      cpu::MakeToFloat({}, isa_)->Run({&result.tensor(), 1}, floats.tensor(), out, nullptr);
    }
    reference::Tensor values(out, layer.out_channels);
    ForEach(values, [&](int c, int x, int y) { values.row(c, y)[x] = floats.At(c, x, y); });
    return values;
  }

  template <typename Visit>
  static void ForEach(const reference::Tensor& tensor, Visit visit) {
    for (int c = 0; c < tensor.channels; ++c) {
      for (int y = 0; y < tensor.region.height; ++y) {
        for (int x = 0; x < tensor.region.width; ++x) visit(c, x, y);
      }
    }
  }

  static PlacedTensor Floats(int channels, const reference::Tensor& values, cpu::Margin margin) {
    PlacedTensor placed(channels, {values.region.width, values.region.height}, margin);
    placed.Fill(values);
    return placed;
  }

  std::mt19937 random_ = test::FreshRandom();
  const Isa isa_ = cpu::ListIsas().front();
  const cpu::KernelEntry* kernel_ = nullptr;

 private:
  PlacedTensor Halves(int channels, const reference::Tensor& values, cpu::Margin margin) const {
    const PlacedTensor floats = Floats(channels, values, margin);
    const Size size{values.region.width, values.region.height};
    PlacedTensor halves(channels, size, margin, PlacedTensor::Kind::kHalves);
    cpu::MakeToHalf({}, isa_)->Run({&floats.tensor(), 1}, halves.tensor(), values.region, nullptr);
    return halves;
  }
};

TEST_F(WinogradInt16Test, BlocksThatReadTooLargeAValueBecomeNanAndNoOthers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int channels : {16, 40, 48}) {
    Layer layer = MakeConv(Op::kConv, channels, channels, 3, 1, 1, random_);
    layer.activation = Activation::kClip;
    layer.clip_min = -100;
    layer.clip_max = 100;
    for (const float value : {1000.0f, -1000.0f, kInfinity, std::nanf("")}) {
      reference::Tensor input = test::RandomTensor(channels, {70, 13}, random_);
      const reference::Tensor expected = test::ComputeReference(layer, {input}, {70, 13});
      const int at_x = test::RandomInt(random_, 0, 69), at_y = test::RandomInt(random_, 0, 12);
      input.row(test::RandomInt(random_, 0, channels - 1), at_y)[at_x] = value;
      const reference::Tensor result = Compute(layer, input);
      const auto reads = [](int pixel, int at) {  // the whole block reads one pixel around itself
        const int first = pixel / kBlock * kBlock - 1;
        return at >= first && at < first + kPoints;
      };
      ForEach(result, [&](int c, int x, int y) {
        if (reads(x, at_x) && reads(y, at_y)) {
          EXPECT_TRUE(std::isnan(result.at(c, x, y))) << c << " at " << x << ", " << y;
        } else {
          EXPECT_NEAR(result.at(c, x, y), expected.at(c, x, y), 0.02)
              << c << " at " << x << ", " << y;
        }
      });
      if (HasFailure()) return;
    }
  }
}

// For each point the input with its largest value, in all channels; their weights are all of one
// sign there: the largest sum of all.
TEST_F(WinogradInt16Test, SumsDoNotOverflow) {
  constexpr int kChannels = 64;
  Layer layer = MakeConv(Op::kConv, kChannels, 16, 3, 1, 0, random_);
  for (size_t i = 0; i < layer.weights.size(); ++i) {
    layer.weights[i] = i < 9 ? std::abs(layer.weights[i]) + 0.01f : layer.weights[i - 9];
  }
  for (int py = 0; py < kPoints; ++py) {
    for (int px = 0; px < kPoints; ++px) {
      reference::Tensor input({0, 0, kPoints, kPoints}, kChannels);
      ForEach(input, [&](int c, int x, int y) {
        const double sign = kInputTransform[py][y] * kInputTransform[px][x];
        input.row(c, y)[x] = sign == 0 ? 0.0f : std::copysign(3.99f, static_cast<float>(sign));
      });
      const reference::Tensor expected = test::ComputeReference(layer, {input}, {kBlock, kBlock});
      const reference::Tensor result = Compute(layer, input);
      float largest = 0;
      for (const float v : expected.values) largest = std::max(largest, std::abs(v));
      ForEach(result, [&](int c, int x, int y) {
        ASSERT_NEAR(result.at(c, x, y), expected.at(c, x, y), 0.01f * largest)
            << "point " << py << ", " << px << ": " << c << " at " << x << ", " << y;
      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(WinogradInt16Test, RangesAreThoseOfTheBlocksThatWereRead) {
  const Layer layer = MakeConv(Op::kConv, 20, 8, 3, 1, 1, random_);
  const Size size{test::RandomInt(random_, 1, 19), test::RandomInt(random_, 1, 11)};
  const reference::Tensor input = test::RandomTensor(20, size, random_);
  cpu::InputRanges ranges;
  const auto kernel =
      cpu::MakeRangeObserver(layer, cpu::FindKernel("winograd_f4")->create(layer, isa_), ranges);
  const PlacedTensor src = Floats(20, input, kernel->margin());
  const PlacedTensor dst(8, size, {2, 2});
  cpu::HugeBuffer scratch(kernel->ScratchFloats());
  kernel->Run({&src.tensor(), 1}, dst.tensor(), input.region, scratch.data());

  const auto value = [&](int c, int x, int y) {
    const bool inside = x >= 0 && y >= 0 && x < size.width && y < size.height;
    return inside ? input.at(c, x, y) : 0.0f;
  };
  const auto point = [&](int c, int x0, int y0, int px, int py) {
    double sum = 0;
    for (int y = 0; y < kPoints; ++y) {
      for (int x = 0; x < kPoints; ++x) {
        sum += kInputTransform[py][y] * kInputTransform[px][x] * value(c, x0 + x - 1, y0 + y - 1);
      }
    }
    return std::abs(sum);
  };
  ASSERT_EQ(ranges.size(), size_t{kPoints * kPoints * 20});
  for (int px = 0; px < kPoints; ++px) {
    for (int py = 0; py < kPoints; ++py) {
      for (int c = 0; c < 20; ++c) {
        double largest = 0;
        for (int y = 0; y < size.height; y += kBlock) {
          for (int x = 0; x < size.width; x += kBlock) {
            largest = std::max(largest, point(c, x, y, px, py));
          }
        }
        EXPECT_NEAR(ranges[(px * kPoints + py) * 20 + c], largest, 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
