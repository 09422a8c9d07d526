// Whole networks: the result against the reference backend's, the derivatives against central
// differences.
#include "engine/train/trained_network.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/reference/reference_backend.h"
#include "engine/model/border.h"
#include "engine/model/loader.h"
#include "engine/train/gradient_check.h"
#include "engine/train/parameters.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

// The tolerance for a network of Winograd F(4x4) in float, as the engine's own are held to.
constexpr double kTolerance = 1e-4;

constexpr int kImages = 2;
constexpr Size kImage = {22, 16};

// With skips: 3x3, PReLU, 1x1, a sum with a crop, a pixel shuffle, a sum with the enlarged input.
Network SkippingNetwork(std::mt19937& random) {
  Network network;
  auto& layers = network.layers;
  layers.push_back({.op = Op::kInput, .name = "in", .out_channels = 3});
  layers.push_back({.op = Op::kConv,
                    .name = "a",
                    .inputs = {0},
                    .out_channels = 12,
                    .in_channels = 3,
                    .kernel_px = 3,
                    .activation = Activation::kPRelu});
  layers.push_back({.op = Op::kConv,
                    .name = "b",
                    .inputs = {1},
                    .out_channels = 12,
                    .in_channels = 12,
                    .kernel_px = 1,
                    .activation = Activation::kRelu});
  layers.push_back({.op = Op::kConv,
                    .name = "c",
                    .inputs = {2},
                    .out_channels = 12,
                    .in_channels = 12,
                    .kernel_px = 3});
  layers.push_back({.op = Op::kCrop,
                    .name = "crop",
                    .inputs = {1},
                    .out_channels = 12,
                    .in_channels = 12,
                    .crop_px = 1});
  layers.push_back(
      {.op = Op::kAdd, .name = "add", .inputs = {3, 4}, .out_channels = 12, .in_channels = 12});
  layers.push_back({.op = Op::kActivation,
                    .name = "leaky",
                    .inputs = {5},
                    .out_channels = 12,
                    .in_channels = 12,
                    .activation = Activation::kLeakyRelu,
                    .slope = {0.2f}});
  layers.push_back({.op = Op::kConv,
                    .name = "d",
                    .inputs = {6},
                    .out_channels = 12,
                    .in_channels = 12,
                    .kernel_px = 3,
                    .padding_px = 1});
  layers.push_back({.op = Op::kPixelShuffle,
                    .name = "shuffle",
                    .inputs = {7},
                    .out_channels = 3,
                    .in_channels = 12,
                    .factor = 2});
  layers.push_back({.op = Op::kCrop,
                    .name = "inner",
                    .inputs = {0},
                    .out_channels = 3,
                    .in_channels = 3,
                    .crop_px = 2});
  layers.push_back({.op = Op::kResizeNearest,
                    .name = "enlarged",
                    .inputs = {9},
                    .out_channels = 3,
                    .in_channels = 3,
                    .factor = 2});
  layers.push_back(
      {.op = Op::kAdd, .name = "sum", .inputs = {8, 10}, .out_channels = 3, .in_channels = 3});
  std::uniform_real_distribution<float> number(-0.3f, 0.3f);
  for (Layer& layer : layers) {
    if (layer.op == Op::kConv) {
      layer.weights.resize(size_t{1} * layer.out_channels * layer.in_channels * layer.kernel_px *
                           layer.kernel_px);
      layer.bias.resize(layer.out_channels);
    }
    if (layer.activation == Activation::kPRelu) layer.slope.resize(layer.out_channels);
    for (float& value : layer.weights) value = number(random);
    for (float& value : layer.bias) value = number(random);
    if (layer.activation == Activation::kPRelu) {
      for (float& value : layer.slope) value = number(random);
    }
  }
  EXPECT_TRUE(InferBorder(network).ok());
  return network;
}

