// Every convolution kernel, run thread by thread on the CPU, against the reference: sizes around
// its blocks, every edge, regions anywhere in the layer, batches, and what is fused into it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "engine/backends/cuda/kernels/columns_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_wgmma_kernel.h"
#include "engine/backends/cuda/kernels/conv_choice.h"
#include "engine/backends/cuda/kernels/im2col_ffma_kernel.h"
#include "engine/backends/cuda/kernels/im2col_mma_kernel.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/backends/reference/layers.h"
#include "engine/graph/tile_geometry.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/emulated_tensor.h"
#include "tests/engine/backends/cuda/emulator.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cuda::BlockGrid;
using cuda::ConvParams;
using cuda::ConvShape;
using cuda::DeviceLimits;
using cuda::FusedConv;
using cuda::PackedConv;
using test::Describe;
using test::EmulatedTensor;
using test::FreshRandom;
using test::MakeConv;
using test::MakePlain;
using test::OutputSide;
using test::RandomInt;
using test::RandomTensor;
using test::RunEmulated;

constexpr DeviceLimits kHopper{90, 132, 232448};

// A kernel as it is launched, block by block.
struct TestedKernel {
  std::string_view name;
  Precision precision;
  int (*columns)(const ConvShape& shape);  // 0: not supported
  PackedConv (*pack)(const FusedConv& layers, int columns);
  void (*run)(const ConvParams& params, int columns, std::mt19937& random);
};

template <typename Run>
void RunBlocks(const ConvParams& params, int width, int height, int columns, int threads,
               size_t shared_bytes, bool persistent, std::mt19937& random, const Run& run) {
  const BlockGrid grid = cuda::MakeBlockGrid(params, width, height);
  const int blocks = persistent ? RandomInt(random, 1, grid.count) : grid.count;
  const int column_blocks = columns == 0 ? 1 : (params.shape.Columns() + columns - 1) / columns;
  RunEmulated(
      {blocks, column_blocks, 1, threads, shared_bytes}, [&] { run(params, grid); }, random);
}

template <int kColumns>
void RunConv3x3Mma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::Conv3x3Mma;
  RunBlocks(params, Tile::kWidth, Tile::kHeight, kColumns, Tile::kThreads,
            Tile::SharedBytes(params.shape, kColumns), true, random,
            &cuda::RunConv3x3Mma<kColumns>);
}

template <int kColumns>
void RunIm2colMma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::Im2colMma;
  RunBlocks(params, Tile::kWidth, Tile::kHeight, kColumns, Tile::kThreads,
            cuda::Im2colSharedBytes<kColumns>(), false, random, &cuda::RunIm2colMma<kColumns>);
}

template <int kColumns>
void RunColumnsMma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::ColumnsMma;
  RunBlocks(params, Tile::Groups(params.shape, Tile::kWidth),
            Tile::Groups(params.shape, Tile::kHeight), 0, Tile::kThreads,
            Tile::SharedBytes(kColumns), false, random, &cuda::RunColumnsMma<kColumns>);
}

template <typename Storage, int kColumns>
void RunIm2colFfma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::Im2colFfma<kColumns>;
  RunBlocks(params, Tile::kWidth, Tile::kHeight, kColumns, Tile::kThreads, Tile::kSharedBytes,
            false, random, &cuda::RunIm2colFfma<Storage, kColumns>);
}

template <typename Storage>
void RunIm2colFfma(const ConvParams& params, int columns, std::mt19937& random) {
  columns == 64 ? RunIm2colFfma<Storage, 64>(params, random)
                : RunIm2colFfma<Storage, 16>(params, random);
}

const TestedKernel kKernels[] = {
    {"columns_mma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::ColumnsMmaColumns(shape, kHopper); },
     &cuda::PackColumnsMma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       columns == 48 ? RunColumnsMma<48>(params, random) : RunColumnsMma<32>(params, random);
     }},
    {"conv3x3_wgmma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Conv3x3WgmmaColumns(shape, kHopper); },
     [](const FusedConv& layers, int) { return cuda::PackConv3x3Wgmma(layers); },
     [](const ConvParams& params, int columns, std::mt19937& random) {
       using Tile = cuda::Conv3x3Wgmma;
       RunBlocks(params, Tile::kWidth, Tile::kHeight, columns, Tile::kThreads,
                 Tile::SharedBytes(params.shape), true, random, &cuda::RunConv3x3Wgmma);
     }},
    {"conv3x3_mma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Conv3x3MmaColumns(shape, kHopper); },
     &cuda::PackConv3x3Mma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       columns == 64   ? RunConv3x3Mma<64>(params, random)
       : columns == 32 ? RunConv3x3Mma<32>(params, random)
                       : RunConv3x3Mma<16>(params, random);
     }},
    {"im2col_mma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Im2colMmaColumns(shape, kHopper); },
     &cuda::PackIm2colMma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       columns == 64 ? RunIm2colMma<64>(params, random) : RunIm2colMma<16>(params, random);
     }},
    {"im2col_ffma", Precision::kExact,
     [](const ConvShape& shape) { return cuda::Im2colFfmaColumns(shape); }, &cuda::PackIm2colFfma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       RunIm2colFfma<float>(params, columns, random);
     }},
    {"im2col_ffma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Im2colFfmaColumns(shape); }, &cuda::PackIm2colFfma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       RunIm2colFfma<cuda::Half>(params, columns, random);
     }},
};

