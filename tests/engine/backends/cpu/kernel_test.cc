// Every listed kernel, on every instruction set of this machine, against the reference: sizes
// around its blocks, every edge, and no write outside the rows it was asked for.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_kernel_set.h"
#include "engine/backends/cpu/kernels/convert.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/cpu/kernels/winograd.h"
#include "engine/base/int_math.h"
#include "engine/graph/tile_geometry.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cpu/placed_tensor.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cpu::Isa;
using cpu::KernelEntry;
using test::FreshRandom;
using test::MakeConv;
using test::MakePlain;
using test::OutputSide;
using test::PlacedTensor;
using test::RandomInput;
using test::RandomInt;
using test::RandomTensor;
using test::TestedLayers;

// Values are of size 1; F(6x6) loses about two digits of fp32's seven.
constexpr float kTolerance = 2e-4f;
// F(4x4) loses one of fp16's three digits: at most, and on the average (root mean square).
constexpr float kHalfTolerance = 0.1f;
constexpr double kHalfRms = 0.01;

Size SizeOf(const Rect& rect) { return {rect.width, rect.height}; }

// Kernels in fp32 are the same on all three sets with AVX-512.
bool IsTested(const KernelEntry& info, Isa isa) {
  return info.RunsOn(isa) && (info.precision == Precision::kFast || !cpu::HasVnni(isa));
}

class KernelTest : public ::testing::TestWithParam<Isa> {
 protected:
  // Runs `info` on a random input of this size and compares; all rows, then only some of them.
  // `residual`: the kernel adds one, cropped and resized as the layer says.
  void Check(const KernelEntry& info, const Layer& layer, Size in, bool residual = false) {
    const Size out{OutputSide(layer, in.width), OutputSide(layer, in.height)};
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(::testing::Message() << info.name << " " << test::Describe(layer) << ", input "
                                      << in.width << "x" << in.height);

    std::vector<reference::Tensor> inputs;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      inputs.push_back(RandomInput(layer, i, in, random_));
    }
    reference::Tensor expected = test::ComputeReference(layer, inputs, out);

