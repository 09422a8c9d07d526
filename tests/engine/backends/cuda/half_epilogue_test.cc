// The epilogue of halves against the general one, with the same bits.
#include "engine/backends/cuda/kernels/half_epilogue.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "engine/backends/cuda/kernels/conv3x3_wgmma_kernel.h"
#include "gmock/gmock.h"
#include "tests/engine/backends/cuda/conv_kernel_fixture.h"
#include "tests/engine/backends/cuda/emulator.h"

namespace upscaled {
namespace {

using cuda::ActivationKind;
using cuda::ConvParams;
using cuda::FusedConv;
using test::Describe;
using test::EmulatedTensor;
using test::MakeConv;
using test::RandomInt;
using test::RandomTensor;
using test::TestedKernel;
using test::TestedKernels;

class HalfEpilogueTest : public test::ConvKernelFixture {
 protected:
  // Values, some large enough for a layer to leave the range of halves.
  reference::Tensor OddTensor(int channels, Size size) {
    reference::Tensor tensor = RandomTensor(channels, size, random_);
    for (const float odd : {65504.0f, -65504.0f, 1e-7f, std::nanf("")}) {
      tensor.values[RandomInt(random_, 0, static_cast<int>(tensor.values.size()) - 1)] = odd;
    }
    test::RoundValues(Precision::kFast, tensor.values);
    return tensor;
  }

  // Compares the first tile.
  static bool HaveEqualBits(const EmulatedTensor& a, const EmulatedTensor& b, int channels,
                            const Rect& rect) {
    for (int c = 0; c < channels; ++c) {
      for (int y = rect.y; y < rect.bottom(); ++y) {
        for (int x = rect.x; x < rect.right(); ++x) {
          if (std::bit_cast<uint32_t>(a.At(0, c, x, y)) !=
              std::bit_cast<uint32_t>(b.At(0, c, x, y))) {
            return false;
          }
        }
      }
    }
    return true;
  }