// Values are of size 1. Sums are fp32; halves round to one part in 2048.
float Tolerance(Precision precision) { return precision == Precision::kFast ? 4e-3f : 1e-4f; }

// 16-byte aligned, as the device's memory is.
template <typename T>
class AlignedCopy {
 public:
  explicit AlignedCopy(const std::vector<T>& values)
      : units_(values.size() * sizeof(T) / sizeof(Unit) + 1) {
    std::memcpy(units_.data(), values.data(), values.size() * sizeof(T));
  }
  const T* data() const { return reinterpret_cast<const T*>(units_.data()); }

 private:
  struct alignas(16) Unit {
    unsigned char bytes[16];
  };
  std::vector<Unit> units_;
};

Rect Around(const Rect& rect) { return Expand(rect, 2); }

class ConvKernelTest : public testing::Test {
 protected:
  std::mt19937 random_ = FreshRandom();

  static Size OutputSize(const FusedConv& layers, Size in) {
    Size out{OutputSide(*layers.conv, in.width), OutputSide(*layers.conv, in.height)};
    if (layers.shuffle != nullptr) {
      out = {out.width * layers.shuffle->factor, out.height * layers.shuffle->factor};
    }
    return out;
  }

  Rect RandomRegion(Size size) {
    const int x = RandomInt(random_, 0, size.width - 1);
    const int y = RandomInt(random_, 0, size.height - 1);
    return {x, y, RandomInt(random_, 1, size.width - x), RandomInt(random_, 1, size.height - y)};
  }

  // What computing `out` reads of the layer, at least one pixel.
  static Rect RegionRead(const FusedConv& layers, const Rect& out, Size in) {
    Rect of_conv = out;
    if (layers.shuffle != nullptr) {
      const int factor = layers.shuffle->factor;
      of_conv = {out.x / factor, out.y / factor, (out.right() - 1) / factor - out.x / factor + 1,
                 (out.bottom() - 1) / factor - out.y / factor + 1};
    }
    const PixelRange x = InputRange(*layers.conv, {of_conv.x, of_conv.right() - 1}, in.width);
    const PixelRange y = InputRange(*layers.conv, {of_conv.y, of_conv.bottom() - 1}, in.height);
    return Intersect({x.first, y.first, x.last - x.first + 1, y.last - y.first + 1},
                     {0, 0, in.width, in.height});
  }

  static reference::Tensor Expected(const FusedConv& layers, const reference::Tensor& input,
                                    Size out) {
    const Size conv_size{OutputSide(*layers.conv, input.layer.width),
                         OutputSide(*layers.conv, input.layer.height)};
    reference::Tensor result({0, 0, conv_size.width, conv_size.height}, layers.conv->out_channels);
    const reference::Tensor* inputs[] = {&input};
    reference::ComputeLayer(*layers.conv, inputs, result);
    if (layers.shuffle == nullptr) return result;
    reference::Tensor shuffled({0, 0, out.width, out.height}, layers.shuffle->out_channels);
    const reference::Tensor* plain[] = {&result};
    reference::ComputeLayer(*layers.shuffle, plain, shuffled);
    return shuffled;
  }

  // Runs the kernel for `region` and returns what it wrote.
  std::unique_ptr<EmulatedTensor> Run(const TestedKernel& kernel, const FusedConv& layers,
                                      const std::vector<reference::Tensor>& inputs,
                                      const Rect& region, ConvParams params = {}) {
    const ConvShape shape = cuda::ShapeOf(layers);
    const int columns = kernel.columns(shape), tiles = static_cast<int>(inputs.size());
    const PackedConv packed = kernel.pack(layers, columns);
    const AlignedCopy weights(packed.weights);
    const AlignedCopy constants(packed.constants);
    const Size in = inputs[0].layer, out = OutputSize(layers, in);
    const Rect read = RegionRead(layers, region, in);
    EmulatedTensor src(layers.conv->in_channels, in, Around(read), read, tiles, kernel.precision);
    for (int tile = 0; tile < tiles; ++tile) src.Fill(tile, inputs[tile], random_);
    auto dst = std::make_unique<EmulatedTensor>(shape.out_channels, out, Around(region), region,
                                                tiles, kernel.precision);
    params.shape = shape;
    params.src = src.view();
    params.dst = dst->view();
    params.tiles = tiles;
    params.weights = weights.data();
    params.constants = constants.data();
    params.activation = cuda::ActivationOf(layers);
    kernel.run(params, columns, random_);
    return dst;
  }