    const auto kernel = info.create(layer, GetParam());
    const std::vector<PlacedTensor> placed = PlaceInputs(info, layer, inputs, kernel->margin());
    std::vector<cpu::Tensor> src;
    for (const PlacedTensor& tensor : placed) src.push_back(tensor.tensor());
    const Size uncropped{CeilDiv(out.width, layer.residual_factor) + 2 * layer.crop_px,
                         CeilDiv(out.height, layer.residual_factor) + 2 * layer.crop_px};
    PlacedTensor added(layer.out_channels, uncropped, {});
    if (residual) {
      const reference::Tensor values = RandomTensor(layer.out_channels, uncropped, random_);
      added.Fill(values);
      if (TakesHalves(info, layer.out_channels)) {
        added = std::move(Halves({&added, 1}, layer.out_channels, {}).front());
      }
      src.push_back(added.tensor());
      Add(values, layer, expected);
    }
    CompareRows(info, *kernel, src, expected, {0, 0, out.width, out.height});
    CompareRows(info, *kernel, src, expected, SomeRows(kernel->block_px(), out));
  }

  // The kernel's result for a whole layer of its input's size.
  reference::Tensor Compute(const KernelEntry& info, const Layer& layer,
                            const reference::Tensor& input) {
    const Rect& whole = input.region;
    const auto kernel = info.create(layer, GetParam());
    PlacedTensor src(layer.in_channels, SizeOf(whole), kernel->margin());
    src.Fill(input);
    const PlacedTensor dst(layer.out_channels, SizeOf(whole), {2, 2});
    RunRows(*kernel, {&src.tensor(), 1}, dst, whole, whole);
    reference::Tensor result(whole, layer.out_channels);
    for (int c = 0; c < result.channels; ++c) {
      for (int y = 0; y < whole.height; ++y) {
        for (int x = 0; x < whole.width; ++x) result.row(c, y)[x] = dst.At(c, x, y);
      }
    }
    return result;
  }

 private:
  static void Add(const reference::Tensor& residual, const Layer& layer, reference::Tensor& sum) {
    const auto from = [&](int at) { return at / layer.residual_factor + layer.crop_px; };
    for (int c = 0; c < sum.channels; ++c) {
      for (int y = 0; y < sum.region.height; ++y) {
        for (int x = 0; x < sum.region.width; ++x) {
          sum.row(c, y)[x] += residual.at(c, from(x), from(y));
        }
      }
    }
  }

  // Whole blocks, the first perhaps from before the layer, or blocks up to the layer's end.
  PixelRange SomeBlocks(int block, int side) {
    const int origin = -RandomInt(random_, 0, block - 1);
    const int blocks = CeilDiv(side - origin, block);
    const int first = RandomInt(random_, 0, blocks - 1);
    const int last = RandomInt(random_, first, blocks - 1);
    return {origin + first * block, std::min(origin + (last + 1) * block, side) - 1};
  }
  Rect SomeRows(int block, Size layer) {
    const PixelRange x = SomeBlocks(block, layer.width), y = SomeBlocks(block, layer.height);
    return {x.first, y.first, x.last - x.first + 1, y.last - y.first + 1};
  }

  // The inputs as the kernel wants them: its prelude's output, if it has one.
  std::vector<PlacedTensor> PlaceInputs(const KernelEntry& info, const Layer& layer,
                                        const std::vector<reference::Tensor>& inputs,
                                        cpu::Margin margin) {
    std::vector<PlacedTensor> placed;
    for (const reference::Tensor& input : inputs) {
      placed.emplace_back(input.channels, SizeOf(input.region), margin);
      placed.back().Fill(input);
    }
    if (TakesHalves(info, layer.in_channels)) return Halves(placed, layer.in_channels, margin);
    if (info.prelude == nullptr) return placed;
    const Layer prelude = info.prelude(layer);
    std::vector<PlacedTensor> products;
    products.emplace_back(prelude.out_channels, SizeOf(inputs[0].region), margin,
                          PlacedTensor::Kind::kInterleaved);
    const cpu::CpuKernelSet kernels(GetParam(), Precision::kExact);
    static_cast<const KernelEntry&>(*RankKernels(kernels, {&prelude}).front().info)
        .create(prelude, GetParam())
        ->Run({&placed[0].tensor(), 1}, products[0].tensor(), inputs[0].region, nullptr);
    return products;
  }

  static bool TakesHalves(const KernelEntry& info, int channels) {
    return info.precision == Precision::kFast && channels > cpu::kMaxInterleavedChannels;
  }

  std::vector<PlacedTensor> Halves(std::span<const PlacedTensor> floats, int channels,
                                   cpu::Margin margin) {
    std::vector<PlacedTensor> halves;
    for (const PlacedTensor& tensor : floats) {
      const Size size{tensor.tensor().layer_width_px, tensor.tensor().layer_height_px};
      halves.emplace_back(channels, size, margin, PlacedTensor::Kind::kHalves);
      cpu::MakeToHalf({}, GetParam())
          ->Run({&tensor.tensor(), 1}, halves.back().tensor(), {0, 0, size.width, size.height},
                nullptr);
    }
    return halves;
  }

  void CompareRows(const KernelEntry& info, const cpu::LayerKernel& kernel,
                   std::span<const cpu::Tensor> src, const reference::Tensor& expected,
                   const Rect& blocks) {
    const Size size = SizeOf(expected.region);
    const Rect rows = Intersect(blocks, expected.region);
    const bool halved = TakesHalves(info, expected.channels);
    const bool one_plane = expected.channels <= cpu::kPlaneChannels;
    if (!halved || (info.stores_floats && one_plane)) {
      const PlacedTensor dst(expected.channels, size, {2, 2});
      RunRows(kernel, src, dst, blocks, rows);
      Compare(info, dst, expected, rows);
    }
    if (halved) {
      const PlacedTensor dst(expected.channels, size, {2, 2});
      const PlacedTensor halves(expected.channels, size, {2, 2}, PlacedTensor::Kind::kHalves);
      RunRows(kernel, src, halves, blocks, rows);
      RunRows(*cpu::MakeToFloat({}, GetParam()), {&halves.tensor(), 1}, dst, rows, rows);
      Compare(info, dst, expected, rows);
    }
  }

  static void Compare(const KernelEntry& info, const PlacedTensor& dst,
                      const reference::Tensor& expected, const Rect& rows) {
    const float tolerance = info.precision == Precision::kFast ? kHalfTolerance : kTolerance;
    double squares = 0;
    for (int c = 0; c < expected.channels; ++c) {
      for (int y = rows.y; y < rows.bottom(); ++y) {
        for (int x = rows.x; x < rows.right(); ++x) {
          ASSERT_NEAR(dst.At(c, x, y), expected.at(c, x, y), tolerance)
              << "channel " << c << " at " << x << ", " << y;
          squares += std::pow(dst.At(c, x, y) - expected.at(c, x, y), 2);
        }
      }
    }
    EXPECT_LE(std::sqrt(squares / (rows.Area() * expected.channels)), kHalfRms);
  }

  // `rows`: the part of `blocks` inside the layer.
  void RunRows(const cpu::LayerKernel& kernel, std::span<const cpu::Tensor> src,
               const PlacedTensor& dst, const Rect& blocks, const Rect& rows) {
    cpu::HugeBuffer scratch(kernel.ScratchFloats());
    std::fill_n(scratch.data(), scratch.size(), std::nanf(""));
    kernel.Run(src, dst.tensor(), blocks, scratch.data());
    EXPECT_EQ(dst.WrittenOutside(rows), 0);
  }

 protected:
  std::mt19937 random_ = FreshRandom();
};

