// Where the results of a network live: needs no device.
#include "engine/backends/cuda/program.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/backends/cuda/kernels/tensor_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/plan_for_cuda.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cuda::Placement;
using cuda::Program;
using test::MakeConv;
using test::MakePlain;
using test::PlanForCuda;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = cuda::NodeKind;

// As FirstConvSupports, compiled with the kernels.
bool IsFirstConv(const Layer& conv) {
  return conv.kernel_px == 3 && conv.stride_px == 1 && conv.in_channels == 3 &&
         conv.out_channels <= 64;
}

class CudaProgramTest : public ::testing::Test {
 protected:
  // Appends a layer with the given inputs, the last layer by default; returns its index.
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

TEST_F(CudaProgramTest, ResizeAndFirstConvolutionReadTheImage) {
  Append(MakePlain(Op::kResizeNearest, 3, 3, 2, 0, {}));
  AppendConv(3, 32);
  AppendConv(32, 3);
  const Program program = PlanForCuda(network_, &IsFirstConv);
  EXPECT_THAT(program.kinds, ElementsAre(Kind::kFirstConv, Kind::kConv));
  EXPECT_EQ(program.nodes[0].resize_factor, 2);
  EXPECT_THAT(program.nodes[0].inputs, IsEmpty());
  EXPECT_TRUE(program.writes_samples);
  EXPECT_EQ(program.placements[0].allocation, -1);
  EXPECT_EQ(program.placements.back().allocation, -1);
  EXPECT_EQ(program.allocations.size(), 1u);
}

TEST_F(CudaProgramTest, WhatIsFusedIsNotPlaced) {
  const int skip = AppendConv(3, 8);
  Append(MakeConv(Op::kConv, 8, 8, 5, 1, 0, random_));  // two pixels less on every side
  const int up = AppendConv(8, 8);
  const int crop = Append(MakePlain(Op::kCrop, 8, 8, 1, 2, {}), {skip});
  const int sum = Append(MakePlain(Op::kAdd, 8, 8, 1, 0, {}), {up, crop});
  AppendConv(8, 3);
  const Program program = PlanForCuda(network_, &IsFirstConv);
  EXPECT_THAT(program.kinds, ElementsAre(Kind::kFirstConv, Kind::kConv, Kind::kConv, Kind::kConv));
  EXPECT_EQ(program.nodes[2].layer(), sum);
  for (const int fused : {up, crop}) EXPECT_EQ(program.placements[fused].allocation, -1);
}

// A pooling's input layer is computed in a pass of its own.
TEST_F(CudaProgramTest, PooledLayersAreStored) {
  const int a = AppendConv(3, 8);
  const int b = AppendConv(8, 8);
  const int pool = Append(MakePlain(Op::kGlobalAveragePool, 8, 8, 1, 0, {}), {b});
  const int sum = Append(MakePlain(Op::kAdd, 8, 8, 1, 0, {}), {a, b});
  Append(MakePlain(Op::kMul, 8, 8, 1, 0, {}), {sum, pool});
  AppendConv(8, 3);
  const Program program = PlanForCuda(network_, &IsFirstConv);
  EXPECT_THAT(program.kinds, ElementsAre(Kind::kFirstConv, Kind::kConv, Kind::kLoadMeans,
                                         Kind::kElementwise, Kind::kElementwise, Kind::kConv));
  EXPECT_GE(program.placements[b].allocation, 0);
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
  const Program program = PlanForCuda(network_, &IsFirstConv);
  EXPECT_THAT(program.kinds, ElementsAre(Kind::kFirstConv, Kind::kConv, Kind::kConv, Kind::kConv));
  ASSERT_EQ(program.allocations.size(), 1u);
  EXPECT_EQ(program.allocations[0].planes, 16);
  EXPECT_EQ(program.placements[a].first_plane, 0);
  EXPECT_EQ(program.placements[b].first_plane, 8);
  EXPECT_EQ(program.placements[c].first_plane, 12);
  EXPECT_EQ(program.placements[ab].first_plane, 0);
  EXPECT_EQ(program.placements[abc].first_plane, 0);
}

TEST_F(CudaProgramTest, OtherConcatenationsAreCopied) {
  const int a = AppendConv(3, 12);  // fills no plane
  const int b = AppendConv(12, 8);
  const int ab = Append(MakePlain(Op::kConcat, 12, 20, 1, 0, {}), {a, b});
  const int bb = Append(MakePlain(Op::kConcat, 8, 16, 1, 0, {}), {b, b});
  const int all = Append(MakePlain(Op::kConcat, 16, 36, 1, 0, {}), {bb, ab});
  Append(MakePlain(Op::kActivation, 36, 36, 1, 0, {}));
  AppendConv(36, 3);
  const Program program = PlanForCuda(network_, &IsFirstConv);
  const auto has_node = [&](int layer) {
    return std::any_of(program.nodes.begin(), program.nodes.end(),
                       [&](const Node& node) { return node.layer() == layer; });
  };
  EXPECT_TRUE(has_node(ab));
  EXPECT_TRUE(has_node(bb));
  EXPECT_FALSE(has_node(all));
  network_.layers[all].activation = Activation::kRelu;
  const Program activated = PlanForCuda(network_, &IsFirstConv);
  EXPECT_EQ(activated.nodes.size(), program.nodes.size() + 1);
}

// Follows the place of each layer, its slot and plane, over random networks.
TEST_F(CudaProgramTest, EveryStepReadsWhatWasComputedLast) {
  for (int i = 0; i < 200; ++i) {
    const Network network = test::RandomNetwork(random_);
    SCOPED_TRACE(test::Describe(network));
    const Program program = PlanForCuda(network, &IsFirstConv);
    std::map<std::pair<int, int>, std::pair<int, int>>
        holds;  // slot, plane: allocation, plane written
    std::vector<bool> computed(network.layers.size());
    const auto planes_of = [&](int layer) {
      return cuda::PlaneCount(network.layers[layer].out_channels);
    };
    const auto expect_held = [&](int layer) {
      const Placement& place = program.placements[layer];
      ASSERT_GE(place.allocation, 0) << "layer " << layer << " is not placed";
      for (int p = place.first_plane; p < place.first_plane + planes_of(layer); ++p) {
        const auto at = holds.find({program.allocations[place.allocation].slot, p});
        ASSERT_NE(at, holds.end()) << "layer " << layer;
        EXPECT_EQ(at->second.first, place.allocation) << "layer " << layer << " was overwritten";
      }
    };
    for (const Node& node : program.nodes) {
      for (const int input : node.inputs) expect_held(input);
      if (node.residual >= 0) expect_held(node.residual);
      const Placement& place = program.placements[node.layer()];
      if (place.allocation < 0) continue;
      EXPECT_LE(place.first_plane + planes_of(node.layer()),
                program.allocations[place.allocation].planes);
      for (int p = place.first_plane; p < place.first_plane + planes_of(node.layer()); ++p) {
        holds[{program.allocations[place.allocation].slot, p}] = {place.allocation, node.layer()};
      }
    }
    if (program.writes_samples) {
      EXPECT_EQ(program.nodes.back().layer(), static_cast<int>(network.layers.size()) - 1);
    } else {
      expect_held(static_cast<int>(network.layers.size()) - 1);
    }
  }
}

}  // namespace
}  // namespace upscaled
