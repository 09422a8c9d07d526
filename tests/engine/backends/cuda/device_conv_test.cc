// Every convolution kernel on the device, each in tests of its own: a fault of one hides no other.
// Against the reference, and large layers against one another.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/backends/cuda/kernels/pooling.h"
#include "engine/model/half.h"
#include "tests/engine/backends/cuda/device_kernel_fixture.h"
#include "tests/engine/backends/cuda/large_tensor.h"

namespace upscaled {
namespace {

using cuda::ConvKernel;
using test::DeviceTensor;
using test::Halves;
using test::LargeTensor;
using test::MakeConv;

using KernelParam = std::tuple<Precision, std::string>;

std::string NameOf(const ::testing::TestParamInfo<KernelParam>& info) {
  return absl::StrCat(std::string(PrecisionName(std::get<0>(info.param))), "_",
                      std::get<1>(info.param));
}

const ConvKernel& KernelOf(const std::string& name) {
  const auto kernels = cuda::ListConvKernels();
  return *std::find_if(kernels.begin(), kernels.end(),
                       [&](const ConvKernel& kernel) { return kernel.name == name; });
}

// The kernels of a device with all of them.
std::vector<std::string> KernelsOf(Precision precision) {
  constexpr cuda::DeviceLimits kHopper{90, 132, 232448};
  std::mt19937 random(1);
  const std::vector<Layer> layers = test::TestedLayers(random);
  std::vector<std::string> names;
  for (const ConvKernel& kernel : cuda::ListConvKernels()) {
    const bool computes = std::any_of(layers.begin(), layers.end(), [&](const Layer& layer) {
      return kernel.supports({&layer, nullptr}, precision, kHopper);
    });
    if (computes) names.emplace_back(kernel.name);
  }
  return names;
}

std::vector<std::string> TensorCoreKernels() {
  std::vector<std::string> names = KernelsOf(Precision::kFast);
  for (const std::string& exact : KernelsOf(Precision::kExact)) std::erase(names, exact);
  return names;
}

std::vector<std::string> SummingKernels() {
  std::vector<std::string> names = TensorCoreKernels();
  std::erase_if(names, [](const std::string& name) { return !KernelOf(name).adds_sums; });
  return names;
}

class CudaConvKernelTest : public test::DeviceKernelTest,
                           public ::testing::WithParamInterface<KernelParam> {
 protected:
  CudaConvKernelTest()
      : DeviceKernelTest(std::get<0>(GetParam())), kernel_(KernelOf(std::get<1>(GetParam()))) {}

  bool Supports(const Layer& layer) const {
    return kernel_.supports({&layer, nullptr}, precision_, context_->device().limits);
  }

  const ConvKernel& kernel_;
};

TEST_P(CudaConvKernelTest, AgreesWithTheReference) {
  int supported = 0;
  for (const Layer& layer : test::TestedLayers(random_)) {
    if (!Supports(layer)) continue;
    ++supported;
    for (const Size in : TestedSizes()) {
      Check(layer, &kernel_, in);
      if (HasFailure()) return;
    }
  }
  if (supported == 0) GTEST_SKIP() << "this device has no " << kernel_.name;
  std::printf("%s: %d of the tested layers\n", std::string(kernel_.name).c_str(), supported);
}

class CudaTensorCoreTest : public CudaConvKernelTest {};
class CudaPooledSumsTest : public CudaConvKernelTest {};

// Distinct inputs, so a result's value tells where it was read.
class Marks {
 public:
  Marks(int channels, Size size) : tensor_({0, 0, size.width, size.height}, channels) {
    uint16_t next = kFirst;
    for (float& value : tensor_.values) value = HalfToFloat(next++);
  }

  const reference::Tensor& tensor() const { return tensor_; }
  // Zero beyond the edges.
  float At(int channel, int x, int y) const {
    const bool inside = cuda::IsInside(tensor_.region, x, y);
    return inside ? tensor_.at(channel, x, y) : 0.0f;
  }
  std::string Describe(float value) const {
    const int index = cuda::FloatToHalfBits(value) - kFirst, width = tensor_.region.width;
    if (index < 0 || index >= static_cast<int>(tensor_.values.size())) return absl::StrCat(value);
    const int row = index / width, height = tensor_.region.height;
    return absl::StrCat("channel ", row / height, " of ", index % width, ", ", row % height);
  }

