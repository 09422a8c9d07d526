// Every variant of conv3x3_ws, run thread by thread on the CPU, against the kernels of the same
// sums in the same order: each bit agrees.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cuda/kernels/conv3x3_ws_kernel.h"
#include "engine/backends/cuda/kernels/conv_choice.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/backends/cuda/kernels/ws_launch.h"
#include "gtest/gtest-spi.h"
#include "tests/engine/backends/cuda/conv_kernel_fixture.h"
#include "tests/engine/backends/cuda/emulator.h"

namespace upscaled {
namespace {

using cuda::ConvParams;
using cuda::ConvShape;
using cuda::FusedConv;
using cuda::kWsVariantCount;
using cuda::kWsVariants;
using cuda::WsVariant;
using test::Around;
using test::Describe;
using test::EmulatedTensor;
using test::kHopper;
using test::MakeConv;
using test::PlantedFault;
using test::RandomInt;
using test::RandomTensor;
using test::TestedKernel;

int tested_variant = 0;
int tested_stages = 0;  // 0: any number

constexpr TestedKernel kWs = {
    "conv3x3_ws", Precision::kFast,
    [](const ConvShape& /*shape*/) { return kWsVariants[tested_variant].columns(); },
    &cuda::PackConv3x3Ws,
    [](const ConvParams& params, int /*columns*/, std::mt19937& random) {
      test::RunWsVariant(params, tested_variant, random, tested_stages);
    }};

class Conv3x3WsTest : public test::ConvKernelFixture {
 protected:
  // Returns the kernel that takes such layers without conv3x3_ws.
  static const TestedKernel& Shipped(const ConvShape& shape) {
    const auto kernels = test::TestedKernels();
    return *std::ranges::find_if(kernels, [&](const TestedKernel& kernel) {
      return (kernel.name == "conv3x3_wgmma" || kernel.name == "conv3x3_mma") &&
             kernel.columns(shape) > 0;
    });
  }

  // A layer that the variant fits, of random channels, in at most so many units of 16.
  Layer RandomLayer(const WsVariant& variant, int max_units = WsVariant::kMaxUnits) {
    while (true) {
      const int in = RandomInt(random_, 1, max_units) * 16 - RandomInt(random_, 0, 1) * 8;
      const int out = variant.pairs ? RandomInt(random_, 24, 32)
                                    : RandomInt(random_, 0, 1) * 64 + RandomInt(random_, 48, 64);
      Layer layer = MakeConv(Op::kConv, in, out, 3, 1, RandomInt(random_, 0, 1), random_);
      layer.activation = std::vector{Activation::kNone, Activation::kRelu,
                                     Activation::kPRelu}[RandomInt(random_, 0, 2)];
      layer.slope.resize(out);
      for (float& slope : layer.slope) slope = RandomInt(random_, -8, 8) / 8.0f;
      if (cuda::WsFits(variant, cuda::ShapeOf({&layer}), variant.adds, kHopper.shared_bytes)) {
        return layer;
      }
    }
  }

  // A variant's launch with what it reads, and the result that it is to have.
  struct Launch {
    Layer layer;
    Size in, out;
    Rect region;
    std::vector<reference::Tensor> inputs;
    std::unique_ptr<EmulatedTensor> residual;
    ConvParams params;
    std::unique_ptr<EmulatedTensor> expected;
  };

  // `is_whole`: the whole result of a layer of few channels, or any part of it.
  Launch MakeLaunch(int index, Size in, int tiles, bool is_whole) {
    const WsVariant& variant = kWsVariants[index];
    Launch launch{.layer = RandomLayer(variant, is_whole ? 5 : WsVariant::kMaxUnits), .in = in};
    const FusedConv fused{&launch.layer};
    launch.out = OutputSize(fused, in);
    const int channels = launch.layer.out_channels;
    const Rect whole{0, 0, launch.out.width, launch.out.height};
    launch.region = is_whole ? whole : RandomRegion(launch.out);
    launch.residual = std::make_unique<EmulatedTensor>(channels, launch.out, Around(whole), whole,
                                                       tiles, Precision::kFast);
    for (int tile = 0; tile < tiles; ++tile) {
      launch.inputs.push_back(RandomTensor(launch.layer.in_channels, in, random_));
      test::RoundValues(Precision::kFast, launch.inputs.back().values);
      launch.residual->Fill(tile, RandomTensor(channels, launch.out, random_), random_);
    }
    if (variant.adds) launch.params.residual = launch.residual->view();
    launch.expected =
        Run(Shipped(cuda::ShapeOf(fused)), fused, launch.inputs, launch.region, launch.params);
    return launch;
  }

