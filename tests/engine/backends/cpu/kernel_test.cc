// Every listed kernel, on every instruction set of this machine, against the reference: sizes
// around its blocks, every edge, and no write outside the rows it was asked for.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/reference/layers.h"
#include "engine/base/int_math.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cpu/placed_tensor.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cpu::Isa;
using cpu::KernelInfo;
using test::FreshRandom;
using test::PlacedTensor;
using test::RandomInt;
using test::RandomTensor;

// Values are of size 1; F(6x6) loses about two digits of fp32's seven.
constexpr float kTolerance = 2e-4f;

constexpr Activation kActivations[] = {Activation::kNone,      Activation::kRelu,
                                       Activation::kLeakyRelu, Activation::kPRelu,
                                       Activation::kSigmoid,   Activation::kClip};

void SetRandomActivation(Layer& layer, std::mt19937& random) {
  std::uniform_real_distribution<float> slope(-0.5f, 1.5f);
  layer.activation = kActivations[RandomInt(random, 0, std::size(kActivations) - 1)];
  const int slopes = layer.activation == Activation::kLeakyRelu ? 1
                     : layer.activation == Activation::kPRelu   ? layer.out_channels
                                                                : 0;
  layer.slope.resize(slopes);
  for (float& s : layer.slope) s = slope(random);
  layer.clip_min = -0.25f;
  layer.clip_max = 0.5f;
}

Layer MakeConv(Op op, int in, int out, int kernel, int stride, int padding, std::mt19937& random) {
  Layer layer;
  layer.op = op;
  layer.name = "tested";
  layer.inputs = {0};
  layer.in_channels = in;
  layer.out_channels = out;
  layer.kernel_px = kernel;
  layer.stride_px = stride;
  layer.padding_px = padding;
  std::normal_distribution<float> normal;
  const float scale = 1 / std::sqrt(static_cast<float>(in) * kernel * kernel);
  layer.weights.resize(static_cast<size_t>(in) * out * kernel * kernel);
  for (float& w : layer.weights) w = normal(random) * scale;
  layer.bias.resize(out);
  for (float& b : layer.bias) b = normal(random);
  return layer;
}

Layer MakePlain(Op op, int in, int out, int factor, int crop_px, std::vector<int> inputs) {
  Layer layer;
  layer.op = op;
  layer.name = "tested";
  layer.inputs = std::move(inputs);
  layer.in_channels = in;
  layer.out_channels = out;
  layer.factor = factor;
  layer.crop_px = crop_px;
  return layer;
}

Layer MakePad(int channels, int padding_px, PadMode mode) {
  Layer layer = MakePlain(Op::kPad, channels, channels, 1, 0, {0});
  layer.padding_px = padding_px;
  layer.pad_mode = mode;
  layer.pad_value = 0.5f;
  return layer;
}

Layer MakeAffine(int channels, std::mt19937& random) {
  Layer layer = MakePlain(Op::kAffine, channels, channels, 1, 0, {0});
  std::normal_distribution<float> normal;
  for (int c = 0; c < channels; ++c) {
    layer.weights.push_back(normal(random));
    layer.bias.push_back(normal(random));
  }
  return layer;
}

// Layers that between them reach every branch of every kernel.
std::vector<Layer> TestedLayers(std::mt19937& random) {
  std::vector<Layer> layers;
  const int odd = RandomInt(random, 5, 70);
  for (const auto& [in, out] : {std::pair{16, 16},
                                {32, 64},
                                {5, 12},
                                {48, 33},
                                {64, 3},
                                {3, 32},
                                {3, 17},
                                {3, 3},
                                {17, 1},
                                {4, 20},
                                {odd, 96},
                                {20, odd}}) {
    for (const int padding : {0, 1}) {
      layers.push_back(MakeConv(Op::kConv, in, out, 3, 1, padding, random));
    }
    layers.push_back(MakeConv(Op::kConv, in, out, 1, 1, 0, random));
    layers.push_back(MakeConv(Op::kConv, in, out, 2, 2, 0, random));
    layers.push_back(MakeConv(Op::kConv, in, out, 5, 3, 2, random));
    layers.push_back(MakeConv(Op::kConvTranspose, in, out, 4, 2, 3, random));
    layers.push_back(MakeConv(Op::kConvTranspose, in, out, 2, 2, 0, random));
    layers.push_back(MakeConv(Op::kConvTranspose, in, out, 3, 2, 1, random));
  }
  for (const int kernel : {5, 7}) {
    layers.push_back(MakeConv(Op::kConv, 3, odd, kernel, 1, kernel / 2, random));
    layers.push_back(MakeConv(Op::kConv, odd, 20, kernel, 1, 1, random));
  }
  for (const int channels : {3, 20, 32}) {
    layers.push_back(MakePlain(Op::kPixelShuffle, channels * 4, channels, 2, 0, {0}));
    layers.push_back(MakePlain(Op::kPixelShuffle, channels * 9, channels, 3, 0, {0}));
    layers.push_back(MakePlain(Op::kResizeNearest, channels, channels, 3, 0, {0}));
    layers.push_back(MakePlain(Op::kResizeBilinear, channels, channels, 2, 0, {0}));
    layers.push_back(MakePlain(Op::kCrop, channels, channels, 1, 2, {0}));
    layers.push_back(MakePlain(Op::kActivation, channels, channels, 1, 0, {0}));
    for (const PadMode mode : {PadMode::kConstant, PadMode::kReplicate, PadMode::kReflect}) {
      layers.push_back(MakePad(channels, RandomInt(random, 0, 7), mode));
    }
    layers.push_back(MakeAffine(channels, random));
    layers.push_back(MakePlain(Op::kAdd, channels, channels, 1, 0, {0, 1}));
    layers.push_back(MakePlain(Op::kMul, channels, channels, 1, 0, {0, 1}));
    layers.push_back(MakePlain(Op::kConcat, channels, channels * 3, 1, 0, {0, 1, 2}));
  }
  for (Layer& layer : layers) SetRandomActivation(layer, random);
  return layers;
}