 private:
  static constexpr uint16_t kFirst = 0x0400;  // the least normal half

  reference::Tensor tensor_;
};

// How a convolution with a single weight of 1, between two channels, differs from its inputs;
// empty: not at all.
std::string DescribeMoved(const DeviceTensor& actual, const Marks& marks, int dx, int dy, int in,
                          int out) {
  const cuda::TensorView& view = actual.view();
  int wrong = 0;
  std::string first;
  for (int c = 0; c < view.channels; ++c) {
    for (int y = 0; y < view.layer.height; ++y) {
      for (int x = 0; x < view.layer.width; ++x) {
        const float value = actual.At(c, x, y);
        const float expected = c == out ? marks.At(in, x + dx, y + dy) : 0;
        if (value == expected || wrong++ > 0) continue;
        first = absl::StrCat("output channel ", c, " at ", x, ", ", y, " is ",
                             marks.Describe(value), " instead of ", marks.Describe(expected));
      }
    }
  }
  return wrong == 0 ? "" : absl::StrCat(wrong, " wrong, the first: ", first);
}

// The operand with an address or stride a kernel gets wrong, if any: wgmma's descriptors above all.
TEST_P(CudaTensorCoreTest, MovesOneChannelByOneTap) {
  constexpr int kIn = 16, kOut = 64, kTaps = 3;
  const Size size{16, 32};  // a block of conv3x3_wgmma
  Layer layer = MakeConv(Op::kConv, kIn, kOut, kTaps, 1, 1, random_);
  if (!Supports(layer)) return;
  std::fill(layer.bias.begin(), layer.bias.end(), 0.0f);
  const Marks marks(kIn, size);
  for (int tap = 0; tap < kTaps * kTaps; ++tap) {
    for (int in = 0; in < kIn; ++in) {
      const int out = (tap * kIn + in) * 5 % kOut;  // each of them
      std::fill(layer.weights.begin(), layer.weights.end(), 0.0f);
      layer.weights[(out * kIn + in) * kTaps * kTaps + tap] = 1;
      const DeviceTensor actual =
          Run(layer, &kernel_, {marks.tensor()}, size, {0, 0, size.width, size.height});
      const std::string difference =
          DescribeMoved(actual, marks, tap % kTaps - 1, tap / kTaps - 1, in, out);
      EXPECT_EQ(difference, "") << "weight of tap " << tap % kTaps << ", " << tap / kTaps
                                << ", input channel " << in << ", output channel " << out;
    }
  }
}

// Relative to the largest value, as DeviceKernelTest::Compare; but for lanes of no channel.
void CompareHalves(const Halves& actual, const Halves& expected, const cuda::TensorView& view) {
  const size_t plane_halves = view.rect.Area() * cuda::kPlaneChannels;
  uint16_t largest = cuda::FloatToHalfBits(1);
  for (const uint16_t half : expected) largest = std::max<uint16_t>(largest, half & 0x7fff);
  const float tolerance = test::ToleranceOf(Precision::kFast) * HalfToFloat(largest);
  for (size_t i = 0; i < actual.size(); ++i) {
    const size_t channel = i / plane_halves * cuda::kPlaneChannels + i % cuda::kPlaneChannels;
    if (actual[i] == expected[i] || channel >= static_cast<size_t>(view.channels)) continue;
    const size_t pixel = i % plane_halves / cuda::kPlaneChannels;
    ASSERT_NEAR(HalfToFloat(actual[i]), HalfToFloat(expected[i]), tolerance)
        << "channel " << channel << " at " << pixel % view.rect.width << ", "
        << pixel / view.rect.width;
  }
}

// The part of `whole` in the region, NaN elsewhere.
Halves PartOf(const Halves& whole, const cuda::TensorView& view) {
  Halves part(whole.size(), 0xffff);
  for (int plane = 0; plane < cuda::PlaneCount(view.channels); ++plane) {
    for (int y = view.region.y; y < view.region.bottom(); ++y) {
      const auto first = cuda::PixelIndex(view, 0, plane, view.region.x, y) * cuda::kPlaneChannels;
      std::copy_n(&whole[first], view.region.width * cuda::kPlaneChannels, &part[first]);
    }
  }
  return part;
}

// Added up while it is computed, a layer gives the sums of a launch of their own.
TEST_P(CudaPooledSumsTest, AreThoseOfWhatIsStored) {
  constexpr Size kSize{131, 67};
  const Rect whole{0, 0, kSize.width, kSize.height};
  for (const auto& [in, out] : {std::pair{16, 11}, {32, 27}, {64, 64}, {48, 120}}) {
    const Layer layer = MakeConv(Op::kConv, in, out, 3, 1, 1, random_);
    if (!Supports(layer)) continue;
    SCOPED_TRACE(test::Describe(layer));
    const size_t channels = size_t{1} * cuda::PlaneCount(out) * cuda::kPlaneChannels;
    const DeviceTensor src(context_, precision_, RandomInputs(layer, kSize)[0], whole);
    const DeviceTensor dst(context_, precision_, out, kSize, whole);
    for (const Rect& part : {whole, SomePart(kSize), Rect{130, 66, 1, 1}}) {
      std::vector<int64_t> sums(2 * channels);  // added up by the kernel, and alone
      auto memory = cuda::Upload(context_, std::as_bytes(std::span(sums)), "sums");
      ASSERT_TRUE(memory.ok()) << memory.status();
      auto* const on_device = reinterpret_cast<int64_t*>(memory->data());
      const absl::Status status =
          Launch(layer, &kernel_, {src.view(), dst.view()}, {on_device, part});
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(
          cuda::LaunchSumChannels(dst.view(), {on_device + channels, part}, 1, precision_, nullptr),
          cudaSuccess);
      ASSERT_EQ(
          cudaMemcpy(sums.data(), on_device, sums.size() * sizeof(int64_t), cudaMemcpyDeviceToHost),
          cudaSuccess);
      for (int c = 0; c < out; ++c) {
        ASSERT_EQ(sums[c], sums[channels + c]) << "channel " << c << " of " << part.width << "x"
                                               << part.height << " at " << part.x << ", " << part.y;
      }
    }
  }
}

// Many rectangles a block, several blocks of columns, many units in the ring of stages.
TEST_P(CudaTensorCoreTest, LargeLayersAgreeAmongKernels) {
  constexpr Size kSize{801, 541};
  constexpr int kRepetitions = 5;
  const Rect whole{0, 0, kSize.width, kSize.height};
  for (const auto& [in, out] :
       {std::pair{16, 64}, {48, 32}, {64, 64}, {64, 256}, {128, 64}, {64, 3}}) {
    const Layer layer = MakeConv(Op::kConv, in, out, 3, 1, 1, random_);
    if (!Supports(layer)) continue;
    SCOPED_TRACE(test::Describe(layer));
    LargeTensor src(context_, in, kSize), dst(context_, out, kSize);
    src.Fill(random_);
    const auto compute = [&](const ConvKernel& kernel, const Rect& region) -> const Halves& {
      dst.Clear();
      const absl::Status status = Launch(layer, &kernel, {src.View(whole), dst.View(region)});
      EXPECT_TRUE(status.ok()) << status;
      return dst.Download();
    };
    const Halves expected = compute(KernelOf("im2col_ffma"), whole);
    const Halves result = compute(kernel_, whole);
    CompareHalves(result, expected, dst.View(whole));
    for (int i = 1; i < kRepetitions; ++i) {
      ASSERT_TRUE(compute(kernel_, whole) == result) << "other bytes in repetition " << i;
    }
    const Rect part = SomePart(kSize);
    ASSERT_TRUE(compute(kernel_, part) == PartOf(result, dst.View(part)))
        << "other bytes in " << part.width << "x" << part.height << " at " << part.x << ", "
        << part.y;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Fast, CudaConvKernelTest,
                         ::testing::Combine(::testing::Values(Precision::kFast),
                                            ::testing::ValuesIn(KernelsOf(Precision::kFast))),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Fast, CudaTensorCoreTest,
                         ::testing::Combine(::testing::Values(Precision::kFast),
                                            ::testing::ValuesIn(TensorCoreKernels())),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Fast, CudaPooledSumsTest,
                         ::testing::Combine(::testing::Values(Precision::kFast),
                                            ::testing::ValuesIn(SummingKernels())),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Exact, CudaConvKernelTest,
                         ::testing::Combine(::testing::Values(Precision::kExact),
                                            ::testing::ValuesIn(KernelsOf(Precision::kExact))),
                         NameOf);

}  // namespace
}  // namespace upscaled