  // Runs the variant; whether it wrote every expected bit and nothing else.
  bool IsRight(int index, const Launch& launch) {
    tested_variant = index;
    const FusedConv fused{&launch.layer};
    const auto result = Run(kWs, fused, launch.inputs, launch.region, launch.params);
    if (result->WrittenOutside() != 0) return false;
    const Rect& region = launch.region;
    for (int tile = 0; tile < static_cast<int>(launch.inputs.size()); ++tile) {
      for (int c = 0; c < launch.layer.out_channels; ++c) {
        for (int y = region.y; y < region.bottom(); ++y) {
          for (int x = region.x; x < region.right(); ++x) {
            if (std::bit_cast<uint32_t>(result->At(tile, c, x, y)) !=
                std::bit_cast<uint32_t>(launch.expected->At(tile, c, x, y))) {
              wrong_ = (testing::Message()
                        << "channel " << c << " at " << x << ", " << y << " of tile " << tile)
                           .GetString();
              return false;
            }
          }
        }
      }
    }
    return true;
  }

  void Check(int index, Size in, int tiles) {
    const Launch launch = MakeLaunch(index, in, tiles, /*is_whole=*/false);
    const Rect& region = launch.region;
    EXPECT_TRUE(IsRight(index, launch))
        << wrong_ << ": variant " << index << ", " << Describe(launch.layer) << ", input "
        << in.width << "x" << in.height << ", region " << region.width << "x" << region.height
        << " at " << region.x << ", " << region.y << ", " << tiles << " tiles";
  }

  // Whether the result is wrong, or the emulator finds fault.
  bool IsNoticed(int index, const Launch& launch, const PlantedFault& fault) {
    testing::TestPartResultArray failures;
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    test::Plant(fault);
    const bool right = IsRight(index, launch);
    test::Plant({});
    return !right || failures.size() > 0;
  }

