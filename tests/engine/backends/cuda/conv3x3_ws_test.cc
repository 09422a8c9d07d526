// Every variant of conv3x3_ws, run thread by thread on the CPU, against the kernels of the same
// sums in the same order: each bit agrees.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backends/cuda/kernels/conv3x3_ws_kernel.h"
#include "engine/backends/cuda/kernels/conv_choice.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/backends/cuda/kernels/ws_launch.h"
#include "gmock/gmock.h"
#include "tests/engine/backends/cuda/conv_kernel_fixture.h"
#include "tests/engine/backends/cuda/emulator.h"

namespace upscaled {
namespace {

using cuda::ConvParams;
using cuda::ConvShape;
using cuda::FusedConv;
using cuda::kWsVariantCount;
using cuda::kWsVariants;
using cuda::WsResult;
using cuda::WsVariant;
using test::Around;
using test::Describe;
using test::EmulatedTensor;
using test::kHopper;
using test::MakeConv;
using test::MakePlain;
using test::PlantedFault;
using test::RandomInt;
using test::RandomTensor;
using test::TestedKernel;

int tested_variant = 0;
int tested_stages = 0;  // 0: any number

constexpr TestedKernel kWs = {
    "conv3x3_ws", Precision::kFast,
    [](const ConvShape& /*shape*/) { return kWsVariants[tested_variant].columns(); },
    [](const FusedConv& layers, int /*columns*/) {
      return cuda::PackConv3x3Ws(layers, kWsVariants[tested_variant]);
    },
    [](const ConvParams& params, int /*columns*/, std::mt19937& random) {
      test::RunWsVariant(params, tested_variant, random, tested_stages);
    }};

// A layer with the shuffle of its result, if there is one.
struct Layers {
  Layer conv;
  std::optional<Layer> shuffle;

  FusedConv fused() const { return {&conv, shuffle.has_value() ? &*shuffle : nullptr}; }
  ConvShape shape() const { return cuda::ShapeOf(fused()); }
};

// The results of a launch, in memory with any values before.
struct Written {
  std::unique_ptr<EmulatedTensor> tensor;
  std::vector<uint8_t> samples;
  std::vector<uint32_t> lost;  // a mark for each tile
  std::vector<int64_t> sums;
  uint32_t gave_up = 0;
};

class Conv3x3WsTest : public test::ConvKernelFixture {
 protected:
  // Returns the kernel for such layers without conv3x3_ws, with the same sums.
  static const TestedKernel& Shipped(const ConvShape& shape) {
    const auto kernels = test::TestedKernels();
    const auto find = [&](std::string_view name) {
      return std::ranges::find_if(kernels, [&](const TestedKernel& kernel) {
        return kernel.name == name && kernel.columns(shape) > 0;
      });
    };
    auto found = find("conv3x3_wgmma");
    if (found == kernels.end()) found = find("conv3x3_mma");
    return *(found == kernels.end() ? find("im2col_mma") : found);
  }

  // Layers for the variant, of random channels, in at most this many units of 16.
  Layers RandomLayers(const WsVariant& variant, int max_units = WsVariant::kMaxUnits) {
    while (true) {
      const int in = RandomInt(random_, 1, max_units) * 16 - RandomInt(random_, 0, 1) * 8;
      Layers layers;
      switch (variant.result) {
        case WsResult::kPlanes: {
          const int out = variant.pixels == 2
                              ? RandomInt(random_, 24, 32)
                              : RandomInt(random_, 0, 1) * 64 + RandomInt(random_, 48, 64);
          layers.conv = MakeConv(Op::kConv, in, out, 3, 1, RandomInt(random_, 0, 1), random_);
          break;
        }
        case WsResult::kThin: {
          const int factor = variant.pixels == 8 ? 1 : variant.pixels == 4 ? 2 : 4;
          const int out = RandomInt(random_, 1, 4), wide = out * factor * factor;
          layers.conv = MakeConv(Op::kConv, in, wide, 3, 1, RandomInt(random_, 0, 1), random_);
          if (factor > 1) layers.shuffle = MakePlain(Op::kPixelShuffle, wide, out, factor, 0, {0});
          break;
        }
        case WsResult::kEnlarged: {
          const int out = RandomInt(random_, 1, 3) * 32 - RandomInt(random_, 0, 7);
          layers.conv = MakeConv(Op::kConvTranspose, in, out, 2, 2, 0, random_);
        }
      }
      Layer& conv = layers.conv;
      conv.activation = std::vector{Activation::kNone, Activation::kRelu,
                                    Activation::kPRelu}[RandomInt(random_, 0, 2)];
      conv.slope.resize(conv.out_channels);
      for (float& slope : conv.slope) slope = RandomInt(random_, -8, 8) / 8.0f;
      if (cuda::WsFits(variant, layers.shape(), variant.adds, kHopper.shared_bytes)) return layers;
    }
  }

