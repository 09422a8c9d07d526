// All kernels except convolutions, run thread by thread on the CPU, against the reference.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "engine/backends/cuda/kernels/elementwise_kernel.h"
#include "engine/backends/cuda/kernels/elementwise_layer.h"
#include "engine/backends/cuda/kernels/first_conv_kernel.h"
#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/backends/cuda/kernels/layer_constants.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/backends/cuda/kernels/pixels_kernel.h"
#include "engine/backends/cuda/kernels/pooling_kernel.h"
#include "engine/backends/reference/layers.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/half.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/emulated_tensor.h"
#include "tests/engine/backends/cuda/emulator.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cuda::Half;
using cuda::SampleKind;
using cuda::SampleView;
using test::Describe;
using test::EmulatedTensor;
using test::FreshRandom;
using test::MakeConv;
using test::MakePlain;
using test::OutputSide;
using test::RandomInt;
using test::RandomTensor;
using test::RunEmulated;

constexpr Precision kPrecisions[] = {Precision::kExact, Precision::kFast};

float LayerTolerance(Precision precision) { return precision == Precision::kFast ? 4e-3f : 1e-5f; }

Rect Whole(Size size) { return {0, 0, size.width, size.height}; }

Rect RandomRegion(Size size, std::mt19937& random) {
  const int x = RandomInt(random, 0, size.width - 1), y = RandomInt(random, 0, size.height - 1);
  return {x, y, RandomInt(random, 1, size.width - x), RandomInt(random, 1, size.height - y)};
}

// A thread for each pixel, plane and tile.
template <typename Kernel>
void RunPixels(const Rect& region, int planes, int tiles, const Kernel& kernel,
               std::mt19937& random) {
  constexpr int kThreads = cuda::Elementwise::kThreads;
  const int blocks = static_cast<int>((region.Area() + kThreads - 1) / kThreads);
  RunEmulated({blocks, planes, tiles, kThreads, 16}, kernel, random);
}

void RunElementwise(const cuda::ElementwiseParams& params, Precision precision,
                    std::mt19937& random) {
  RunPixels(
      params.dst.region, cuda::WrittenPlanes(params), params.tiles,
      [&] {
        precision == Precision::kFast ? cuda::RunElementwise<Half>(params)
                                      : cuda::RunElementwise<float>(params);
      },
      random);
}

class CudaKernelTest : public testing::TestWithParam<Precision> {
 protected:
  // `layer` of inputs of this size, whole and in a part.
  void Check(const Layer& layer, Size in) {
    const Size out{OutputSide(layer, in.width), OutputSide(layer, in.height)};
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(testing::Message() << Describe(layer) << ", input " << in.width << "x" << in.height
                                    << ", " << PrecisionName(GetParam()));
    const bool one_pixel = layer.op == Op::kMul && RandomInt(random_, 0, 1) == 0;
    std::vector<reference::Tensor> inputs;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      const Size size = one_pixel && i == 1 ? Size{1, 1} : in;
      inputs.push_back(test::RandomInput(layer, i, size, random_));
      test::RoundValues(GetParam(), inputs.back().values);
    }
    const reference::Tensor expected = test::ComputeReference(layer, inputs, out);
    for (const Rect& region : {Whole(out), RandomRegion(out, random_)}) {
      const EmulatedTensor dst = Run(layer, inputs, one_pixel, out, region);
      EXPECT_EQ(dst.WrittenOutside(), 0);
      for (int c = 0; c < layer.out_channels; ++c) {
        for (int y = region.y; y < region.bottom(); ++y) {
          for (int x = region.x; x < region.right(); ++x) {
            const float value = expected.at(c, x, y);
            ASSERT_NEAR(dst.At(0, c, x, y), value,
                        LayerTolerance(GetParam()) * std::max(1.0f, std::abs(value)))
                << "channel " << c << " at " << x << ", " << y;
          }
        }
      }
    }
  }

  EmulatedTensor Run(const Layer& layer, const std::vector<reference::Tensor>& inputs,
                     bool one_pixel, Size out, const Rect& region) {
    cuda::ElementwiseParams params = cuda::ElementwiseOf(layer, one_pixel);
    const std::vector<float> constants = cuda::PackConstants(layer);
    params.constants = constants.data();
    std::vector<EmulatedTensor> src;
    src.reserve(inputs.size());
    for (const reference::Tensor& input : inputs) {
      src.emplace_back(input.channels, input.layer, Whole(input.layer), Whole(input.layer), 1,
                       GetParam());
      src.back().Fill(0, input, random_);
    }
    EmulatedTensor dst(layer.out_channels, out, Expand(region, 1), region, 1, GetParam());
    params.dst = dst.view();
    if (params.kind == cuda::ElementwiseKind::kConcat) {
      for (const EmulatedTensor& input : src) {
        params.src0 = input.view();
        RunElementwise(params, GetParam(), random_);
        params.first_channel += layer.in_channels;
      }
      return dst;
    }
    params.src0 = src[0].view();
    if (src.size() > 1) params.src1 = src[1].view();
    RunElementwise(params, GetParam(), random_);
    return dst;
  }

  std::mt19937 random_ = FreshRandom();
};