// The output of `layer` for an input of this size along one axis.
int OutputSide(const Layer& layer, int in) {
  switch (layer.op) {
    case Op::kConv:
      return FloorDiv(in + 2 * layer.padding_px - layer.kernel_px, layer.stride_px) + 1;
    case Op::kConvTranspose:
      return (in - 1) * layer.stride_px + layer.kernel_px - 2 * layer.padding_px;
    case Op::kCrop:
      return in - 2 * layer.crop_px;
    case Op::kPad:
      return in + 2 * layer.padding_px;
    default:
      return in * layer.factor;
  }
}

Size SizeOf(const Rect& rect) { return {rect.width, rect.height}; }

class KernelTest : public ::testing::TestWithParam<Isa> {
 protected:
  // Runs `info` on a random input of this size and compares; all rows, then some of them alone.
  void Check(const KernelInfo& info, const Layer& layer, Size in) {
    const Size out{OutputSide(layer, in.width), OutputSide(layer, in.height)};
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(::testing::Message()
                 << info.name << " " << OpName(layer.op) << " " << layer.in_channels << "-"
                 << layer.out_channels << " kernel " << layer.kernel_px << " stride "
                 << layer.stride_px << " padding " << layer.padding_px << " factor " << layer.factor
                 << " " << ActivationName(layer.activation) << ", input " << in.width << "x"
                 << in.height);

    std::vector<reference::Tensor> inputs;
    std::vector<const reference::Tensor*> input_pointers;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      inputs.push_back(RandomTensor(layer.in_channels, in, random_));
    }
    for (const reference::Tensor& input : inputs) input_pointers.push_back(&input);
    reference::Tensor expected({0, 0, out.width, out.height}, layer.out_channels);
    reference::ComputeLayer(layer, input_pointers, expected);

    const auto kernel = info.create(layer, GetParam());
    const std::vector<PlacedTensor> placed = PlaceInputs(info, layer, inputs, kernel->margin());
    std::vector<cpu::Tensor> src;
    for (const PlacedTensor& tensor : placed) src.push_back(tensor.tensor());
    CompareRows(*kernel, src, expected, {0, 0, out.width, out.height});
    CompareRows(*kernel, src, expected, SomeRows(kernel->block_px(), out));
  }

 private:
  // Whole blocks, or to the layer's end.
  Rect SomeRows(int block, Size layer) {
    const int x = RandomInt(random_, 0, (layer.width - 1) / block) * block;
    const int y = RandomInt(random_, 0, (layer.height - 1) / block) * block;
    const int right = RandomInt(random_, x / block + 1, layer.width / block + 1) * block;
    const int bottom = RandomInt(random_, y / block + 1, layer.height / block + 1) * block;
    return {x, y, std::min(right, layer.width) - x, std::min(bottom, layer.height) - y};
  }

  // The inputs as the kernel wants them: what its prelude makes of them, if it has one.
  std::vector<PlacedTensor> PlaceInputs(const KernelInfo& info, const Layer& layer,
                                        const std::vector<reference::Tensor>& inputs,
                                        cpu::Margin margin) {
    std::vector<PlacedTensor> placed;
    for (const reference::Tensor& input : inputs) {
      placed.emplace_back(layer.in_channels, SizeOf(input.region), margin);
      placed.back().Fill(input);
    }
    if (info.prelude == nullptr) return placed;
    const Layer prelude = info.prelude(layer);
    std::vector<PlacedTensor> products;
    products.emplace_back(prelude.out_channels, SizeOf(inputs[0].region), margin, true);
    cpu::ChooseKernel(prelude, nullptr)
        ->create(prelude, GetParam())
        ->Run({&placed[0].tensor(), 1}, products[0].tensor(), inputs[0].region, nullptr);
    return products;
  }

  void CompareRows(const cpu::LayerKernel& kernel, std::span<const cpu::Tensor> src,
                   const reference::Tensor& expected, const Rect& rows) {
    PlacedTensor dst(expected.channels, {expected.region.width, expected.region.height}, {2, 2});
    cpu::HugeBuffer scratch(kernel.ScratchFloats());
    std::fill_n(scratch.data(), scratch.size(), std::nanf(""));
    kernel.Run(src, dst.tensor(), rows, scratch.data());
    EXPECT_EQ(dst.WrittenOutside(rows), 0);
    for (int c = 0; c < expected.channels; ++c) {
      for (int y = rows.y; y < rows.bottom(); ++y) {
        for (int x = rows.x; x < rows.right(); ++x) {
          ASSERT_NEAR(dst.At(c, x, y), expected.at(c, x, y), kTolerance)
              << "channel " << c << " at " << x << ", " << y;
        }
      }
    }
  }

 protected:
  std::mt19937 random_ = FreshRandom();
};

TEST_P(KernelTest, AgreesWithTheReference) {
  const std::vector<Layer> layers = TestedLayers(random_);
  for (const KernelInfo& info : cpu::ListKernels()) {
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

// Wide enough for several blocks of Winograd tiles in a row, with every remainder.
TEST_P(KernelTest, WideRows) {
  const Layer layer = MakeConv(Op::kConv, 16, 48, 3, 1, 1, random_);
  for (const KernelInfo& info : cpu::ListKernels()) {
    if (!info.supports(layer)) continue;
    for (int i = 0; i < 4; ++i) Check(info, layer, {RandomInt(random_, 150, 420), 7});
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
