// The promises of direct_int16 beyond agreeing with the reference: no overflow, reports of values
// outside their range, and the observed ranges.
#include "engine/backends/cpu/kernels/direct_int16.h"

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
using test::MakeConv;
using test::PlacedTensor;
using test::RandomInt;

constexpr Size kSize{61, 7};  // more than a chunk of outputs

class DirectInt16Test : public ::testing::Test {
 protected:
  void SetUp() override {
    kernel_ = cpu::FindKernel("direct_int16");
    if (kernel_ == nullptr || !kernel_->RunsOn(isa_)) GTEST_SKIP() << "no AVX512_VNNI here";
    layers_ = {MakeConv(Op::kConv, 40, 48, 1, 1, 0, random_),
               MakeConv(Op::kConv, 20, 16, 2, 2, 0, random_),
               MakeConv(Op::kConv, 70, 3, 5, 3, 2, random_),
               MakeConv(Op::kConv, 3, 32, 3, 1, 1, random_),
               MakeConv(Op::kConvTranspose, 33, 20, 4, 2, 3, random_),
               MakeConv(Op::kConvTranspose, 64, 64, 3, 2, 1, random_)};
  }

  // The kernel's result for inputs within +-8.
  reference::Tensor Compute(const Layer& layer, const reference::Tensor& input) const {
    const auto kernel = kernel_->create(layer, isa_);
    const PlacedTensor src = Placed(layer.in_channels, input, kernel->margin());
    const Rect out = OutputOf(layer);
    const bool halves = layer.out_channels > cpu::kMaxInterleavedChannels;
    const PlacedTensor dst(layer.out_channels, {out.width, out.height}, {2, 2},
                           halves ? PlacedTensor::Kind::kHalves : PlacedTensor::Kind::kPlanes);
    cpu::HugeBuffer scratch(kernel->ScratchFloats());
    std::fill_n(scratch.data(), scratch.size(), std::nanf(""));
    kernel->Run({&src.tensor(), 1}, dst.tensor(), out, scratch.data());
    const PlacedTensor floats(layer.out_channels, {out.width, out.height}, {2, 2});
    if (halves) {
      cpu::MakeToFloat({}, isa_)->Run({&dst.tensor(), 1}, floats.tensor(), out, nullptr);
    }
    const PlacedTensor& result = halves ? floats : dst;
    reference::Tensor values(out, layer.out_channels);
    ForEach(values, [&](int c, int x, int y) { values.row(c, y)[x] = result.At(c, x, y); });
    return values;
  }

  static Rect OutputOf(const Layer& layer) {
    return {0, 0, test::OutputSide(layer, kSize.width), test::OutputSide(layer, kSize.height)};
  }
  static reference::Tensor Expected(const Layer& layer, const reference::Tensor& input) {
    const Rect out = OutputOf(layer);
    return test::ComputeReference(layer, {input}, {out.width, out.height});
  }

  template <typename Visit>
  static void ForEach(const reference::Tensor& tensor, Visit visit) {
    for (int c = 0; c < tensor.channels; ++c) {
      for (int y = 0; y < tensor.region.height; ++y) {
        for (int x = 0; x < tensor.region.width; ++x) visit(c, x, y);
      }
    }
  }

  std::mt19937 random_ = test::FreshRandom();
  const Isa isa_ = cpu::ListIsas().front();
  const cpu::KernelEntry* kernel_ = nullptr;
  std::vector<Layer> layers_;

 private:
  // As the kernel takes it.
  PlacedTensor Placed(int channels, const reference::Tensor& values, cpu::Margin margin) const {
    PlacedTensor floats(channels, kSize, margin);
    floats.Fill(values);
    if (channels <= cpu::kMaxInterleavedChannels) return floats;
    PlacedTensor halves(channels, kSize, margin, PlacedTensor::Kind::kHalves);
    cpu::MakeToHalf({}, isa_)->Run({&floats.tensor(), 1}, halves.tensor(), values.region, nullptr);
    return halves;
  }
};

TEST_F(DirectInt16Test, OutputsThatReadTooLargeAValueBecomeNanAndNoOthers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Layer& layer : layers_) {
    for (const float value : {1000.0f, -kInfinity, std::nanf("")}) {
      SCOPED_TRACE(::testing::Message() << test::Describe(layer) << ", value " << value);
      reference::Tensor input = test::RandomTensor(layer.in_channels, kSize, random_);
      float& at = input.row(
          RandomInt(random_, 0, layer.in_channels - 1),
          RandomInt(random_, 0, kSize.height - 1))[RandomInt(random_, 0, kSize.width - 1)];
      at = std::nanf("");
      const reference::Tensor expected = Expected(layer, input);
      at = value;
      const reference::Tensor result = Compute(layer, input);
      ForEach(result, [&](int c, int x, int y) {
        if (std::isnan(expected.at(c, x, y))) {
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

// All inputs as large as they may be, with weights of their sign: the largest sums of all.
TEST_F(DirectInt16Test, SumsDoNotOverflow) {
  for (Layer& layer : layers_) {
    SCOPED_TRACE(test::Describe(layer));
    reference::Tensor input({0, 0, kSize.width, kSize.height}, layer.in_channels);
    std::fill(input.values.begin(), input.values.end(), -7.99f);
    for (float& weight : layer.weights) weight = -std::abs(weight);
    const reference::Tensor expected = Expected(layer, input);
    const reference::Tensor result = Compute(layer, input);
    ForEach(result, [&](int c, int x, int y) {
      ASSERT_NEAR(result.at(c, x, y), expected.at(c, x, y), 0.005f * (1 + expected.at(c, x, y)))
          << c << " at " << x << ", " << y;
    });
    if (HasFailure()) return;
  }
}

TEST_F(DirectInt16Test, RangesAreThoseOfThePixelsThatWereRead) {
  const Layer layer = MakeConv(Op::kConv, 20, 8, 2, 2, 0, random_);
  const reference::Tensor input = test::RandomTensor(20, kSize, random_);
  cpu::InputRanges ranges;
  const auto kernel =
      cpu::MakeChannelObserver(layer, cpu::FindKernel("direct")->create(layer, isa_), ranges);
  PlacedTensor src(20, kSize, kernel->margin());
  src.Fill(input);
  const PlacedTensor dst(8, {OutputOf(layer).width, OutputOf(layer).height}, {2, 2});
  const Rect rows{3, 1, 9, 2};
  kernel->Run({&src.tensor(), 1}, dst.tensor(), rows, nullptr);
  ASSERT_EQ(ranges.size(), 20u);
  for (int c = 0; c < 20; ++c) {
    float largest = 0;
    for (int y = 2; y < 6; ++y) {
      for (int x = 6; x < 24; ++x) largest = std::max(largest, std::abs(input.at(c, x, y)));
    }
    EXPECT_EQ(ranges[c], largest) << "channel " << c;
  }
}

}  // namespace
}  // namespace upscaled
