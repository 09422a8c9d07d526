// Gates that are part of a convolution: its packed weights by the factors of their channels.
#include "engine/backends/cuda/kernels/gate_kernel.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/backends/cuda/kernels/input_channels.h"
#include "tests/engine/backends/cuda/conv_kernel_fixture.h"
#include "tests/engine/backends/cuda/emulator.h"

namespace upscaled {
namespace {

using cuda::FusedConv;
using cuda::PackedConv;
using test::EmulatedTensor;
using test::MakeConv;
using test::RandomInt;
using test::TestedKernel;
using test::TestedKernels;

class GateKernelTest : public test::ConvKernelFixture {
 protected:
  // A factor for each channel, which halves hold, and products with weights round to no other.
  reference::Tensor Factors(int channels) {
    reference::Tensor factors = test::RandomTensor(channels, {1, 1}, random_);
    for (float& factor : factors.values) factor = std::ldexp(1.0f, RandomInt(random_, -3, 1));
    return factors;
  }

  // The weights of the layer by the factors, by the kernel.
  template <typename Weight, typename Storage>
  std::vector<uint8_t> Gated(const PackedConv& packed, const std::vector<uint16_t>& channels,
                             const EmulatedTensor& factors) {
    std::vector<uint8_t> gated(packed.weights.size(), 0xff);
    const cuda::GateParams params{.weights = packed.weights.data(),
                                  .channels = channels.data(),
                                  .count = static_cast<int64_t>(channels.size()),
                                  .factors = factors.view(),
                                  .gated = gated.data()};
    test::RunEmulated(
        {RandomInt(random_, 1, 3), 1, 1, cuda::Gate::kThreads, 16},
        [&] { cuda::RunGate<Weight, Storage>(params); }, random_);
    return gated;
  }
};

// Every packing, of every kind of layer: as if the layer's own weights had the factors.
TEST_F(GateKernelTest, MultipliesTheWeightsOfEachChannel) {
  Layer grouped = MakeConv(Op::kGroupedConv, 12, 6, 3, 1, 1, random_);
  grouped.groups = 3;
  grouped.weights.resize(6 * 4 * 9);
  Layer layers[] = {MakeConv(Op::kConv, 20, 56, 3, 1, 1, random_),
                    MakeConv(Op::kConv, 33, 30, 3, 1, 1, random_),
                    MakeConv(Op::kConv, 12, 70, 2, 2, 0, random_),
                    MakeConv(Op::kConv, 19, 3, 3, 1, 0, random_),
                    MakeConv(Op::kConvTranspose, 40, 64, 2, 2, 0, random_),
                    MakeConv(Op::kConvTranspose, 9, 3, 4, 2, 3, random_),
                    grouped};
  for (Layer& layer : layers) {  // halves hold the weights, and their products with factors
    for (float& weight : layer.weights) weight = std::round(weight * 256) / 256;
  }
  for (const TestedKernel& kernel : TestedKernels()) {
    for (const Layer& layer : layers) {
      const int columns = kernel.columns(cuda::ShapeOf({&layer}));
      if (columns == 0) continue;
      SCOPED_TRACE(testing::Message() << kernel.name << ", " << test::Describe(layer));
      const auto pack = [&](const FusedConv& fused) { return kernel.pack(fused, columns); };
      const std::vector<uint16_t> channels = cuda::InputChannels({&layer}, pack);
      const reference::Tensor values = Factors(layer.in_channels);
      EmulatedTensor factors(layer.in_channels, {1, 1}, {0, 0, 1, 1}, {0, 0, 1, 1}, 1,
                             kernel.precision);
      factors.Fill(0, values, random_);
      Layer expected = layer;
      const bool transposed = layer.op == Op::kConvTranspose;
      const int taps = layer.kernel_px * layer.kernel_px;
      const int group_in = layer.in_channels / layer.groups;
      for (size_t i = 0; i < expected.weights.size(); ++i) {
        const int pair = static_cast<int>(i) / taps;
        const int group = pair / group_in / (layer.out_channels / layer.groups);
        const int channel =
            transposed ? pair / layer.out_channels : group * group_in + pair % group_in;
        expected.weights[i] *= values.values[channel];
      }
      const PackedConv packed = pack({&layer});
      const bool fast = kernel.precision == Precision::kFast;
      const std::vector<uint8_t> gated =
          packed.half_weights ? Gated<cuda::Half, cuda::Half>(packed, channels, factors)
          : fast              ? Gated<float, cuda::Half>(packed, channels, factors)
                              : Gated<float, float>(packed, channels, factors);
      EXPECT_TRUE(gated == pack({&expected}).weights);
    }
  }
}

}  // namespace
}  // namespace upscaled