  // A variant's launch with its inputs, and the expected results.
  struct Launch {
    Layers layers;
    Size in, out;
    Rect region;
    std::vector<reference::Tensor> inputs;
    std::unique_ptr<EmulatedTensor> residual, gate;
    ConvParams params;
    Written expected;
  };

  // `is_whole`: the whole result of a layer of few channels, or any part of it.
  Launch MakeLaunch(int index, Size in, int tiles, bool is_whole) {
    const WsVariant& variant = kWsVariants[index];
    const bool thin = variant.result == WsResult::kThin;
    Launch launch{.layers = RandomLayers(variant, is_whole ? 5 : WsVariant::kMaxUnits), .in = in};
    const FusedConv fused = launch.layers.fused();
    launch.out = OutputSize(fused, in);
    const int channels = launch.layers.shape().out_channels;
    const Rect whole{0, 0, launch.out.width, launch.out.height};
    launch.region = is_whole ? whole : RandomRegion(launch.out);
    ConvParams& params = launch.params;
    if (thin) params.residual_factor = RandomInt(random_, 1, 2);
    const Size added{CeilDiv(launch.out.width, params.residual_factor),
                     CeilDiv(launch.out.height, params.residual_factor)};
    const Rect whole_added{0, 0, added.width, added.height};
    launch.residual = std::make_unique<EmulatedTensor>(channels, added, Around(whole_added),
                                                       whole_added, tiles, Precision::kFast);
    for (int tile = 0; tile < tiles; ++tile) {
      launch.inputs.push_back(RandomTensor(launch.layers.conv.in_channels, in, random_));
      test::RoundValues(Precision::kFast, launch.inputs.back().values);
      launch.residual->Fill(tile, RandomTensor(channels, added, random_), random_);
    }
    const bool adds = thin ? RandomInt(random_, 0, 1) == 1 : variant.adds;
    if (adds) params.residual = launch.residual->view();
    if (adds && tiles == 1) {
      launch.gate = std::make_unique<EmulatedTensor>(RandomGate(channels, Precision::kFast));
      params.residual_gate = launch.gate->view();
    }
    if (thin && channels == 3 && RandomInt(random_, 0, 3) > 0) {
      params.samples.rect = Around(launch.region);
      params.samples.kind = static_cast<cuda::SampleKind>(RandomInt(random_, 0, 2));
      params.samples.tile_stride = params.samples.rect.Area() * 3;
    }
    if (variant.result == WsResult::kPlanes && RandomInt(random_, 0, 1) == 1) {
      params.sums.part = RandomRegion({launch.region.width, launch.region.height});
      params.sums.part.x += launch.region.x;
      params.sums.part.y += launch.region.y;
    }
    launch.expected = RunLaunch(Shipped(launch.layers.shape()), launch);
    return launch;
  }

  Written RunLaunch(const TestedKernel& kernel, const Launch& launch) {
    const size_t tiles = launch.inputs.size();
    ConvParams params = launch.params;
    Written written;
    params.gave_up = &written.gave_up;
    written.samples.assign(params.samples.tile_stride * tiles * sizeof(float), 0x5a);
    written.lost.assign(tiles, 0);
    if (params.samples.tile_stride > 0) {
      params.samples.data = written.samples.data();
      params.samples.lost = written.lost.data();
    }
    written.sums.assign(
        tiles * cuda::PlaneCount(launch.layers.conv.out_channels) * cuda::kPlaneChannels, -7);
    if (!params.sums.part.empty()) params.sums.data = written.sums.data();
    written.tensor = Run(kernel, launch.layers.fused(), launch.inputs, launch.region, params);
    return written;
  }

