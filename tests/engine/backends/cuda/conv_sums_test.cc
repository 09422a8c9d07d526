// Convolutions' sums of their stored values, run thread by thread on the CPU.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/backends/cuda/kernels/pooling_kernel.h"
#include "engine/graph/pooling.h"
#include "tests/engine/backends/cuda/conv_kernel_fixture.h"
#include "tests/engine/backends/cuda/emulator.h"

namespace upscaled {
namespace {

using cuda::ConvParams;
using cuda::FusedConv;
using test::Describe;
using test::EmulatedTensor;
using test::MakeConv;
using test::RandomInt;
using test::RandomTensor;
using test::RunEmulated;
using test::TestedKernel;
using test::TestedKernels;

// The sums of a pooled layer's part. They start with any numbers.
class EmulatedSums {
 public:
  EmulatedSums(int tiles, int channels, std::mt19937& random)
      : channels_(cuda::PlaneCount(channels) * cuda::kPlaneChannels),
        first_(RandomInt(random, -1000, 1000)),
        values_(size_t{1} * (tiles + 2) * channels_, first_) {}  // room before and behind

  cuda::PooledSums Of(const Rect& part) { return {values_.data() + channels_, part}; }
  int64_t Added(int tile, int channel) const {
    return values_[size_t{1} * (tile + 1) * channels_ + channel] - first_;
  }

 private:
  int channels_;
  int64_t first_;
  std::vector<int64_t> values_;
};

class PooledSumsTest : public test::ConvKernelFixture {
 protected:
  // With the layers' large weights, some of these leave the range of halves.
  std::vector<reference::Tensor> RandomInputs(int channels, Size size, int tiles) {
    std::vector<reference::Tensor> inputs;
    for (int tile = 0; tile < tiles; ++tile) {
      std::vector<float>& values =
          inputs.emplace_back(RandomTensor(channels, size, random_)).values;
      const int last = static_cast<int>(values.size()) - 1;
      for (const float odd : {65504.0f, -65504.0f, 1e-7f, tile == 0 ? 300.0f : std::nanf("")}) {
        values[RandomInt(random_, 0, last)] = odd;
      }
      test::RoundValues(Precision::kFast, values);
    }
    return inputs;
  }

  // The kernel's sums of `part` equal the sums of its stored values as the reference rounds, and as
  // a launch of its own adds them up. Its output is the same without sums.
  void Check(const TestedKernel& kernel, const Layer& layer, Size in, const Rect& region,
             const Rect& part, int tiles) {
    SCOPED_TRACE(testing::Message()
                 << kernel.name << ", " << Describe(layer) << ", input " << in.width << "x"
                 << in.height << ", region " << region.width << "x" << region.height << " at "
                 << region.x << ", " << region.y << ", part " << part.width << "x" << part.height
                 << " at " << part.x << ", " << part.y);
    const FusedConv fused{&layer};
    const Size out = OutputSize(fused, in);
    const auto inputs = RandomInputs(layer.in_channels, in, tiles);
    const Rect whole{0, 0, out.width, out.height};
    EmulatedTensor residual(layer.out_channels, out, whole, whole, tiles, Precision::kFast);
    for (int tile = 0; tile < tiles; ++tile) {
      residual.Fill(tile, RandomTensor(layer.out_channels, out, random_), random_);
    }
    ConvParams params;
    if (RandomInt(random_, 0, 1) == 1) params.residual = residual.view();
    const auto plain = Run(kernel, fused, inputs, region, params);
    EmulatedSums sums(tiles, layer.out_channels, random_);
    params.sums = sums.Of(part);
    const auto summed = Run(kernel, fused, inputs, region, params);

    EmulatedSums separate(tiles, layer.out_channels, random_);
    const cuda::SumChannelsParams launch{summed->view(), separate.Of(part)};
    using Tile = cuda::SumChannels;
    RunEmulated(
        {2, cuda::PlaneCount(layer.out_channels), tiles, Tile::kThreads, Tile::kSharedBytes},
        [&] { cuda::RunSumChannels<cuda::Half>(launch); }, random_);
    for (int tile = 0; tile < tiles; ++tile) {
      for (int c = 0; c < layer.out_channels; ++c) {
        double expected = 0;
        for (int y = region.y; y < region.bottom(); ++y) {
          for (int x = region.x; x < region.right(); ++x) {
            const float value = summed->At(tile, c, x, y), before = plain->At(tile, c, x, y);
            ASSERT_TRUE(value == before || (std::isnan(value) && std::isnan(before)))
                << "other values with sums at " << x << ", " << y;
            if (cuda::IsInside(part, x, y)) expected += ChannelSums::Round(value);
          }
        }
        ASSERT_EQ(static_cast<double>(sums.Added(tile, c)), expected * (1 << 24))
            << "channel " << c << " of tile " << tile;
        ASSERT_EQ(sums.Added(tile, c), separate.Added(tile, c))
            << "channel " << c << " of tile " << tile;
      }
    }
    for (const int beyond : {-1, tiles}) {  // beside the tiles
      for (int c = 0; c < layer.out_channels; ++c) ASSERT_EQ(sums.Added(beyond, c), 0);
    }
  }
};

// Every number of columns a block has, padding columns, several rectangles a block and tiles of a
// batch.
TEST_F(PooledSumsTest, AreThoseOfWhatConvolutionsStore) {
  std::vector<Layer> layers = {
      MakeConv(Op::kConv, 16, 11, 3, 1, 1, random_), MakeConv(Op::kConv, 20, 27, 3, 1, 0, random_),
      MakeConv(Op::kConv, 8, 52, 3, 1, 1, random_), MakeConv(Op::kConv, 24, 120, 3, 1, 0, random_),
      MakeConv(Op::kConv, 12, 72, 2, 2, 0, random_)};
  for (Layer& layer : layers) {
    for (float& weight : layer.weights) weight *= 8;
  }
  for (const TestedKernel& kernel : TestedKernels()) {
    if (!kernel.adds_sums) continue;
    for (const FusedConv& fused : test::SupportedBy(kernel, layers)) {
      const Size in{RandomInt(random_, 5, 37), RandomInt(random_, 5, 35)};
      const Size out = OutputSize(fused, in);
      const Rect whole{0, 0, out.width, out.height}, region = RandomRegion(out);
      Check(kernel, *fused.conv, in, whole, RandomRegion(out), 2);
      if (HasFailure()) return;
      Rect part = RandomRegion({region.width, region.height});
      part.x += region.x;
      part.y += region.y;
      Check(kernel, *fused.conv, in, region, part, 1);
      if (HasFailure()) return;
    }
  }
}

TEST_F(PooledSumsTest, OfOnePixelAndOfAllOfThem) {
  constexpr Size kSize{33, 17};  // one more than a rectangle of conv3x3_mma on both sides
  const Layer layer = MakeConv(Op::kConv, 8, 50, 3, 1, 1, random_);
  const Rect whole{0, 0, kSize.width, kSize.height};
  for (const TestedKernel& kernel : TestedKernels()) {
    if (!kernel.adds_sums) continue;
    for (const Rect& part : {whole, Rect{32, 16, 1, 1}, Rect{31, 0, 2, 17}, Rect{0, 15, 33, 2}}) {
      Check(kernel, layer, kSize, whole, part, 2);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace upscaled