  // A clip for the general epilogue. On every value it acts as no activation, or as a ReLU.
  static Layer AsClip(Layer layer) {
    constexpr float kMax = std::numeric_limits<float>::max();
    layer.clip_min = layer.activation == Activation::kRelu ? 0.0f : -kMax;
    layer.clip_max = kMax;
    layer.activation = Activation::kClip;
    return layer;
  }
};

TEST_F(HalfEpilogueTest, ActivatesWithTheBitsOfTheGeneralOne) {
  std::uniform_real_distribution<float> any(-4, 4);
  ConvParams params;
  for (const auto kind : {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kSloped}) {
    params.activation.kind = kind;
    for (const float slope : {0.0f, -0.0f, 1.0f, 0.1f, -0.3f, 2.5f, any(random_)}) {
      const int column = RandomInt(random_, 0, 15);
      float constants[2 * cuda::kPlaneConstants] = {};
      float* const own = constants + column / 8 * cuda::kPlaneConstants + column % 8;
      own[0] = RandomInt(random_, 0, 2) == 0 ? 0.0f : any(random_);
      own[cuda::kSlopes] = slope;
      params.constants = constants;
      const cuda::SlopedColumn sloped(params, column);
      for (const float sum : {0.0f, -1e-42f, 1e-42f, -own[0], -3e38f, 3e38f, std::nanf(""),
                              any(random_), any(random_), any(random_)}) {
        const float expected = cuda::Activate(sum + own[0], slope, params.activation);
        ASSERT_EQ(std::bit_cast<uint32_t>(sloped.Apply(sum)), std::bit_cast<uint32_t>(expected))
            << sum << " + " << own[0] << ", slope " << slope << ", kind " << static_cast<int>(kind);
      }
    }
  }
}

// Every kernel with it: tensors in part, batches, residuals of the same or half the resolution (by
// factors for a single tile), transposed and shuffled layers, and values beyond the range of
// halves.
TEST_F(HalfEpilogueTest, StoresTheBitsOfTheGeneralOne) {
  std::vector<Layer> layers = {MakeConv(Op::kConv, 16, 50, 3, 1, 1, random_),
                               MakeConv(Op::kConv, 20, 72, 3, 1, 0, random_),
                               MakeConv(Op::kConv, 8, 27, 3, 1, 1, random_),
                               MakeConv(Op::kConv, 12, 13, 3, 1, 0, random_),
                               MakeConv(Op::kConv, 12, 70, 2, 2, 0, random_),
                               MakeConv(Op::kConvTranspose, 16, 24, 2, 2, 0, random_),
                               MakeConv(Op::kConvTranspose, 9, 20, 4, 2, 3, random_)};
  const Layer shuffle = test::MakePlain(Op::kPixelShuffle, 64, 16, 2, 0, {0});
  const Layer shuffled = MakeConv(Op::kConv, 16, 64, 3, 1, 1, random_);
  layers.push_back(shuffled);
  for (const TestedKernel& kernel : TestedKernels()) {
    if (!kernel.adds_sums || kernel.takes != nullptr) continue;  // these have both
    for (Layer& layer : layers) {
      layer.activation = RandomInt(random_, 0, 1) == 0 ? Activation::kNone : Activation::kRelu;
      const Layer general_layer = AsClip(layer);
      const bool shuffles = &layer == &layers.back();
      const FusedConv fused{&layer, shuffles ? &shuffle : nullptr};
      const FusedConv general{&general_layer, fused.shuffle};
      if (kernel.columns(cuda::ShapeOf(fused)) == 0) continue;
      const Size in{RandomInt(random_, 1, 18) * 2 + 4, RandomInt(random_, 1, 18) * 2 + 4};
      const Size out = OutputSize(fused, in);
      const int tiles = RandomInt(random_, 1, 2), factor = RandomInt(random_, 1, 2);
      std::vector<reference::Tensor> inputs;
      const int channels = cuda::ShapeOf(fused).out_channels;
      const Size residual_size{(out.width + factor - 1) / factor,
                               (out.height + factor - 1) / factor};
      const Rect whole{0, 0, residual_size.width, residual_size.height};
      EmulatedTensor residual(channels, residual_size, whole, whole, tiles, Precision::kFast);
      for (int tile = 0; tile < tiles; ++tile) {
        inputs.push_back(OddTensor(layer.in_channels, in));
        residual.Fill(tile, OddTensor(channels, residual_size), random_);
      }
      const Rect region = RandomRegion(out);
      const EmulatedTensor gate = RandomGate(channels, Precision::kFast);
      for (const bool adds : {false, true}) {
        SCOPED_TRACE(testing::Message() << kernel.name << ", " << Describe(layer) << ", input "
                                        << in.width << "x" << in.height << ", residual " << adds);
        ConvParams params;
        if (adds) params.residual = residual.view();
        params.residual_factor = factor;
        if (adds && tiles == 1) params.residual_gate = gate.view();
        const auto result = Run(kernel, fused, inputs, region, params);
        const auto expected = Run(kernel, general, inputs, region, params);
        // Padding channels of a plane get finite values of any size.
        for (int tile = 0; tile < tiles; ++tile) {
          for (int c = 0; c < channels; ++c) {
            for (int y = region.y; y < region.bottom(); ++y) {
              for (int x = region.x; x < region.right(); ++x) {
                ASSERT_EQ(std::bit_cast<uint32_t>(result->At(tile, c, x, y)),
                          std::bit_cast<uint32_t>(expected->At(tile, c, x, y)))
                    << "channel " << c << " at " << x << ", " << y << " of tile " << tile;
              }
            }
          }
        }
        EXPECT_EQ(result->WrittenOutside(), 0);
      }
    }
  }
}

// Leaves out calls of device.h, one at a time, in the kernels with this epilogue. A fault shows by
// chance: the launch is repeated. conv3x3_wgmma does without SyncWarp here: its lanes meet at each
// stmatrix.
TEST_F(HalfEpilogueTest, FaultsAreNoticed) {
  using Fault = test::PlantedFault;
  constexpr int kIn = 80, kOut = 64;  // more units than stages
  const cuda::Conv3x3WgmmaLayout at({.taps = 3, .in_channels = kIn, .out_channels = kOut});
  const struct {
    const char* name;
    const char* kernel;
    Fault fault;
  } cases[] = {
      {"barriers are used before all threads see them", "conv3x3_wgmma", {Fault::kSyncThreads}},
      {"pixels are not waited for", "conv3x3_wgmma", {Fault::kWaitForPhase, at.full, at.empty}},
      {"a stage is filled before it is empty", "conv3x3_wgmma", {Fault::kWaitForPhase, at.empty}},
      {"a stage is announced before it is full", "conv3x3_wgmma", {Fault::kWaitCopies}},
      {"a stage is never announced", "conv3x3_wgmma", {Fault::kArrive, at.full, at.empty}},
      {"a stage is never given back", "conv3x3_wgmma", {Fault::kArrive, at.empty}},
      {"pixels are multiplied without a fence", "conv3x3_wgmma", {Fault::kFenceForProducts}},
      {"a stage is given back before its products", "conv3x3_wgmma", {Fault::kWaitProducts, 1, 2}},
      {"sums are stored before their products", "conv3x3_wgmma", {Fault::kWaitProducts, 0, 1}},
      {"results are read before all lanes have written them", "conv3x3_mma", {Fault::kSyncWarp}},
      {"a stage is read before it is full", "conv3x3_mma", {Fault::kWaitCopies}},
      {"a stage is filled before it is read", "conv3x3_mma", {Fault::kSyncThreads}},
      {"results are read before all lanes have written them", "im2col_mma", {Fault::kSyncWarp}},
      {"a stage is read before it is full", "im2col_mma", {Fault::kWaitCopies}},
      {"a stage is filled before it is read", "im2col_mma", {Fault::kSyncThreads}},
  };
  const Layer layer = MakeConv(Op::kConv, kIn, kOut, 3, 1, 1, random_);
  const FusedConv fused{&layer};
  const Size size{35, 20};
  const Rect whole{0, 0, size.width, size.height};
  std::vector<reference::Tensor> inputs{RandomTensor(kIn, size, random_)};
  test::RoundValues(Precision::kFast, inputs[0].values);
  for (const auto& tested : cases) {
    SCOPED_TRACE(testing::Message() << tested.kernel << ": " << tested.name);
    const TestedKernel& kernel =
        *std::ranges::find(TestedKernels(), tested.kernel, &TestedKernel::name);
    const auto expected = Run(kernel, fused, inputs, whole);
    bool noticed = false;
    for (int attempt = 0; attempt < 12 && !noticed; ++attempt) {
      noticed = test::IsNoticed(tested.fault, [&] {
        return HaveEqualBits(*Run(kernel, fused, inputs, whole), *expected, kOut, whole);
      });
    }
    EXPECT_TRUE(noticed);
  }
}

// Waits that never end give up: all that was not computed is NaN, and the launch is marked. Whether
// no arrival comes, or all but one: then rounds are counted wrongly from there on.
TEST_F(HalfEpilogueTest, WaitsGiveUpWithNan) {
  constexpr int kIn = 96, kOut = 64;  // two rounds of stages
  const cuda::Conv3x3WgmmaLayout at({.taps = 3, .in_channels = kIn, .out_channels = kOut});
  const TestedKernel& kernel =
      *std::ranges::find(TestedKernels(), "conv3x3_wgmma", &TestedKernel::name);
  const Size size{35, 20};
  const Rect whole{0, 0, size.width, size.height};
  for (const auto activation : {Activation::kRelu, Activation::kSigmoid}) {  // of both epilogues
    Layer layer = MakeConv(Op::kConv, kIn, kOut, 3, 1, 1, random_);
    layer.activation = activation;
    std::vector<reference::Tensor> inputs{RandomTensor(kIn, size, random_)};
    test::RoundValues(Precision::kFast, inputs[0].values);
    uint32_t marked = 0;
    ConvParams right;
    right.gave_up = &marked;
    const auto expected = Run(kernel, {&layer}, inputs, whole, right);
    EXPECT_EQ(marked, 0u);
    std::vector<test::PlantedFault> faults;
    for (const uint32_t first : {at.full, at.empty}) {
      const uint32_t end = first == at.full ? at.empty : at.empty + 64;
      faults.push_back({test::PlantedFault::kArrive, first, end});
      const int arrivals = first == at.full ? 3 * 128 : 2 * 8;  // of the first round
      for (int i = 0; i < 4; ++i) {
        faults.push_back(
            {test::PlantedFault::kArrive, first, end, RandomInt(random_, 0, arrivals - 1)});
      }
    }
    for (const test::PlantedFault& fault : faults) {
      SCOPED_TRACE(testing::Message() << "arrival " << fault.only << " of "
                                      << (fault.first == at.full ? "full" : "empty"));
      std::unique_ptr<EmulatedTensor> result;
      uint32_t gave_up = 0;
      ConvParams params;
      params.gave_up = &gave_up;
      const auto failures =
          test::FailuresWith(fault, [&] { result = Run(kernel, {&layer}, inputs, whole, params); });
      EXPECT_THAT(failures, testing::IsEmpty());
      EXPECT_EQ(gave_up, 1u);
      int nans = 0;
      for (int c = 0; c < kOut; ++c) {
        for (int y = 0; y < size.height; ++y) {
          for (int x = 0; x < size.width; ++x) {
            const float value = result->At(0, c, x, y);
            nans += std::isnan(value);
            ASSERT_TRUE(std::isnan(value) || value == expected->At(0, c, x, y))
                << value << " in channel " << c << " at " << x << ", " << y;
          }
        }
      }
      EXPECT_GT(nans, 0);
    }
  }
}

// stmatrix is the inverse of ldmatrix, and turns a lane's neighbouring pixels into neighbouring
// channels.
TEST_F(HalfEpilogueTest, TurnsMatrices) {
  constexpr int kLanes = cuda::kWarpThreads;
  test::RunEmulated(
      {1, 1, 1, kLanes, 1024},
      [] {
        const int lane = cuda::ThreadIndex();
        const uint32_t row = static_cast<uint32_t>(lane) * 16;
        uint32_t stored[4], loaded[4];
        for (int matrix = 0; matrix < 4; ++matrix) {
          const uint32_t low = matrix * 64 + lane / 4 + lane % 4 * 2 * 8;  // [pixel][channel]
          stored[matrix] = low | (low + 8) << 16;
        }
        cuda::StoreTransposed(row, stored);
        for (uint32_t channel = 0; channel < 8; ++channel) {
          EXPECT_EQ(cuda::SharedAt<const uint16_t>(row)[channel], lane * 8 + channel);
        }
        cuda::LoadTransposed(loaded, row);
        for (int matrix = 0; matrix < 4; ++matrix) EXPECT_EQ(loaded[matrix], stored[matrix]);
      },
      random_);
}

}  // namespace
}  // namespace upscaled