  // The bytes of a tile's samples.
  static std::string_view SamplesOf(const Launch& launch, const Written& written, size_t tile) {
    const size_t bytes = launch.params.samples.tile_stride * sizeof(float);
    return {reinterpret_cast<const char*>(written.samples.data()) + tile * bytes, bytes};
  }

  // Whether every value is the expected one or NaN. `nans` counts these, and lost tiles.
  static bool IsRightOrNan(const Launch& launch, const Written& result, int& nans) {
    const Written& expected = launch.expected;
    const Rect& region = launch.region;
    for (int tile = 0; tile < static_cast<int>(launch.inputs.size()); ++tile) {
      if (launch.params.samples.tile_stride > 0) {
        nans += result.lost[tile] != 0;
        if (result.lost[tile] == 0 &&
            SamplesOf(launch, result, tile) != SamplesOf(launch, expected, tile)) {
          return false;
        }
        continue;
      }
      for (int c = 0; c < launch.layers.shape().out_channels; ++c) {
        for (int y = region.y; y < region.bottom(); ++y) {
          for (int x = region.x; x < region.right(); ++x) {
            const float value = result.tensor->At(tile, c, x, y);
            nans += std::isnan(value);
            if (!std::isnan(value) && value != expected.tensor->At(tile, c, x, y)) return false;
          }
        }
      }
    }
    return true;
  }