// As upconv_7 ends, behind a convolution of stride 2 and one of 5x5.
Network TransposedNetwork(std::mt19937& random) {
  Network network{.scale = 2, .align_px = 2};
  auto& layers = network.layers;
  layers.push_back({.op = Op::kInput, .name = "in", .out_channels = 3});
  const auto conv = [&](Op op, int in, int out, int kernel_px, int stride_px, int padding_px) {
    layers.push_back({.op = op,
                      .name = std::string("conv") + std::to_string(layers.size()),
                      .inputs = {static_cast<int>(layers.size()) - 1},
                      .out_channels = out,
                      .in_channels = in,
                      .kernel_px = kernel_px,
                      .stride_px = stride_px,
                      .padding_px = padding_px});
    std::uniform_real_distribution<float> number(-0.3f, 0.3f);
    Layer& layer = layers.back();
    layer.weights.resize(size_t{1} * in * out * kernel_px * kernel_px);
    layer.bias.resize(out);
    for (float& value : layer.weights) value = number(random);
    for (float& value : layer.bias) value = number(random);
  };
  conv(Op::kConv, 3, 6, 5, 1, 2);
  conv(Op::kConv, 6, 8, 2, 2, 0);
  layers.back().activation = Activation::kLeakyRelu;
  layers.back().slope = {0.1f};
  conv(Op::kConvTranspose, 8, 5, 2, 2, 0);
  conv(Op::kConvTranspose, 5, 3, 4, 2, 1);
  EXPECT_EQ(network.Validate(), absl::OkStatus());
  return network;
}

// Squeeze and excite around two convolutions.
Network GatedNetwork(std::mt19937& random) {
  Network network;
  auto& layers = network.layers;
  const auto add = [&](Op op, std::vector<int> inputs, int in, int out, int kernel_px) -> Layer& {
    Layer& layer = layers.emplace_back();
    layer.op = op;
    layer.name = std::string("layer") + std::to_string(layers.size());
    layer.inputs = std::move(inputs);
    layer.in_channels = in;
    layer.out_channels = out;
    layer.kernel_px = kernel_px;
    std::uniform_real_distribution<float> number(-0.3f, 0.3f);
    if (op == Op::kConv || op == Op::kFullyConnected) {
      layer.weights.resize(size_t{1} * in * out * kernel_px * kernel_px);
      layer.bias.resize(out);
      for (float& value : layer.weights) value = number(random);
      for (float& value : layer.bias) value = number(random);
    }
    return layer;
  };
  layers.push_back({.op = Op::kInput, .name = "in", .out_channels = 3});
  add(Op::kConv, {0}, 3, 20, 3).activation = Activation::kSigmoid;
  add(Op::kGlobalAveragePool, {1}, 20, 20, 1);
  add(Op::kFullyConnected, {2}, 20, 5, 1).activation = Activation::kRelu;
  add(Op::kFullyConnected, {3}, 5, 20, 1).activation = Activation::kSigmoid;
  add(Op::kMul, {1, 4}, 20, 20, 1);
  add(Op::kMul, {5, 1}, 20, 20, 1);
  add(Op::kConv, {6}, 20, 12, 3);
  add(Op::kPixelShuffle, {7}, 12, 3, 1).factor = 2;
  EXPECT_TRUE(InferBorder(network).ok());
  return network;
}

Network Bundled(const std::string& name) {
  auto network = LoadNetworkFile(std::string(UPSCALED_BUNDLED_MODELS "/") + name + "/model.param");
  EXPECT_TRUE(network.ok()) << network.status();
  return *network;
}

Size PaddedInput(const Network& network) {
  return {kImage.width + 2 * network.pad_px, kImage.height + 2 * network.pad_px};
}

template <typename Real>
std::unique_ptr<TrainedNetwork<Real>> Create(const Network& network) {
  auto trained = TrainedNetwork<Real>::Create(network, PaddedInput(network), kImages);
  EXPECT_TRUE(trained.ok()) << trained.status();
  return *std::move(trained);
}

// The reference backend's result, of floats.
Image ByReference(const Network& network, const Image& source) {
  const auto backend = CreateReferenceBackend({});
  const auto executable = (*backend)->Compile(network, Precision::kExact);
  EXPECT_TRUE(executable.ok()) << executable.status();
  Image result({kImage.width * network.scale, kImage.height * network.scale, 3, SampleType::kF32});
  const auto stream = (*backend)->CreateStream();
  EXPECT_TRUE(test::RunImage(*stream, **executable,
                             {test::WholeTask(**executable, source.view(), result.mutable_view())})
                  .ok());
  return result;
}

// `image` with its border repeated, as image number `index` of the input.
void Fill(const Image& image, int index, int pad_px, Tensor<float>& input) {
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < input.grid().size.height; ++y) {
      const float* row = image.view().row_as<float>(std::clamp(y - pad_px, 0, kImage.height - 1));
      for (int x = 0; x < input.grid().size.width; ++x) {
        input.At(c, input.grid().Line(index, y), x) =
            row[std::clamp(x - pad_px, 0, kImage.width - 1) * 3 + c];
      }
    }
  }
}