  void Check(const TestedKernel& kernel, const FusedConv& layers, Size in, int tiles = 1) {
    const Size out = OutputSize(layers, in);
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(testing::Message()
                 << kernel.name << " " << PrecisionName(kernel.precision) << ", "
                 << Describe(*layers.conv) << (layers.shuffle ? " shuffled" : "") << ", input "
                 << in.width << "x" << in.height << ", " << tiles << " tiles");
    std::vector<reference::Tensor> inputs;
    for (int tile = 0; tile < tiles; ++tile) {
      inputs.push_back(RandomTensor(layers.conv->in_channels, in, random_));
      test::RoundValues(kernel.precision, inputs.back().values);
    }
    const Rect whole{0, 0, out.width, out.height}, part = RandomRegion(out);
    const auto result = Run(kernel, layers, inputs, whole);
    const auto part_result = Run(kernel, layers, inputs, part);
    EXPECT_EQ(result->WrittenOutside(), 0);
    EXPECT_EQ(part_result->WrittenOutside(), 0);
    for (int tile = 0; tile < tiles; ++tile) {
      const reference::Tensor expected = Expected(layers, inputs[tile], out);
      for (int c = 0; c < expected.channels; ++c) {
        for (int y = 0; y < out.height; ++y) {
          for (int x = 0; x < out.width; ++x) {
            const float value = expected.at(c, x, y);
            const float near = Tolerance(kernel.precision) * std::max(1.0f, std::abs(value));
            ASSERT_NEAR(result->At(tile, c, x, y), value, near)
                << "channel " << c << " at " << x << ", " << y << " of tile " << tile;
            if (!cuda::IsInside(part, x, y)) continue;
            ASSERT_EQ(part_result->At(tile, c, x, y), result->At(tile, c, x, y))
                << "computed in " << part.width << "x" << part.height << " at " << part.x << ", "
                << part.y;
          }
        }
      }
    }
  }
};

std::vector<FusedConv> SupportedBy(const TestedKernel& kernel, const std::vector<Layer>& layers) {
  std::vector<FusedConv> supported;
  for (const Layer& layer : layers) {
    const FusedConv fused{&layer};
    if (cuda::IsFusable(fused) && kernel.columns(cuda::ShapeOf(fused)) > 0) {
      supported.push_back(fused);
    }
  }
  EXPECT_FALSE(supported.empty()) << kernel.name << " supports none of the layers";
  return supported;
}

// Some of the tested layers each time: a kernel takes seconds here.
TEST_F(ConvKernelTest, AgreeWithTheReference) {
  constexpr size_t kLayersOfEach = 6;
  const std::vector<Layer> layers = test::TestedLayers(random_);
  for (const TestedKernel& kernel : kKernels) {
    std::vector<FusedConv> supported = SupportedBy(kernel, layers);
    std::shuffle(supported.begin(), supported.end(), random_);
    supported.resize(std::min(supported.size(), kLayersOfEach));
    for (const FusedConv& fused : supported) {
      Check(kernel, fused, {RandomInt(random_, 1, 36), RandomInt(random_, 1, 18)});
      if (HasFailure()) return;
    }
  }
}

// Several rectangles a block, several blocks of columns, several tiles of a batch.
TEST_F(ConvKernelTest, LargerLayersAndBatches) {
  const std::vector<Layer> layers = {MakeConv(Op::kConv, 40, 72, 3, 1, 1, random_),
                                     MakeConv(Op::kConv, 16, 128, 3, 1, 0, random_),
                                     MakeConv(Op::kConv, 100, 3, 3, 1, 1, random_),
                                     MakeConv(Op::kConvTranspose, 40, 3, 4, 2, 3, random_),
                                     MakeConv(Op::kConvTranspose, 24, 40, 2, 2, 0, random_)};
  for (const TestedKernel& kernel : kKernels) {
    const std::vector<FusedConv> supported = SupportedBy(kernel, layers);
    if (HasFailure()) return;
    const int any = RandomInt(random_, 0, static_cast<int>(supported.size()) - 1);
    Check(kernel, supported[any], {RandomInt(random_, 33, 36), RandomInt(random_, 17, 20)}, 2);
    if (HasFailure()) return;
  }
}

