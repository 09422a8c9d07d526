// One small network with every kind of layer, small enough for Oclgrind. It interprets kernels and
// checks each access: ctest runs this program on the machine's device and, where it is installed,
// on Oclgrind's.
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/opencl/opencl_backend.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/model/border.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::MakeConv;
using test::MakePlain;

class EveryLayerTest : public ::testing::TestWithParam<Precision> {
 protected:
  // Appends a layer with the given inputs, the last layer by default; returns its index.
  int Append(Layer layer, std::vector<int> inputs = {}) {
    const int index = static_cast<int>(network_.layers.size());
    layer.inputs = inputs.empty() ? std::vector<int>{index - 1} : std::move(inputs);
    layer.name = "layer";
    network_.layers.push_back(std::move(layer));
    return index;
  }

  // Channel counts with partly filled planes; activations of every kind.
  void BuildNetwork() {
    network_.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}};
    Append(MakePlain(Op::kResizeNearest, 3, 3, 2, 0, {}));
    Append(Activated(MakeConv(Op::kConv, 3, 11, 3, 1, 1, random_), Activation::kLeakyRelu));
    const int skip =
        Append(Activated(MakeConv(Op::kConv, 11, 5, 1, 1, 0, random_), Activation::kPRelu));
    for (const Activation curve : {Activation::kSilu, Activation::kMish, Activation::kGelu,
                                   Activation::kGeluTanh, Activation::kSoftplus}) {
      Append(Activated(MakePlain(Op::kActivation, 5, 5, 1, 0, {}), curve));
    }
    Append(test::MakeGroupedConv(5, 5, 5, 3, 1, 1, random_));
    Append(test::MakeGroupedConv(5, 5, 10, 3, 1, 1, random_));
    Append(MakeConv(Op::kConv, 10, 9, 2, 2, 0, random_));
    const int up = Append(
        Activated(MakeConv(Op::kConvTranspose, 9, 5, 2, 2, 0, random_), Activation::kSigmoid));
    const int pool = Append(MakePlain(Op::kGlobalAveragePool, 5, 5, 1, 0, {}), {skip});
    const int squeeze = Append(
        Activated(MakeConv(Op::kFullyConnected, 5, 5, 1, 1, 0, random_), Activation::kSigmoid),
        {pool});
    const int excited = Append(MakePlain(Op::kMul, 5, 5, 1, 0, {}), {skip, squeeze});
    Append(MakePlain(Op::kAdd, 5, 5, 1, 0, {}), {up, excited});
    Append(MakePlain(Op::kConcat, 5, 10, 1, 0, {}),
           {skip, static_cast<int>(network_.layers.size()) - 1});
    Layer affine = MakePlain(Op::kAffine, 10, 10, 1, 0, {});
    affine.weights.assign(10, 0.5f);
    affine.bias.assign(10, 0.25f);
    Append(affine);
    for (const bool centred : {true, false}) {
      affine.op = Op::kPixelNorm;
      affine.centred = centred;
      affine.epsilon = 0.1f;
      Append(affine);
    }
    if (GetParam() == Precision::kExact) AppendGroupNorm();
    const int whole = static_cast<int>(network_.layers.size()) - 1;
    Layer slice = MakePlain(Op::kSlice, 10, 8, 1, 0, {});
    slice.first_channel = 2;
    const int behind = Append(slice);
    slice = MakePlain(Op::kSlice, 10, 2, 1, 0, {});
    Append(MakePlain(Op::kConcat, 8, 10, 1, 0, {}), {behind, Append(slice, {whole})});
    Layer pad = MakePlain(Op::kPad, 10, 10, 1, 0, {});
    pad.padding_px = 2;
    pad.pad_mode = PadMode::kReflect;
    Append(pad);
    Append(Activated(MakePlain(Op::kCrop, 10, 10, 1, 1, {}), Activation::kRelu));
    Append(Activated(MakeConv(Op::kConv, 10, 12, 3, 1, 0, random_), Activation::kClip));
    Append(MakePlain(Op::kPixelShuffle, 12, 3, 2, 0, {}));
    Append(MakeConv(Op::kConv, 3, 3, 2, 2, 0, random_));
    Append(MakePlain(Op::kResizeBilinear, 3, 3, 2, 0, {}));
    const absl::Status status = InferBorder(network_);
    ASSERT_TRUE(status.ok()) << status;
  }

  void AppendGroupNorm() {
    const int x = static_cast<int>(network_.layers.size()) - 1;
    const int squares = Append(MakePlain(Op::kMul, 10, 10, 1, 0, {}), {x, x});
    const int both = Append(MakePlain(Op::kConcat, 10, 20, 1, 0, {}), {x, squares});
    Append(MakePlain(Op::kGlobalAveragePool, 20, 20, 1, 0, {}), {both});
    Layer norm = MakePlain(Op::kGroupNorm, 10, 10, 1, 0, {});
    norm.groups = 5;
    norm.epsilon = 0.1f;
    norm.weights.assign(10, 0.5f);
    norm.bias.assign(10, 0.25f);
    Append(norm, {x, both + 1});
  }

  static Layer Activated(Layer layer, Activation activation) {
    layer.activation = activation;
    if (activation == Activation::kLeakyRelu) layer.slope = {0.1f};
    if (activation == Activation::kPRelu) layer.slope.assign(layer.out_channels, 0.2f);
    return layer;
  }

  // The image in two tiles, as floats.
  std::vector<float> Run(Backend& backend, Precision precision, const Image& source) {
    const auto executable = backend.Compile(network_, precision);
    EXPECT_TRUE(executable.ok()) << executable.status();
    if (!executable.ok()) return {};
    const Size size = source.spec().size();
    const int scale = network_.scale;
    Image result({size.width * scale, size.height * scale, 3, SampleType::kF32});
    std::vector<TileTask> tiles;
    // The larger tile first: Oclgrind 21.10 takes writes to growing buffers for unwritten.
    for (const Rect tile : {Rect{2, 0, size.width - 2, size.height}, Rect{0, 0, 2, size.height}}) {
      tiles.push_back(test::MakeTask(**executable, source, tile, result));
    }
    const absl::Status status = test::RunImage(*backend.CreateStream(), **executable, tiles);
    EXPECT_TRUE(status.ok()) << status;
    const float* const values = reinterpret_cast<const float*>(result.view().data);
    return {values, values + result.bytes() / sizeof(float)};
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_;
};

TEST_P(EveryLayerTest, AgreesWithTheReference) {
  const auto backend = CreateOpenClBackend("opencl", {});
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  if (const char* const wanted = std::getenv("UPSCALED_TEST_OPENCL_DEVICE")) {
    ASSERT_THAT((*backend)->description(), ::testing::StartsWith(wanted));
  }
  BuildNetwork();
  const Image source = test::RandomImage({7, 5, 3, SampleType::kU8}, random_);
  const auto reference = CreateReferenceBackend({});
  const std::vector<float> actual = Run(**backend, GetParam(), source);
  const std::vector<float> expected = Run(**reference, Precision::kExact, source);
  ASSERT_EQ(actual.size(), expected.size());
  const float tolerance = GetParam() == Precision::kExact ? 1e-4f : 2e-2f;
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
}

INSTANTIATE_TEST_SUITE_P(Precisions, EveryLayerTest,
                         ::testing::Values(Precision::kExact, Precision::kFast),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

}  // namespace
}  // namespace upscaled
