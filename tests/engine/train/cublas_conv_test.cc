// Convolutions by cuBLAS, over the host's memory in a device's place: every shift and stride is
// right, not the device's arithmetic.
#include "engine/train/cuda/cublas_conv.h"

#include <limits>

#include "tests/engine/train/conv_kernel_fixture.h"
#include "tests/engine/train/host_cublas.h"

namespace upscaled::train {
namespace {

class CublasConvTest : public ConvKernelTest {
 protected:
  ~CublasConvTest() override {
    device_ = {};
    EXPECT_EQ(test::HostCublasAllocations(), 0);
  }

  ConvDevice device_ = CublasConvs(Cublas::Create(test::HostCublas()).value());
};

TEST_P(CublasConvTest, GivesWhatDoublesGive) {
  Conv<double> reference(layer_);
  const Results<double> expected = Run(reference);
  Conv<float> of_floats(layer_, device_.of_floats);
  const Results<float> found = Run(of_floats);
  EXPECT_LE(Error(expected.dst.values(), found.dst.values()), 1e-5);
  EXPECT_LE(Error(expected.d_src.values(), found.d_src.values()), 1e-5);
  EXPECT_LE(Error(expected.d_params, found.d_params), 1e-5);
  Conv<double> of_doubles(layer_, device_.of_doubles);
  const Results<double> again = (Run(of_doubles), Run(of_doubles));
  EXPECT_LE(Error(expected.dst.values(), again.dst.values()), 1e-12);
  EXPECT_LE(Error(expected.d_src.values(), again.d_src.values()), 1e-12);
  EXPECT_LE(Error(expected.d_params, again.d_params), 1e-12)
      << "something is left of the last call";
  EXPECT_TRUE(device_.status().ok()) << device_.status();
}

INSTANTIATE_TEST_SUITE_P(Shapes, CublasConvTest, ::testing::ValuesIn(kConvCases));

// Wherever memory is out, the device says so and nothing is written through null.
TEST(CublasTest, SaysThatMemoryIsOut) {
  for (int count = 0; count < 6; ++count) {
    const ConvDevice device = CublasConvs(Cublas::Create(test::HostCublas()).value());
    test::SetHostCublasAllocations(count);
    const Layer layer{.op = Op::kConv, .out_channels = 3, .in_channels = 5, .kernel_px = 3};
    Conv<float> conv(layer, device.of_floats);
    const std::vector<float> params(3 * 5 * 9 + 3);
    Tensor<float> src({1, {6, 5}}, 5), dst({1, {4, 3}}, 3), d_src = src;
    const Tensor<float>* sources[] = {&src};
    const SourceGradient<float> d_sources[] = {{.tensor = &d_src}};
    std::vector<float> d_params(params.size());
    conv.Begin(params.data());
    conv.Forward(params.data(), sources, dst);
    conv.Backward(params.data(), sources, dst, dst, d_sources, d_params.data());
    conv.End(d_params.data());
    EXPECT_EQ(device.status().code(), absl::StatusCode::kUnavailable) << count;
    EXPECT_NE(device.status().message().find("cudaMalloc of "), std::string::npos);
    test::SetHostCublasAllocations(std::numeric_limits<int>::max());
  }
}

}  // namespace
}  // namespace upscaled::train