INSTANTIATE_TEST_SUITE_P(Precisions, CudaKernelTest, testing::ValuesIn(kPrecisions),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

TEST_P(CudaKernelTest, ElementwiseLayersAgreeWithTheReference) {
  int supported = 0;
  for (const Layer& layer : test::TestedLayers(random_)) {
    if (!cuda::ElementwiseSupports(layer)) continue;
    ++supported;
    for (const Size in : {Size{1, 1}, {RandomInt(random_, 2, 19), RandomInt(random_, 2, 13)}}) {
      Check(layer, in);
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(supported, 30);
}

// Where floats have no digits left for the position between two pixels.
TEST_P(CudaKernelTest, BilinearResizeFarFromTheOrigin) {
  Check(MakePlain(Op::kResizeBilinear, 3, 3, 3, 0, {0}), {9'000, 2});
}

// Images in, resized and convolved, in one kernel and in three layers of the reference.
TEST_P(CudaKernelTest, FirstConvolutionReadsSamples) {
  for (const SampleKind kind : {SampleKind::kU8, SampleKind::kU16, SampleKind::kF32}) {
    const int factor = RandomInt(random_, 1, 3), pad = RandomInt(random_, 0, 5);
    const int channels = RandomInt(random_, 3, 4);
    Layer conv =
        MakeConv(Op::kConv, 3, RandomInt(random_, 1, 64), 3, 1, RandomInt(random_, 0, 1), random_);
    conv.activation = Activation::kLeakyRelu;
    conv.slope = {0.1f};
    ASSERT_TRUE(cuda::FirstConvSupports(conv));
    const Size image{RandomInt(random_, 3, 60), RandomInt(random_, 3, 12)};
    const Size resized{(image.width + 2 * pad) * factor, (image.height + 2 * pad) * factor};
    const Size out{OutputSide(conv, resized.width), OutputSide(conv, resized.height)};
    SCOPED_TRACE(testing::Message() << image.width << "x" << image.height << " padded by " << pad
                                    << ", times " << factor << ", " << Describe(conv));

    const float full_scale = kind == SampleKind::kU8    ? 255.0f
                             : kind == SampleKind::kU16 ? 65535.0f
                                                        : 1.0f;
    std::vector<uint8_t> bytes(image.Area() * channels * 4);
    const SampleView view{bytes.data(), kind, channels, Whole(image), 0};
    for (int i = 0; i < image.Area() * channels; ++i) {
      cuda::StoreSample(RandomInt(random_, 0, 1000) / 1000.0f, view, i);
    }
    reference::Tensor input(Whole(resized), 3);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < resized.height; ++y) {
        for (int x = 0; x < resized.width; ++x) {
          const int from_x = std::clamp(x / factor - pad, 0, image.width - 1);
          const int from_y = std::clamp(y / factor - pad, 0, image.height - 1);
          const int64_t at = cuda::SampleIndex(view, 0, from_x, from_y) + c;
          input.row(c, y)[x] =
              kind == SampleKind::kU8 ? bytes[at] / full_scale
              : kind == SampleKind::kU16
                  ? reinterpret_cast<const uint16_t*>(bytes.data())[at] / full_scale
                  : reinterpret_cast<const float*>(bytes.data())[at];
        }
      }
    }
    const reference::Tensor* inputs[] = {&input};
    reference::Tensor expected(Whole(out), conv.out_channels);
    reference::ComputeLayer(conv, inputs, expected);

    const Rect region = RandomRegion(out, random_);
    EmulatedTensor dst(conv.out_channels, out, Expand(region, 1), region, 1, GetParam());
    const cuda::PackedConv packed = cuda::PackFirstConv(conv);
    cuda::FirstConvParams params;
    params.image = view;
    params.image_size = image;
    params.pad_px = pad;
    params.resize_factor = factor;
    params.conv_input = resized;
    params.padding_px = conv.padding_px;
    params.dst = dst.view();
    params.weights = reinterpret_cast<const float*>(packed.weights.data());
    params.constants = packed.constants.data();
    params.activation = cuda::ActivationOf(conv);
    using Tile = cuda::FirstConv;
    RunEmulated(
        {(region.width + Tile::kWidth - 1) / Tile::kWidth,
         (region.height + Tile::kHeight - 1) / Tile::kHeight, 1, Tile::kThreads,
         Tile::SharedBytes(cuda::PlaneCount(conv.out_channels))},
        [&] {
          GetParam() == Precision::kFast ? cuda::RunFirstConv<Half>(params)
                                         : cuda::RunFirstConv<float>(params);
        },
        random_);
    EXPECT_EQ(dst.WrittenOutside(), 0);
    for (int c = 0; c < conv.out_channels; ++c) {
      for (int y = region.y; y < region.bottom(); ++y) {
        for (int x = region.x; x < region.right(); ++x) {
          const float value = expected.at(c, x, y);
          ASSERT_NEAR(dst.At(0, c, x, y), value,
                      LayerTolerance(GetParam()) * std::max(1.0f, std::abs(value)))
              << "channel " << c << " at " << x << ", " << y;
        }
      }
    }
  }
}

TEST_P(CudaKernelTest, ImagesGoInAndOut) {
  const Size image{RandomInt(random_, 2, 40), RandomInt(random_, 2, 12)};
  const int pad = RandomInt(random_, 0, 4);
  const Size padded{image.width + 2 * pad, image.height + 2 * pad};
  std::vector<uint8_t> bytes(image.Area() * 4);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(RandomInt(random_, 0, 255));
  const Rect region = RandomRegion(padded, random_);
  EmulatedTensor tensor(3, padded, Expand(region, 1), region, 1, GetParam());
  const SampleView src{bytes.data(), SampleKind::kU8, 4, Whole(image), 0};
  const cuda::LoadPixelsParams load{src, image, pad, tensor.view()};
  std::vector<uint8_t> stored(region.Area() * 3);
  const SampleView dst{stored.data(), SampleKind::kU8, 3, region, 0};
  const cuda::StorePixelsParams store{tensor.view(), dst};
  const bool fast = GetParam() == Precision::kFast;
  RunPixels(
      region, 1, 1,
      [&] { fast ? cuda::RunLoadPixels<Half>(load) : cuda::RunLoadPixels<float>(load); }, random_);
  RunPixels(
      region, 1, 1,
      [&] { fast ? cuda::RunStorePixels<Half>(store) : cuda::RunStorePixels<float>(store); },
      random_);
  EXPECT_EQ(tensor.WrittenOutside(), 0);
  for (int y = region.y; y < region.bottom(); ++y) {
    for (int x = region.x; x < region.right(); ++x) {
      const int64_t from = cuda::SampleIndex(src, 0, std::clamp(x - pad, 0, image.width - 1),
                                             std::clamp(y - pad, 0, image.height - 1));
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(stored[cuda::SampleIndex(dst, 0, x, y) + c], bytes[from + c])
            << "channel " << c << " at " << x << ", " << y;
      }
    }
  }
}

TEST(SamplesTest, AreClampedAndRoundedHalfUp) {
  std::vector<uint8_t> u8(1);
  std::vector<uint16_t> u16(1);
  const SampleView view8{u8.data(), SampleKind::kU8, 3, {}, 0};
  const SampleView view16{u16.data(), SampleKind::kU16, 3, {}, 0};
  const auto stored = [&](float value) {
    cuda::StoreSample(value, view8, 0);
    cuda::StoreSample(value, view16, 0);
    return std::pair{int{u8[0]}, int{u16[0]}};
  };
  EXPECT_EQ(stored(-1.0f), (std::pair{0, 0}));
  EXPECT_EQ(stored(std::nanf("")), (std::pair{0, 0}));
  EXPECT_EQ(stored(2.0f), (std::pair{255, 65535}));
  EXPECT_EQ(stored(0.5f), (std::pair{128, 32768}));
}

TEST_P(CudaKernelTest, TilesWithoutFiniteValuesAreMarked) {
  const Rect region{0, 0, RandomInt(random_, 2, 20), RandomInt(random_, 2, 10)};
  constexpr int kTiles = 3;
  EmulatedTensor tensor(3, {region.width, region.height}, region, region, kTiles, GetParam());
  std::vector<uint32_t> lost(kTiles);
  for (int tile = 0; tile < kTiles; ++tile) {
    reference::Tensor values = RandomTensor(3, {region.width, region.height}, random_);
    const size_t any = RandomInt(random_, 0, static_cast<int>(values.values.size()) - 1);
    if (tile == 1) values.values[any] = RandomInt(random_, 0, 1) == 0 ? std::nanf("") : -INFINITY;
    tensor.Fill(tile, values, random_);
  }
  std::vector<uint8_t> stored(region.Area() * 3 * kTiles);
  const SampleView dst{stored.data(), SampleKind::kU8, 3, region, region.Area() * 3, lost.data()};
  const cuda::StorePixelsParams store{tensor.view(), dst};
  RunPixels(
      region, 1, kTiles,
      [&] {
        GetParam() == Precision::kFast ? cuda::RunStorePixels<Half>(store)
                                       : cuda::RunStorePixels<float>(store);
      },
      random_);
  EXPECT_EQ(lost, (std::vector<uint32_t>{0, 1, 0}));
}

// To the last bit as the host adds up, for any values.
TEST_P(CudaKernelTest, PooledSumsAreThoseOfTheHost) {
  const Size size{RandomInt(random_, 20, 90), RandomInt(random_, 3, 20)};
  constexpr int kChannels = 11, kTiles = 2;
  EmulatedTensor tensor(kChannels, size, Whole(size), Whole(size), kTiles, GetParam());
  std::vector<reference::Tensor> inputs;
  for (int tile = 0; tile < kTiles; ++tile) {
    inputs.push_back(RandomTensor(kChannels, size, random_));
    const float odd[] = {1e30f, -1e30f, 65535.99f, std::nanf(""), -INFINITY, 1e-30f, 0x1.8p-24f};
    for (const float value : odd) {
      inputs[tile].values[RandomInt(random_, 0, static_cast<int>(inputs[tile].values.size()) - 1)] =
          value;
    }
    test::RoundValues(GetParam(), inputs[tile].values);
    tensor.Fill(tile, inputs[tile], random_);
  }
  const Rect part = RandomRegion(size, random_);
  std::vector<int64_t> sums(kTiles * 16);
  const cuda::SumChannelsParams params{tensor.view(), {sums.data(), part}};
  using Tile = cuda::SumChannels;
  RunEmulated(
      {RandomInt(random_, 1, 5), 2, kTiles, Tile::kThreads, Tile::kSharedBytes},
      [&] {
        GetParam() == Precision::kFast ? cuda::RunSumChannels<Half>(params)
                                       : cuda::RunSumChannels<float>(params);
      },
      random_);
  for (int tile = 0; tile < kTiles; ++tile) {
    for (int c = 0; c < kChannels; ++c) {
      double expected = 0;
      for (int y = part.y; y < part.bottom(); ++y) {
        for (int x = part.x; x < part.right(); ++x) {
          expected += ChannelSums::Round(inputs[tile].at(c, x, y));
        }
      }
      EXPECT_EQ(static_cast<double>(sums[tile * 16 + c]), expected * (1 << 24)) << "channel " << c;
    }
  }
}

TEST(CountedSumTest, RoundsAsTheHostDoes) {
  std::mt19937 random = FreshRandom();
  const auto units = [](float value) {
    cuda::CountedSum sum;
    sum.Add(value);
    return static_cast<double>(sum.Units());
  };
  const auto expect_same = [&](float value) {
    EXPECT_EQ(units(value), ChannelSums::Round(value) * (1 << 24)) << value;
  };
  for (int i = 0; i < 100'000; ++i) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(any)) expect_same(any);
    const float near = std::ldexp(static_cast<float>(RandomInt(random, -4096, 4096)),
                                  RandomInt(random, -27, 5));  // ties among them
    expect_same(near);
    expect_same(std::nextafter(near, 0.0f));
  }
}

TEST(CountedSumTest, HoldsWhatItPromises) {
  for (const float value : {65536.0f, -65536.0f, std::nanf(""), 0.0625f, -0.0625f, 0.1875f}) {
    cuda::CountedSum sum;
    for (int i = 0; i < cuda::CountedSum::kMaxValues; ++i) sum.Add(value);
    EXPECT_EQ(static_cast<double>(sum.Units()),
              ChannelSums::Round(value) * (1 << 24) * cuda::CountedSum::kMaxValues);
  }
}

TEST_P(CudaKernelTest, MeansBecomeThePooledLayer) {
  Layer layer = MakePlain(Op::kGlobalAveragePool, 11, 11, 1, 0, {0});
  layer.activation = Activation::kRelu;
  const std::vector<float> constants = cuda::PackConstants(layer);
  std::vector<float> means(2 * 16);
  for (float& mean : means) mean = static_cast<float>(RandomInt(random_, -64, 64)) / 16;
  EmulatedTensor dst(11, {1, 1}, {-1, -1, 3, 3}, {0, 0, 1, 1}, 2, GetParam());
  const cuda::LoadMeansParams params{means.data(), dst.view(), cuda::ActivationOf(layer),
                                     constants.data()};
  RunPixels(
      {0, 0, 1, 1}, 2, 2,
      [&] {
        GetParam() == Precision::kFast ? cuda::RunLoadMeans<Half>(params)
                                       : cuda::RunLoadMeans<float>(params);
      },
      random_);
  EXPECT_EQ(dst.WrittenOutside(), 0);
  for (int tile = 0; tile < 2; ++tile) {
    for (int c = 0; c < 11; ++c) {
      EXPECT_EQ(dst.At(tile, c, 0, 0), std::max(means[tile * 16 + c], 0.0f));
    }
  }
}

TEST(HalfBitsTest, RoundToTheNearestHalf) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const float low = HalfToFloat(static_cast<uint16_t>(bits));
    const float high = HalfToFloat(static_cast<uint16_t>(bits + 1)), middle = (low + high) / 2;
    ASSERT_EQ(cuda::FloatToHalfBits(low), bits);
    ASSERT_EQ(cuda::FloatToHalfBits(-low), bits | 0x8000);
    ASSERT_EQ(cuda::FloatToHalfBits(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(cuda::FloatToHalfBits(std::nextafter(middle, 1e9f)), bits + 1);
    ASSERT_EQ(cuda::FloatToHalfBits(middle), bits + bits % 2) << "ties go to even";
  }
}

// An infinity would vanish in a later ReLU or clip.
TEST(HalfBitsTest, WhatLeavesTheRangeIsNoNumberAnyMore) {
  const auto stored = [](float value) {
    Half half;
    cuda::Assign(half, value);
    EXPECT_EQ(half.bits, cuda::FloatToHalfBits(value)) << value;
    return HalfToFloat(half.bits);
  };
  EXPECT_EQ(stored(std::nextafter(65520.0f, 0.0f)), 65504.0f);
  EXPECT_EQ(stored(-65504.0f), -65504.0f);
  for (const float value : {65520.0f, 1e30f, INFINITY, std::nanf("")}) {
    EXPECT_TRUE(std::isnan(stored(value))) << value;
    EXPECT_TRUE(std::isnan(stored(-value))) << -value;
  }
}

}  // namespace
}  // namespace upscaled