TEST_F(ConvKernelTest, ShufflesPixels) {
  for (const TestedKernel& kernel : kKernels) {
    if (kernel.name == "columns_mma") continue;  // stores one pixel of few channels
    for (const auto& [channels, factor] : {std::pair{3, 2}, {3, 4}, {1, 3}, {12, 2}}) {
      Layer conv = MakeConv(Op::kConv, 20, channels * factor * factor, 3, 1, 1, random_);
      Layer shuffle = MakePlain(Op::kPixelShuffle, conv.out_channels, channels, factor, 0, {0});
      Layer& activated = RandomInt(random_, 0, 1) == 0 ? conv : shuffle;
      activated.activation = Activation::kPRelu;
      activated.slope.resize(activated.out_channels);
      for (float& slope : activated.slope) slope = RandomInt(random_, -8, 8) / 8.0f;
      const FusedConv fused{&conv, &shuffle};
      ASSERT_TRUE(cuda::IsFusable(fused));
      if (kernel.columns(cuda::ShapeOf(fused)) == 0) continue;
      Check(kernel, fused, {RandomInt(random_, 1, 35), RandomInt(random_, 1, 18)});
      if (HasFailure()) return;
    }
  }
}

TEST(FusedConvTest, RefusesWhatDoesNotFit) {
  std::mt19937 random = FreshRandom();
  Layer conv = MakeConv(Op::kConv, 8, 12, 3, 1, 1, random);
  Layer transposed = MakeConv(Op::kConvTranspose, 8, 12, 4, 2, 1, random);
  Layer shuffle = MakePlain(Op::kPixelShuffle, 12, 3, 2, 0, {0});
  EXPECT_TRUE(cuda::IsFusable({&conv, &shuffle}));
  EXPECT_TRUE(cuda::IsFusable({&transposed}));
  EXPECT_FALSE(cuda::IsFusable({&transposed, &shuffle}));
  EXPECT_FALSE(cuda::IsFusable({&shuffle}));
  conv.activation = shuffle.activation = Activation::kRelu;
  EXPECT_FALSE(cuda::IsFusable({&conv, &shuffle}));
}

// A residual of half the resolution, and samples instead of a tensor.
TEST_F(ConvKernelTest, AddsResidualsAndStoresSamples) {
  constexpr int kFactor = 2;
  const Layer last = MakeConv(Op::kConv, 16, 3, 3, 1, 1, random_);
  const Layer before = MakeConv(Op::kConv, 16, 3 * kFactor * kFactor, 3, 1, 1, random_);
  const Layer shuffle = MakePlain(Op::kPixelShuffle, before.out_channels, 3, kFactor, 0, {0});
  for (const TestedKernel& kernel : kKernels) {
    const bool shuffles = kernel.name != "columns_mma";
    const FusedConv fused = shuffles ? FusedConv{&before, &shuffle} : FusedConv{&last};
    if (kernel.columns(cuda::ShapeOf(fused)) == 0) continue;
    SCOPED_TRACE(testing::Message() << kernel.name << " " << PrecisionName(kernel.precision));
    const Size in{RandomInt(random_, 3, 34) * kFactor, RandomInt(random_, 3, 9) * kFactor};
    const Size out = OutputSize(fused, in), half{out.width / kFactor, out.height / kFactor};
    std::vector<reference::Tensor> inputs{RandomTensor(16, in, random_)};
    reference::Tensor residual = RandomTensor(3, half, random_);
    test::RoundValues(kernel.precision, inputs[0].values);
    test::RoundValues(kernel.precision, residual.values);
    const Rect region = RandomRegion(out), whole{0, 0, half.width, half.height};
    EmulatedTensor residual_tensor(3, half, whole, whole, 1, kernel.precision);
    residual_tensor.Fill(0, residual, random_);

    std::vector<uint8_t> samples(region.Area() * 3);
    ConvParams params;
    params.residual = residual_tensor.view();
    params.residual_factor = kFactor;
    params.samples = {samples.data(), cuda::SampleKind::kU8, 3, region, 0};
    Run(kernel, fused, inputs, region, params);
    const reference::Tensor plain = Expected(fused, inputs[0], out);
    for (int y = region.y; y < region.bottom(); ++y) {
      for (int x = region.x; x < region.right(); ++x) {
        for (int c = 0; c < 3; ++c) {
          const float value = plain.at(c, x, y) + residual.at(c, x / kFactor, y / kFactor);
          const float sample = std::clamp(value, 0.0f, 1.0f) * 255;
          ASSERT_NEAR(samples[cuda::SampleIndex(params.samples, 0, x, y) + c], sample,
                      0.5f + 255 * Tolerance(kernel.precision))
              << "channel " << c << " at " << x << ", " << y;
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