  // Runs the variant; whether it wrote every expected bit and nothing else.
  bool IsRight(int index, const Launch& launch) {
    tested_variant = index;
    const Written result = RunLaunch(kWs, launch);
    const Written& expected = launch.expected;
    if (result.tensor->WrittenOutside() != 0) return IsWrong() << "written outside";
    if (result.samples != expected.samples) return IsWrong() << "samples";
    if (result.lost != expected.lost) return IsWrong() << "marks of lost tiles";
    if (result.gave_up != 0) return IsWrong() << "it gave up";
    const int channels = launch.layers.shape().out_channels;
    const int stored = cuda::PlaneCount(channels) * cuda::kPlaneChannels;
    for (size_t i = 0; i < result.sums.size(); ++i) {
      if (static_cast<int>(i) % stored < channels && result.sums[i] != expected.sums[i]) {
        return IsWrong() << "sum " << i;
      }
    }
    if (launch.params.samples.tile_stride > 0) return true;
    const Rect& region = launch.region;
    for (int tile = 0; tile < static_cast<int>(launch.inputs.size()); ++tile) {
      for (int c = 0; c < channels; ++c) {
        for (int y = region.y; y < region.bottom(); ++y) {
          for (int x = region.x; x < region.right(); ++x) {
            if (std::bit_cast<uint32_t>(result.tensor->At(tile, c, x, y)) !=
                std::bit_cast<uint32_t>(expected.tensor->At(tile, c, x, y))) {
              return IsWrong() << "channel " << c << " at " << x << ", " << y << " of tile "
                               << tile;
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
        << wrong_ << ": variant " << index << ", " << Describe(launch.layers.conv) << ", input "
        << in.width << "x" << in.height << ", region " << region.width << "x" << region.height
        << " at " << region.x << ", " << region.y << ", " << tiles << " tiles";
  }

 private:
  // Collects why a result is wrong; false.
  class Wrong {
   public:
    explicit Wrong(std::string& text) : text_(text) { text_.clear(); }
    template <typename T>
    Wrong& operator<<(const T& part) {
      text_ += (testing::Message() << part).GetString();
      return *this;
    }
    operator bool() const { return false; }  // NOLINT: as a result

   private:
    std::string& text_;
  };
  Wrong IsWrong() { return Wrong(wrong_); }

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

// Leaves out, one at a time, each call of device.h between copies, products and stores. A fault
// shows by chance: the launch is repeated.
TEST_F(Conv3x3WsTest, FaultsAreNoticed) {
  using Fault = PlantedFault;
  struct Case {
    const char* name;
    int variant;  // of kWsVariants
    std::function<Fault(const cuda::WsBarriers& at)> fault;
  };
  constexpr int kPlain = 3, kAdds = 4, kTogether = 7, kPairs = 12, kThin = 17, kEnlarged = 19,
                kEnlargedAdds = 20;
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
      {"thin results are read before all lanes have written them", kThin, call(Fault::kSyncWarp)},
      {"a stage of thin results is given back before its products are done", kThin,
       [](const cuda::WsBarriers&) {
         return Fault{Fault::kWaitProducts, 1, 2};
       }},
      {"pixels of a group are not waited for", kThin, full(Fault::kWaitForPhase)},
      {"the enlarged layer's residual is not waited for", kEnlargedAdds,
       [](const cuda::WsBarriers& at) {
         return Fault{Fault::kWaitForPhase, at.residual};
       }},
      {"enlarged staging is read without a fence", kEnlarged, call(Fault::kFenceForProducts)},
      {"enlarged staging is overwritten before it is read", kEnlarged,
       call(Fault::kWaitStoresRead)},
  };
  for (const Case& tested : cases) {
    const WsVariant& variant = kWsVariants[tested.variant];
    bool noticed = false;
    for (int attempt = 0; attempt < 12 && !noticed; ++attempt) {
      // Several tiles for each group, more units than stages.
      const Launch launch = MakeLaunch(
          tested.variant, {variant.width() * 4 + 2, variant.height() + 3}, 2, /*is_whole=*/true);
      tested_stages = WsVariant::kMinStages;
      const cuda::WsParams params{.units = (launch.layers.conv.in_channels + 15) / 16,
                                  .stages = tested_stages};
      noticed = test::IsNoticed(tested.fault(cuda::WsBarriers(variant, params)),
                                [&] { return IsRight(tested.variant, launch); });
      tested_stages = 0;
    }
    EXPECT_TRUE(noticed) << tested.name;
  }
}

// A kernel whose barriers never complete ends, and all that it could not compute is NaN, for other
// kernels to compute again.
TEST_F(Conv3x3WsTest, WaitsGiveUpWithNan) {
  struct Case {
    int variant;
    uint32_t cuda::WsBarriers::*first;
    uint32_t cuda::WsBarriers::*end;
  };
  using At = cuda::WsBarriers;
  const Case cases[] = {
      {3, &At::full, &At::empty},    {3, &At::empty, &At::weights},  {3, &At::weights, &At::turn},
      {3, &At::turn, &At::residual}, {4, &At::residual, nullptr},    {7, &At::full, &At::empty},
      {7, &At::empty, &At::weights}, {12, &At::empty, &At::weights}, {17, &At::turn, &At::residual},
      {17, &At::full, &At::empty},   {19, &At::empty, &At::weights}, {20, &At::residual, nullptr}};
  for (const Case& tested : cases) {
    const WsVariant& variant = kWsVariants[tested.variant];
    int nans = 0;
    for (int attempt = 0; attempt < 12 && (attempt < 2 || nans == 0); ++attempt) {
      const bool all_but_one = attempt == 0;  // arrive; later none does
      nans = 0;
      const Launch launch = MakeLaunch(
          tested.variant, {variant.width() * 4 + 2, variant.height() + 3}, 2, /*is_whole=*/true);
      tested_variant = tested.variant;
      tested_stages = WsVariant::kMinStages;
      const cuda::WsBarriers at(
          variant, {.units = (launch.layers.conv.in_channels + 15) / 16, .stages = tested_stages});
      const PlantedFault lost{
          PlantedFault::kArrive, at.*tested.first,
          tested.end == nullptr ? std::numeric_limits<uint32_t>::max() : at.*tested.end,
          all_but_one ? RandomInt(random_, 0, 7) : -1};
      bool right = false;
      uint32_t gave_up = 0;
      const std::vector<std::string> failures = test::FailuresWith(lost, [&] {
        const Written result = RunLaunch(kWs, launch);
        right = IsRightOrNan(launch, result, nans);
        gave_up = result.gave_up;
      });
      tested_stages = 0;
      EXPECT_TRUE(nans == 0 || gave_up == 1) << "the launch is not marked";
      EXPECT_TRUE(right) << "variant " << tested.variant;
      EXPECT_THAT(failures, testing::Each(testing::Not(testing::HasSubstr("wait for each other"))));
      if (HasFailure()) return;
    }
    EXPECT_GT(nans, 0) << "variant " << tested.variant;
  }
}

// Zeros of groups of several pixels spread a NaN to all of them. With inputs of whole groups it
// reaches the same pixels of every region.
TEST_F(Conv3x3WsTest, NanReachesTheSamePixelsOfEveryRegion) {
  for (int index = 0; index < kWsVariantCount; ++index) {
    const WsVariant& variant = kWsVariants[index];
    if (variant.pixels == 1 || variant.adds) continue;
    tested_variant = index;
    const Layers layers = RandomLayers(variant, 5);
    const FusedConv fused = layers.fused();
    const Size in{RandomInt(random_, 9, 20), RandomInt(random_, 9, 30)};
    std::vector<reference::Tensor> inputs{RandomTensor(layers.conv.in_channels, in, random_)};
    for (int i = 0; i < 6; ++i) {
      inputs[0].values[RandomInt(random_, 0, static_cast<int>(in.Area()) - 1)] = std::nanf("");
    }
    test::RoundValues(Precision::kFast, inputs[0].values);
    const Size out = OutputSize(fused, in);
    const Rect whole{0, 0, out.width, out.height};
    const int block = variant.pixels * layers.shape().out_stride;
    const auto all = Run(kWs, fused, inputs, whole);
    for (int i = 0; i < 4; ++i) {
      const Rect part = variant.result == WsResult::kThin
                            ? RandomRegion(out)
                            : Intersect(RoundToBlocks(RandomRegion(out), block, {}), whole);
      const auto of_part = Run(kWs, fused, inputs, part, {}, block);
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

// Whether the host's choice suits the sizes of images, layer by layer.
TEST(WsLaunchTest, ChoosesByRoundsAndHeight) {
  ConvShape shape{.taps = 3, .offset = -1};
  const auto chosen = [&](int in, int out, Size size, bool adds = false, int tiles = 1) {
    ConvParams params;
    params.shape = shape;
    params.shape.in_channels = in;
    params.shape.out_channels = out;
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
  EXPECT_EQ(variant(96, 32, {480, 270}), (WsVariant{.rows = 23, .pixels = 2}));
  EXPECT_EQ(variant(160, 32, {480, 270}), (WsVariant{.rows = 23, .pixels = 2, .staged_planes = 1}));
  EXPECT_EQ(chosen(160, 32, {480, 270}, true), -1);  // no room
  EXPECT_EQ(chosen(64, 40, {480, 270}), -1);         // too many columns for nothing
  EXPECT_EQ(variant(64, 3, {1920, 1080}).pixels, 8);
  EXPECT_EQ(variant(128, 3, {1922, 1082}, true).pixels, 8);  // threads add the residual
  EXPECT_EQ(chosen(256, 3, {1920, 1080}), -1);               // no room
  EXPECT_EQ(chosen(272, 64, {480, 270}), -1);
  shape.out_stride = 2;
  EXPECT_EQ(variant(64, 3, {1920, 1080}).pixels, 4);
  EXPECT_EQ(chosen(64, 12, {1920, 1080}), -1);  // shuffled planes
  shape.out_stride = 4;
  EXPECT_EQ(variant(64, 3, {1920, 1080}), (WsVariant{.rows = 25, .result = WsResult::kThin}));
  shape = {.taps = 1, .out_stride = 2};
  EXPECT_EQ(variant(64, 64, {1924, 1084}, true),
            (WsVariant{.rows = 32, .result = WsResult::kEnlarged, .adds = true}));
  EXPECT_EQ(chosen(64, 40, {1924, 1084}), -1);  // a plane of four is missing
}

}  // namespace
}  // namespace upscaled
