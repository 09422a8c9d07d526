// Kernels other than convolutions, against the reference, in both precisions: layers of every
// kind, sizes around their blocks, every edge, regions anywhere in the layer, and no write outside
// them.
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/cuda/kernels/fused_conv.h"
#include "engine/backends/cuda/kernels/pooling.h"
#include "engine/graph/pooling.h"
#include "tests/engine/backends/cuda/device_kernel_fixture.h"

namespace upscaled {
namespace {

using test::DeviceTensor;
using test::MakePlain;
using test::RandomInt;
using test::RandomTensor;

class CudaDeviceKernelTest : public test::DeviceKernelTest,
                             public ::testing::WithParamInterface<Precision> {
 protected:
  CudaDeviceKernelTest() : DeviceKernelTest(GetParam()) {}
};

TEST_P(CudaDeviceKernelTest, OtherLayersAgreeWithTheReference) {
  for (Layer& layer : test::TestedLayers(random_)) {
    if (cuda::IsFusable({&layer, nullptr})) continue;
    // Without an activation a concatenation of whole planes needs no copy, and so has no step.
    const bool whole_planes = layer.in_channels % cuda::kPlaneChannels == 0;
    if (layer.op == Op::kConcat && whole_planes) layer.activation = Activation::kRelu;
    // By design: halves are too coarse for the means of a group norm, and nothing attends or
    // samples here yet.
    const bool refused =
        IsExactOnly(layer) || (GetParam() == Precision::kFast && layer.op == Op::kGroupNorm);
    const cuda::CudaKernelSet kernels(context_, GetParam());
    ASSERT_EQ(RankKernels(kernels, {&layer}).empty(), refused) << test::Describe(layer);
    if (refused) continue;
    for (const Size in : TestedSizes()) {
      Check(layer, nullptr, in);
      if (HasFailure()) return;
    }
  }
}

// Where floats have no digits left for the position between two pixels.
TEST_P(CudaDeviceKernelTest, BilinearResizeFarFromTheOrigin) {
  Check(MakePlain(Op::kResizeBilinear, 3, 3, 3, 0, {0}), nullptr, {20'000, 2});
}

// To the last unit as the host adds up, for every part of a layer.
TEST_P(CudaDeviceKernelTest, PooledSumsAreThoseOfTheHost) {
  const Size size{RandomInt(random_, 4090, 9000), 5};
  reference::Tensor values = RandomTensor(11, size, random_);
  for (float& value : values.values) value = std::round(value * 64) / 64;
  if (GetParam() == Precision::kExact) {
    for (const float value : {1e30f, -1e30f, 65535.99f, std::nanf(""), 1e-30f, 0x1.8p-24f}) {
      const int last = static_cast<int>(values.values.size()) - 1;
      values.values[RandomInt(random_, 0, last)] = value;
    }
  }
  const DeviceTensor tensor(context_, GetParam(), values, {0, 0, size.width, size.height});
  for (const Rect part :
       {Rect{0, 0, size.width, size.height}, Rect{3, 1, size.width - 7, 2}, Rect{5, 4, 1, 1}}) {
    std::vector<int64_t> sums(16);
    auto memory = cuda::Upload(context_, std::as_bytes(std::span(sums)), "sums");
    ASSERT_TRUE(memory.ok()) << memory.status();
    auto* const on_device = reinterpret_cast<int64_t*>(memory->data());
    ASSERT_EQ(cuda::LaunchSumChannels(tensor.view(), {on_device, part}, 1, GetParam(), nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaMemcpy(sums.data(), on_device, sums.size() * 8, cudaMemcpyDeviceToHost),
              cudaSuccess);
    ChannelSums expected(values.channels), actual(values.channels);
    for (int c = 0; c < values.channels; ++c) {
      actual.Add(c, static_cast<double>(sums[c]) / (1 << 24));
      for (int y = part.y; y < part.bottom(); ++y) {
        for (int x = part.x; x < part.right(); ++x) {
          expected.Add(c, ChannelSums::Round(values.at(c, x, y)));
        }
      }
    }
    EXPECT_EQ(actual.Means(1), expected.Means(1)) << "part of " << part.width << "x" << part.height;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaDeviceKernelTest,
                         ::testing::Values(Precision::kExact, Precision::kFast),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

}  // namespace
}  // namespace upscaled
