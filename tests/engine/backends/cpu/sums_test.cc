#include "engine/backends/cpu/sums.h"

#include <string>
#include <string_view>
#include <vector>

#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/cpu/program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"

namespace upscaled::cpu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;

constexpr int kSkip = 1, kDown = 2, kUp = 3, kCrop = 4, kSum = 5;

// Down to half the size and up again, added to what it began with: input, skip, down, up, crop, sum
// and a last layer.
Network SmallUnet(int channels) {
  Network network = test::InputAlone();
  network.pad_px = 4;
  network.align_px = 2;
  const auto append = [&](Layer layer) {
    layer.name = "layer" + std::to_string(network.layers.size());
    layer.in_channels = network.layers[layer.inputs[0]].out_channels;
    layer.out_channels = channels;
    const int taps = layer.kernel_px * layer.kernel_px;
    if (layer.op == Op::kConv || layer.op == Op::kConvTranspose) {
      layer.weights.assign(size_t{1} * taps * channels * layer.in_channels, 0.125f);
      layer.bias.assign(channels, 0.5f);
    }
    network.layers.push_back(layer);
  };
  append({.op = Op::kConv, .inputs = {0}});
  append({.op = Op::kConv, .inputs = {kSkip}, .kernel_px = 4, .stride_px = 2});
  append({.op = Op::kConvTranspose, .inputs = {kDown}, .kernel_px = 2, .stride_px = 2});
  append({.op = Op::kCrop, .inputs = {kSkip}, .crop_px = 1});
  append({.op = Op::kAdd, .inputs = {kUp, kCrop}});
  test::AppendConv(network, 3, 3);
  return network;
}

std::vector<std::string> NamesIn(const Network& network, std::string_view forced = "") {
  const auto program =
      BuildProgram(network, ListIsas().front(), forced.empty() ? nullptr : FindKernel(forced));
  EXPECT_TRUE(program.ok()) << program.status();
  std::vector<std::string> names;
  if (!program.ok()) return names;
  for (const Layer& layer : program->network.layers) names.push_back(layer.name);
  return names;
}

TEST(SumsTest, TakeOverTheCropAndTheLayerBefore) {
  for (const bool crop_first : {false, true}) {
    Network network = SmallUnet(16);
    if (crop_first) network.layers[kSum].inputs = {kCrop, kUp};
    const Sums sums = FindSums(network);
    EXPECT_EQ(sums.inputs[kSum].first, kUp);
    EXPECT_EQ(sums.inputs[kSum].second, kCrop);
    EXPECT_TRUE(sums.cropped[kCrop]);
    EXPECT_EQ(sums.end_of[kUp], kSum);
    EXPECT_EQ(sums.end_of[kSkip], -1);
  }
}

TEST(SumsTest, WithoutACropTheLaterInputComesFirst) {
  Network network = SmallUnet(16);
  network.layers[kCrop].op = Op::kActivation;
  network.layers[kSum].inputs = {kUp, kCrop};
  const Sums sums = FindSums(network);
  EXPECT_EQ(sums.inputs[kSum].first, kCrop);
  EXPECT_EQ(sums.inputs[kSum].second, kUp);
  EXPECT_FALSE(sums.cropped[kCrop]);
}

TEST(SumsTest, LeaveCropsThatOthersReadOrThatActivate) {
  Network read = SmallUnet(16);
  read.layers.back().inputs = {kCrop};
  Network active = SmallUnet(16);
  active.layers[kCrop].activation = Activation::kRelu;
  for (const Network& network : {read, active}) {
    EXPECT_FALSE(FindSums(network).cropped[kCrop]);
  }
}

TEST(SumsTest, OneOfTwoCrops) {
  Network network = SmallUnet(16);
  Layer crop = network.layers[kCrop];
  crop.inputs = {kUp};
  network.layers.insert(network.layers.begin() + kSum, crop);
  network.layers[kSum + 1].inputs = {kCrop, kSum};
  network.layers.back().inputs = {kSum + 1};
  const Sums sums = FindSums(network);
  EXPECT_FALSE(sums.cropped[kCrop] && sums.cropped[kSum]);
  EXPECT_TRUE(sums.cropped[kCrop] || sums.cropped[kSum]);
}

TEST(SumsTest, ProgramsComputeThemWithTheConvolution) {
  EXPECT_THAT(NamesIn(SmallUnet(16)), Contains("layer3+layer4+layer5"));
}

TEST(SumsTest, ActivatedSumsStayApartFromTheirConvolution) {
  Network network = SmallUnet(16);
  network.layers[kSum].activation = Activation::kRelu;
  EXPECT_EQ(FindSums(network).end_of[kUp], -1);
  EXPECT_THAT(NamesIn(network), AllOf(Contains("layer3"), Contains("layer4+layer5")));
}

TEST(SumsTest, SumsOfImagesStayApartFromTheirConvolution) {
  EXPECT_THAT(NamesIn(SmallUnet(3)), AllOf(Contains("layer3"), Contains("layer4+layer5")));
}

TEST(SumsTest, AForcedKernelKeepsItsSums) {
  EXPECT_THAT(NamesIn(SmallUnet(16), "elementwise"),
              AllOf(Contains("layer3"), Contains("layer4+layer5")));
}

TEST(SumsTest, KernelsThatCannotAddStayApart) {
  Network network = test::InputAlone();
  test::AppendConv(network, 16, 1);
  test::AppendConv(network, 16, 3);
  network.layers.push_back(
      {.op = Op::kAdd, .name = "sum", .inputs = {1, 2}, .out_channels = 16, .in_channels = 16});
  test::AppendConv(network, 3, 1);
  EXPECT_THAT(NamesIn(network, "direct"), Contains("conv2+sum"));
  EXPECT_THAT(NamesIn(network, "winograd_f4"), AllOf(Contains("conv2"), Contains("sum")));
}

}  // namespace
}  // namespace upscaled::cpu