void ExpectReferenceResult(const Network& network) {
  std::mt19937 random = test::FreshRandom();
  const auto trained = Create<float>(network);
  std::vector<Image> expected;
  for (int i = 0; i < kImages; ++i) {
    const Image image =
        test::RandomImage({kImage.width, kImage.height, 3, SampleType::kF32}, random);
    Fill(image, i, network.pad_px, trained->input());
    expected.push_back(ByReference(network, image));
  }
  const std::vector<float> parameters = ReadParameters(network);
  trained->Begin(parameters.data());
  trained->Forward(parameters.data());
  const Tensor<float>& result = trained->result();
  ASSERT_EQ(result.grid().size, expected[0].spec().size());
  for (int i = 0; i < kImages; ++i) {
    for (int y = 0; y < result.grid().size.height; ++y) {
      for (int x = 0; x < result.grid().size.width * 3; ++x) {
        ASSERT_NEAR(result.At(x % 3, result.grid().Line(i, y), x / 3),
                    expected[i].view().row_as<float>(y)[x], kTolerance);
      }
    }
  }
}

TEST(TrainedNetworkTest, ComputesWhatTheReferenceDoes) {
  std::mt19937 random = test::FreshRandom();
  ExpectReferenceResult(SkippingNetwork(random));
  ExpectReferenceResult(TransposedNetwork(random));
  ExpectReferenceResult(GatedNetwork(random));
  ExpectReferenceResult(Bundled("general-2x"));
  ExpectReferenceResult(Bundled("fast-2x"));
}

// A fixed seed: a value that comes to lie at an activation's kink has no central difference.
TEST(TrainedNetworkTest, DerivativesAreCentralDifferences) {
  std::mt19937 weights(20);
  std::mt19937_64 random(20);
  for (const Network& network : {SkippingNetwork(weights), TransposedNetwork(weights),
                                 GatedNetwork(weights), Bundled("fast-2x")}) {
    const auto trained = Create<double>(network);
    const std::vector<float> start = ReadParameters(network);
    std::vector<double> parameters(start.begin(), start.end());
    FillPixels(trained->input(), random);
    FillPixels(trained->result_gradient(), random);
    const auto loss = [&] {
      trained->Begin(parameters.data());
      trained->Forward(parameters.data());
      double sum = 0;
      for (const size_t i : PixelsOf(trained->result())) {
        sum += trained->result().values()[i] * trained->result_gradient().values()[i];
      }
      return sum;
    };
    loss();
    std::vector<double> gradient(trained->parameter_count());
    ASSERT_EQ(gradient.size(), parameters.size());
    trained->Backward(parameters.data(), gradient.data());
    trained->End(gradient.data());
    std::vector<size_t> places(parameters.size());
    std::iota(places.begin(), places.end(), size_t{0});
    EXPECT_LE(
        DerivativeError(loss, parameters, places, gradient, {.count = 12, .step = 2e-7}, random),
        1e-6);
  }
}

TEST(TrainedNetworkTest, ParametersGoThereAndBack) {
  std::mt19937 random = test::FreshRandom();
  const Network network = SkippingNetwork(random);
  Network copy = SkippingNetwork(random);
  ASSERT_NE(copy.layers[1].weights, network.layers[1].weights);
  WriteParameters(ReadParameters(network), copy);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    EXPECT_EQ(copy.layers[i].weights, network.layers[i].weights);
    EXPECT_EQ(copy.layers[i].bias, network.layers[i].bias);
    EXPECT_EQ(copy.layers[i].slope, network.layers[i].slope);
  }
}

TEST(TrainedNetworkTest, RefusesWhatItCannotTrain) {
  std::mt19937 random = test::FreshRandom();
  Network network = SkippingNetwork(random);
  network.layers[3].activation = Activation::kClip;
  EXPECT_EQ(TrainedNetwork<float>::Create(network, {30, 30}, 1).status(),
            absl::UnimplementedError("layer 'c': cannot be trained with a clip"));
  network.layers[3].activation = Activation::kSilu;
  EXPECT_EQ(TrainedNetwork<float>::Create(network, {30, 30}, 1).status().code(),
            absl::StatusCode::kUnimplemented);
  network.layers[3].activation = Activation::kNone;
  network.layers[10].op = Op::kResizeBilinear;
  EXPECT_EQ(TrainedNetwork<float>::Create(network, {30, 30}, 1).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(TrainedNetwork<float>::Create(Bundled("fast-2x"), {10, 30}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace upscaled::train