 private:
  std::string wrong_;
};

// Odd sizes, several tiles a block, more stages and fewer.
TEST_F(Conv3x3WsTest, EveryVariantGivesTheBitsOfTheShippedKernels) {
  for (int index = 0; index < kWsVariantCount; ++index) {
    const int height = kWsVariants[index].height();
    Check(index, {RandomInt(random_, 20, 37), RandomInt(random_, height + 3, height + 9)},
          RandomInt(random_, 1, 2));
    if (HasFailure()) return;
    Check(index, {RandomInt(random_, 3, 20), RandomInt(random_, 3, 25)}, RandomInt(random_, 1, 4));
    if (HasFailure()) return;
  }
}

// Each call of device.h that keeps copies, products and stores apart is left out once. A fault
// shows by chance: the launch is repeated.
TEST_F(Conv3x3WsTest, FaultsAreNoticed) {
  using Fault = PlantedFault;
  struct Case {
    const char* name;
    int variant;  // of kWsVariants
    std::function<Fault(const cuda::WsBarriers& at)> fault;
  };
  constexpr int kPlain = 3, kAdds = 4, kTogether = 7, kPairs = 12;
  const auto call = [](Fault::Call call) {
    return [call](const cuda::WsBarriers&) { return Fault{call}; };
  };
  const auto full = [](Fault::Call call) {
    return [call](const cuda::WsBarriers& at) { return Fault{call, at.full, at.empty}; };
  };
  const auto empty = [](Fault::Call call) {
    return [call](const cuda::WsBarriers& at) { return Fault{call, at.empty, at.weights}; };
  };
  const auto weights = [](Fault::Call call) {
    return [call](const cuda::WsBarriers& at) { return Fault{call, at.weights, at.turn}; };
  };
  const Case cases[] = {
      {"barriers are used before all threads see them", kPlain, call(Fault::kSyncThreads)},
      {"barriers are hidden from the engine", kPlain, call(Fault::kFenceBarriers)},
      {"pixels are not waited for", kPlain, full(Fault::kWaitForPhase)},
      {"too few bytes of pixels are expected", kTogether, full(Fault::kExpectBytes)},
      {"a stage is filled before it is empty", kPlain, empty(Fault::kWaitForPhase)},
      {"a stage is never given back", kTogether, empty(Fault::kArrive)},
      {"a stage is given back before its products are done", kPlain,
       [](const cuda::WsBarriers&) {
         return Fault{Fault::kWaitProducts, 1, 2};
       }},
      {"sums are stored before products are done", kPlain,
       [](const cuda::WsBarriers&) {
         return Fault{Fault::kWaitProducts, 0, 1};
       }},
      {"weights are not waited for", kPlain, weights(Fault::kWaitForPhase)},
      {"too few bytes of weights are expected", kPlain, weights(Fault::kExpectBytes)},
      {"the turn is not passed on", kPlain,
       [](const cuda::WsBarriers& at) {
         return Fault{Fault::kArrive, at.turn, at.residual};
       }},
      {"the residual is not waited for", kAdds,
       [](const cuda::WsBarriers& at) {
         return Fault{Fault::kWaitForPhase, at.residual};
       }},
      {"the residual comes before the last result is read", kAdds, call(Fault::kWaitStoresRead)},
      {"staging is overwritten before it is read", kPlain, call(Fault::kWaitStoresRead)},
      {"staging is read without a fence", kPlain, call(Fault::kFenceForProducts)},
      {"two warps share staging without a meeting", kPairs, call(Fault::kSyncWarps)},
      {"the block ends before its stores", kTogether, call(Fault::kWaitStores)},
  };
  for (const Case& tested : cases) {
    const WsVariant& variant = kWsVariants[tested.variant];
    bool noticed = false;
    for (int attempt = 0; attempt < 12 && !noticed; ++attempt) {
      // Several tiles for each group, more units than stages.
      const Launch launch = MakeLaunch(
          tested.variant, {variant.width() * 4 + 2, variant.height() + 3}, 2, /*is_whole=*/true);
      tested_stages = WsVariant::kMinStages;
      const cuda::WsParams params{.units = (launch.layer.in_channels + 15) / 16,
                                  .stages = tested_stages};
      noticed = IsNoticed(tested.variant, launch, tested.fault(cuda::WsBarriers(variant, params)));
      tested_stages = 0;
    }
    EXPECT_TRUE(noticed) << tested.name;
  }
}

// Zeros of pairs spread a NaN to one row more. In regions of whole pairs it reaches the same
// pixels.
TEST_F(Conv3x3WsTest, NanReachesTheSamePixelsInEveryRegionOfWholePairs) {
  for (int index = 0; index < kWsVariantCount; ++index) {
    if (!kWsVariants[index].pairs || kWsVariants[index].adds) continue;
    tested_variant = index;
    const Layer layer = RandomLayer(kWsVariants[index]);
    const FusedConv fused{&layer};
    const Size in{RandomInt(random_, 9, 20), RandomInt(random_, 9, 30)};
    std::vector<reference::Tensor> inputs{RandomTensor(layer.in_channels, in, random_)};
    for (int i = 0; i < 6; ++i) {
      inputs[0].values[RandomInt(random_, 0, static_cast<int>(in.Area()) - 1)] = std::nanf("");
    }
    test::RoundValues(Precision::kFast, inputs[0].values);
    const Size out = OutputSize(fused, in);
    const Rect whole{0, 0, out.width, out.height};
    const int block = cuda::Conv3x3WsBlock(cuda::ShapeOf(fused), kHopper);
    EXPECT_EQ(block, 2);
    const auto all = Run(kWs, fused, inputs, whole);
    for (int i = 0; i < 4; ++i) {
      const Rect part = Intersect(RoundToBlocks(RandomRegion(out), block, {}), whole);
      const auto of_part = Run(kWs, fused, inputs, part);
      EXPECT_EQ(of_part->WrittenOutside(), 0);
      for (int y = part.y; y < part.bottom(); ++y) {
        for (int x = part.x; x < part.right(); ++x) {
          ASSERT_EQ(std::bit_cast<uint32_t>(all->At(0, 0, x, y)),
                    std::bit_cast<uint32_t>(of_part->At(0, 0, x, y)))
              << "variant " << index << " at " << x << ", " << y;
        }
      }
    }
  }
}

// Whether the host takes what suits the sizes of images, layer by layer.
TEST(WsLaunchTest, ChoosesByRoundsAndHeight) {
  const auto chosen = [](int in, int out, Size size, bool adds = false, int tiles = 1) {
    ConvParams params;
    params.shape = {.taps = 3, .offset = -1, .in_channels = in, .out_channels = out};
    params.dst.region = {0, 0, size.width, size.height};
    params.tiles = tiles;
    if (adds) params.residual.data = &params;
    return cuda::ChooseWsVariant(params, kHopper);
  };
  const auto variant = [&](int in, int out, Size size, bool adds = false, int tiles = 1) {
    const int index = chosen(in, out, size, adds, tiles);
    return index < 0 ? WsVariant{.rows = 0} : kWsVariants[index];
  };
  EXPECT_EQ(variant(64, 64, {480, 270}), (WsVariant{.rows = 25}));
  EXPECT_EQ(variant(64, 64, {240, 135}, false, 4), (WsVariant{.rows = 27}));
  EXPECT_EQ(variant(128, 128, {1924, 1084}).staged_planes, 1);
  EXPECT_TRUE(variant(192, 64, {480, 270}, true).together);
  EXPECT_TRUE(variant(256, 64, {480, 270}).together);
  EXPECT_EQ(variant(96, 32, {480, 270}), (WsVariant{.rows = 23, .pairs = true}));
  EXPECT_EQ(variant(160, 32, {480, 270}),
            (WsVariant{.rows = 23, .pairs = true, .staged_planes = 1}));
  EXPECT_EQ(chosen(160, 32, {480, 270}, true), -1);  // no room
  EXPECT_EQ(chosen(64, 40, {480, 270}), -1);         // too many columns for nothing
  EXPECT_EQ(chosen(64, 3, {480, 270}), -1);
  EXPECT_EQ(chosen(272, 64, {480, 270}), -1);
}

}  // namespace
}  // namespace upscaled