TEST_P(KernelTest, AgreesWithTheReference) {
  const std::vector<Layer> layers = TestedLayers(random_);
  for (const KernelEntry& info : cpu::ListKernels()) {
    if (!IsTested(info, GetParam())) continue;
    int supported = 0;
    for (const Layer& layer : layers) {
      if (!info.supports(layer)) continue;
      ++supported;
      // Around blocks of 6, register tiles of 14 and 28, and one by one pixel.
      for (const Size in : {Size{1, 1},
                            {3, 3},
                            {8, 7},
                            {9, 8},
                            {16, 5},
                            {31, 4},
                            {RandomInt(random_, 1, 47), RandomInt(random_, 1, 23)}}) {
        Check(info, layer, in);
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(supported, 0) << info.name << " supports none of the tested layers";
  }
}

// One, an even and an odd number of the widest vectors.
constexpr int kWideChannels[] = {12, 32, 48};

// Wide enough for several blocks of Winograd tiles in a row, with every remainder, and for several
// chunks of an image.
TEST_P(KernelTest, WideRows) {
  for (const int in_channels : {3, 16}) {
    for (const int channels : kWideChannels) {
      const Layer layer = MakeConv(Op::kConv, in_channels, channels, 3, 1, 1, random_);
      for (const KernelEntry& info : cpu::ListKernels()) {
        if (!IsTested(info, GetParam()) || !info.supports(layer)) continue;
        for (int i = 0; i < 2; ++i) Check(info, layer, {RandomInt(random_, 150, 420), 7});
      }
    }
  }
}

template <int kOutputs, size_t kCacheBytes>
constexpr KernelEntry kWinogradFor = {
    {"winograd"}, &cpu::WinogradSupports, [](const Layer& layer, Isa isa) {
      return cpu::MakeWinograd(layer, isa, kOutputs, kCacheBytes);
    }};

// Includes counts between none and all at which AVX-512 and AVX2 take half as many blocks at a time
// for 32 channels.
template <int kOutputs>
constexpr KernelEntry kWinogradForCaches[] = {
    kWinogradFor<kOutputs, 0>, kWinogradFor<kOutputs, 320 << 10>, kWinogradFor<kOutputs, 512 << 10>,
    kWinogradFor<kOutputs, 1 << 20>, kWinogradFor<kOutputs, SIZE_MAX>};

constexpr std::span<const KernelEntry> kWinogradsForCaches[] = {kWinogradForCaches<4>,
                                                                kWinogradForCaches<6>};

TEST_P(KernelTest, WinogradAgreesWithTheReferenceForEveryCache) {
  for (const int channels : kWideChannels) {
    const Layer layer = MakeConv(Op::kConv, 16, channels, 3, 1, 1, random_);
    for (const std::span<const KernelEntry> infos : kWinogradsForCaches) {
      for (const KernelEntry& info : infos) Check(info, layer, {RandomInt(random_, 150, 420), 7});
    }
  }
}

TEST_P(KernelTest, WinogradGivesTheSameBytesForEveryCache) {
  const Size size{RandomInt(random_, 150, 420), 7};
  for (const int channels : kWideChannels) {
    const Layer layer = MakeConv(Op::kConv, 16, channels, 3, 1, 1, random_);
    const reference::Tensor input = RandomTensor(layer.in_channels, size, random_);
    for (const std::span<const KernelEntry> infos : kWinogradsForCaches) {
      const reference::Tensor first = Compute(infos[0], layer, input);
      std::set<size_t> scratch_floats;
      for (const KernelEntry& info : infos) {
        EXPECT_EQ(Compute(info, layer, input).values, first.values) << test::Describe(layer);
        scratch_floats.insert(info.create(layer, GetParam())->ScratchFloats());
      }
      if (channels == 32 && (GetParam() == Isa::kAvx512 || GetParam() == Isa::kAvx2)) {
        EXPECT_EQ(scratch_floats.size(), 2u) << "all caches are computed for alike";
      }
    }
  }
}

// More blocks at a time, so weights too large for the caches are read less often.
TEST_P(KernelTest, WinogradGivesTheSameBytesForWeightsBeyondTheCache) {
  const Layer layer = MakeConv(Op::kConv, 128, 160, 3, 1, 1, random_);
  const KernelEntry& all = kWinogradFor<6, SIZE_MAX>;
  const KernelEntry& many = kWinogradFor<6, 1536 << 10>;
  const reference::Tensor input =
      RandomTensor(layer.in_channels, {RandomInt(random_, 150, 420), 2}, random_);
  EXPECT_EQ(Compute(many, layer, input).values, Compute(all, layer, input).values);
  if (GetParam() == Isa::kAvx512 || GetParam() == Isa::kAvx2) {
    EXPECT_GT(many.create(layer, GetParam())->ScratchFloats(),
              all.create(layer, GetParam())->ScratchFloats());
  }
}

// Includes channels with vectors left unused on some instruction set.
TEST_P(KernelTest, ResidualsAreAddedBehindTheActivation) {
  for (const int channels : {5, 12, 24, 48, 80}) {
    Layer layers[] = {MakeConv(Op::kConv, 7, channels, 1, 1, 0, random_),
                      MakeConv(Op::kConv, 3, channels, 5, 2, 2, random_),
                      MakeConv(Op::kConv, 20, channels, 3, 1, 1, random_),
                      MakeConv(Op::kConvTranspose, 7, channels, 2, 2, 0, random_),
                      MakeConv(Op::kConvTranspose, 5, channels, 5, 3, 1, random_)};
    for (Layer& layer : layers) {
      layer.activation = Activation::kRelu;
      layer.crop_px = RandomInt(random_, 0, 3);
      for (const KernelEntry& info : cpu::ListKernels()) {
        if (!IsTested(info, GetParam()) || (info.fuses & kFuseAdd) == 0 || !info.supports(layer)) {
          continue;
        }
        Check(info, layer, {RandomInt(random_, 5, 47), RandomInt(random_, 5, 23)}, true);
        if (HasFailure()) return;
      }
    }
  }
}

// Cropped or not, enlarged as the shuffled are, less, more, or not.
TEST_P(KernelTest, ShufflesToImagesAddImages) {
  const KernelEntry& kernel = *cpu::FindKernel("image_shuffle");
  if (!IsTested(kernel, GetParam())) GTEST_SKIP() << "as on other instruction sets";
  for (const int channels : {1, 3, 4}) {
    for (const int factor : {1, 2, 3, 4}) {
      for (const int residual_factor : {1, 2, 3, 4}) {
        Layer layer = MakePlain(Op::kPixelShuffle, channels * factor * factor, channels, factor,
                                RandomInt(random_, 0, 3), {0});
        layer.residual_factor = residual_factor;
        for (const Size in : {Size{1, 1}, {2, 3}, {RandomInt(random_, 3, 47), 5}}) {
          Check(kernel, layer, in, true);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Where floats have no digits left for the position between two pixels.
TEST_P(KernelTest, BilinearResizeFarFromTheOrigin) {
  Check(*cpu::FindKernel("elementwise"), MakePlain(Op::kResizeBilinear, 3, 3, 3, 0, {0}),
        {20'000, 2});
}

INSTANTIATE_TEST_SUITE_P(Isas, KernelTest, ::testing::ValuesIn(cpu::ListIsas()),
                         [](const auto& info) { return std::string(cpu::IsaName(info.param)); });

}  // namespace
}  // namespace upscaled
