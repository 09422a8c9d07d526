// Which launches a network takes: needs no device.
#include "engine/backends/cuda/program.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/backends/cuda/kernels/tensor_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cuda::BuildProgram;
using cuda::Home;
using cuda::Program;
using cuda::Step;
using test::MakeConv;
using test::MakePlain;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = cuda::Step::Kind;

// As FirstConvSupports, which is compiled with the kernels.
bool IsFirstConv(const Layer& conv) {
  return conv.kernel_px == 3 && conv.stride_px == 1 && conv.in_channels == 3 &&
         conv.out_channels <= 64;
}

class CudaProgramTest : public ::testing::Test {
 protected:
  // Appends a layer that reads the given ones, the last by default; returns its index.
  int Append(Layer layer, std::vector<int> inputs = {}) {
    const int index = static_cast<int>(network_.layers.size());
    layer.inputs = inputs.empty() ? std::vector<int>{index - 1} : std::move(inputs);
    network_.layers.push_back(std::move(layer));
    return index;
  }
  int AppendConv(int in, int out, std::vector<int> inputs = {}) {
    return Append(MakeConv(Op::kConv, in, out, 3, 1, 1, random_), std::move(inputs));
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_ = test::InputAlone();
};

std::vector<Kind> KindsOf(const Program& program) {
  std::vector<Kind> kinds;
  for (const Step& step : program.steps) kinds.push_back(step.kind);
  return kinds;
}

TEST_F(CudaProgramTest, ResizeAndFirstConvolutionReadTheImage) {
  Append(MakePlain(Op::kResizeNearest, 3, 3, 2, 0, {}));
  AppendConv(3, 32);
  AppendConv(32, 3);
  const Program program = BuildProgram(network_, &IsFirstConv);
  EXPECT_THAT(KindsOf(program), ElementsAre(Kind::kFirstConv, Kind::kConv));
  EXPECT_EQ(program.steps[0].resize_factor, 2);
  EXPECT_THAT(program.steps[0].inputs, IsEmpty());
  EXPECT_TRUE(program.writes_samples);
  EXPECT_EQ(program.homes[0].root, -1);
  EXPECT_EQ(program.homes.back().root, -1);
  EXPECT_EQ(program.roots.size(), 1u);
}

// The end of SRVGG: shuffled, and added to the image enlarged.
TEST_F(CudaProgramTest, ShuffleAndResizedSkipAreFused) {
  const int body = AppendConv(3, 64);
  const int conv = AppendConv(64, 12);
  const int shuffle = Append(MakePlain(Op::kPixelShuffle, 12, 3, 2, 0, {}));
  const int resize = Append(MakePlain(Op::kResizeNearest, 3, 3, 2, 0, {}), {0});
  const int sum = Append(MakePlain(Op::kAdd, 3, 3, 1, 0, {}), {resize, shuffle});
  const Program program = BuildProgram(network_, &IsFirstConv);
  EXPECT_THAT(KindsOf(program), ElementsAre(Kind::kLoadPixels, Kind::kFirstConv, Kind::kConv));
  const Step& last = program.steps.back();
  EXPECT_EQ(last.layer, sum);
  EXPECT_EQ(last.conv, conv);
  EXPECT_EQ(last.shuffle, shuffle);
  EXPECT_EQ(last.residual, 0);
  EXPECT_EQ(last.residual_factor, 2);
  EXPECT_THAT(last.inputs, ElementsAre(body));
}

TEST_F(CudaProgramTest, CroppedSkipIsFused) {
  const int skip = AppendConv(3, 8);
  Append(MakeConv(Op::kConv, 8, 8, 5, 1, 0, random_));  // two pixels less on every side
  const int up = AppendConv(8, 8);
  const int crop = Append(MakePlain(Op::kCrop, 8, 8, 1, 2, {}), {skip});
  const int sum = Append(MakePlain(Op::kAdd, 8, 8, 1, 0, {}), {up, crop});
  AppendConv(8, 3);
  const Program program = BuildProgram(network_, &IsFirstConv);
  const Step& step = program.steps[2];
  EXPECT_EQ(step.layer, sum);
  EXPECT_EQ(step.conv, up);
  EXPECT_EQ(step.residual, skip);
  EXPECT_EQ(step.residual_crop_px, 2);
  EXPECT_EQ(program.homes[crop].root, -1);
}

TEST_F(CudaProgramTest, WhatOthersReadIsNotFused) {
  const int a = AppendConv(3, 8);
  const int b = AppendConv(8, 8);
  const int sum = Append(MakePlain(Op::kAdd, 8, 8, 1, 0, {}), {a, b});
  Append(MakePlain(Op::kMul, 8, 8, 1, 0, {}), {sum, b});  // needs b itself
  AppendConv(8, 3);
  EXPECT_THAT(KindsOf(BuildProgram(network_, &IsFirstConv)),
              ElementsAre(Kind::kFirstConv, Kind::kConv, Kind::kElementwise, Kind::kElementwise,
                          Kind::kConv));
  network_.layers[sum].activation = Activation::kRelu;  // would come before the sum
  EXPECT_THAT(BuildProgram(network_, &IsFirstConv).steps[2].residual, -1);
}

// What a pooling gathers is computed in a run of its own.
TEST_F(CudaProgramTest, PooledLayersAreStored) {
  const int a = AppendConv(3, 8);
  const int b = AppendConv(8, 8);
  const int pool = Append(MakePlain(Op::kGlobalAveragePool, 8, 8, 1, 0, {}), {b});
  const int sum = Append(MakePlain(Op::kAdd, 8, 8, 1, 0, {}), {a, b});
  Append(MakePlain(Op::kMul, 8, 8, 1, 0, {}), {sum, pool});
  AppendConv(8, 3);
  const Program program = BuildProgram(network_, &IsFirstConv);
  EXPECT_THAT(KindsOf(program), ElementsAre(Kind::kFirstConv, Kind::kConv, Kind::kLoadMeans,
                                            Kind::kElementwise, Kind::kElementwise, Kind::kConv));
  EXPECT_GE(program.homes[b].root, 0);
  EXPECT_THAT(program.poolings, ElementsAre(pool));
}

// A dense block: every concatenation goes on where the last one ended.
TEST_F(CudaProgramTest, ConcatenationsOfWholePlanesAreFree) {
  const int a = AppendConv(3, 64);
  const int b = AppendConv(64, 32);
  const int ab = Append(MakePlain(Op::kConcat, 64, 96, 1, 0, {}), {a, b});
  const int c = AppendConv(96, 32);
  const int abc = Append(MakePlain(Op::kConcat, 64, 128, 1, 0, {}), {a, b, c});
  AppendConv(128, 3);
  const Program program = BuildProgram(network_, &IsFirstConv);
  EXPECT_THAT(KindsOf(program),
              ElementsAre(Kind::kFirstConv, Kind::kConv, Kind::kConv, Kind::kConv));
  ASSERT_EQ(program.roots.size(), 1u);
  EXPECT_EQ(program.roots[0].planes, 16);
  EXPECT_EQ(program.homes[a].first_plane, 0);
  EXPECT_EQ(program.homes[b].first_plane, 8);
  EXPECT_EQ(program.homes[c].first_plane, 12);
  EXPECT_EQ(program.homes[ab].first_plane, 0);
  EXPECT_EQ(program.homes[abc].first_plane, 0);
}

TEST_F(CudaProgramTest, OtherConcatenationsAreCopied) {
  const int a = AppendConv(3, 12);  // fills no plane
  const int b = AppendConv(12, 8);
  const int ab = Append(MakePlain(Op::kConcat, 12, 20, 1, 0, {}), {a, b});
  const int bb = Append(MakePlain(Op::kConcat, 8, 16, 1, 0, {}), {b, b});
  const int all = Append(MakePlain(Op::kConcat, 16, 36, 1, 0, {}), {bb, ab});
  Append(MakePlain(Op::kActivation, 36, 36, 1, 0, {}));
  AppendConv(36, 3);
  const Program program = BuildProgram(network_, &IsFirstConv);
  const auto has_step = [&](int layer) {
    return std::any_of(program.steps.begin(), program.steps.end(),
                       [&](const Step& step) { return step.layer == layer; });
  };
  EXPECT_TRUE(has_step(ab));
  EXPECT_TRUE(has_step(bb));
  EXPECT_FALSE(has_step(all));
  network_.layers[all].activation = Activation::kRelu;
  const Program activated = BuildProgram(network_, &IsFirstConv);
  EXPECT_EQ(activated.steps.size(), program.steps.size() + 1);
}

// Follows which layer lies in which plane of which slot, over random networks.
TEST_F(CudaProgramTest, EveryStepReadsWhatWasComputedLast) {
  for (int i = 0; i < 200; ++i) {
    const Network network = test::RandomNetwork(random_);
    SCOPED_TRACE(test::Describe(network));
    const Program program = BuildProgram(network, &IsFirstConv);
    std::map<std::pair<int, int>, std::pair<int, int>> holds;  // slot, plane: root, plane written
    std::vector<bool> computed(network.layers.size());
    const auto planes_of = [&](int layer) {
      return cuda::PlaneCount(network.layers[layer].out_channels);
    };
    const auto expect_held = [&](int layer) {
      const Home& home = program.homes[layer];
      ASSERT_GE(home.root, 0) << "layer " << layer << " has no home";
      for (int p = home.first_plane; p < home.first_plane + planes_of(layer); ++p) {
        const auto at = holds.find({program.roots[home.root].slot, p});
        ASSERT_NE(at, holds.end()) << "layer " << layer;
        EXPECT_EQ(at->second.first, home.root) << "layer " << layer << " was overwritten";
      }
    };
    for (const Step& step : program.steps) {
      for (const int input : step.inputs) expect_held(input);
      if (step.residual >= 0) expect_held(step.residual);
      if (step.kind == Kind::kLoadMeans) expect_held(network.layers[step.layer].inputs[0]);
      const Home& home = program.homes[step.layer];
      if (home.root < 0) continue;
      EXPECT_LE(home.first_plane + planes_of(step.layer), program.roots[home.root].planes);
      for (int p = home.first_plane; p < home.first_plane + planes_of(step.layer); ++p) {
        holds[{program.roots[home.root].slot, p}] = {home.root, step.layer};
      }
    }
    if (program.writes_samples) {
      EXPECT_EQ(program.steps.back().layer, static_cast<int>(network.layers.size()) - 1);
    } else {
      expect_held(static_cast<int>(network.layers.size()) - 1);
    }
  }
}

}  // namespace
}  // namespace upscaled
