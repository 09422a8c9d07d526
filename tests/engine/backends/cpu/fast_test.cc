// Precision kFast, in 16-bit floats and in 16-bit integers where the machine has them, with all
// promises of backends.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/model/loader.h"
#include "engine/model/repository.h"
#include "engine/model/shapes.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/golden_files.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::Describe;
using test::FreshRandom;
using test::ListGoldens;
using test::RandomImage;
using test::RandomInt;
using test::RandomNetwork;
using test::ReadPng;
using test::RunTiles;
using test::SharedFolder;

constexpr double kMinPsnr_dB = 54;
// Nearer would be fp32: were all of it out of range, all would be computed again.
constexpr double kMaxPsnr_dB = 75;

std::span<const float> Floats(const Image& image) {
  return {reinterpret_cast<const float*>(image.view().data), image.bytes() / sizeof(float)};
}

TEST(FastPrecisionTest, IsRefusedByOtherInstructionSets) {
  std::mt19937 random = FreshRandom();
  const Network network = RandomNetwork(random);
  for (const cpu::Isa isa : cpu::ListIsas()) {
    if (cpu::HasVnni(isa)) continue;
    BackendOptions options;
    options.cpu_isa = cpu::IsaName(isa);
    EXPECT_EQ((*CreateCpuBackend(options))->Compile(network, Precision::kFast).status(),
              absl::UnimplementedError(
                  absl::StrCat("the cpu backend has no precision 'fast' on ", options.cpu_isa,
                               ", only 'exact': it takes avx512_vnni or avx512_fp16")));
  }
}

TEST(FastPrecisionTest, HasNoGroupNorms) {
  if (!cpu::HasVnni(cpu::ListIsas().front())) GTEST_SKIP() << "no AVX512_VNNI here";
  const auto backend = CreateCpuBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const Network network = test::NormalisedNetwork(1);
  EXPECT_TRUE((*backend)->Compile(network, Precision::kExact).ok());
  EXPECT_EQ((*backend)->Compile(network, Precision::kFast).status(),
            absl::UnimplementedError("the cpu backend cannot run layer 'norm' (group norm) in "
                                     "precision 'fast'"));
}

// The instruction sets of this machine with precision kFast, or "none".
std::vector<std::string> FastIsas() {
  std::vector<std::string> names;
  for (const cpu::Isa isa : cpu::ListIsas()) {
    if (cpu::HasVnni(isa)) names.emplace_back(cpu::IsaName(isa));
  }
  if (names.empty()) names = {"none"};
  return names;
}

bool RunsOn(const cpu::KernelEntry& kernel, std::string_view isa_name) {
  const std::vector<cpu::Isa> isas = cpu::ListIsas();
  return std::any_of(isas.begin(), isas.end(), [&](cpu::Isa isa) {
    return cpu::IsaName(isa) == isa_name && kernel.RunsOn(isa);
  });
}

class FastBackendTest : public ::testing::Test {
 protected:
  void CreateBackend(const std::string& isa, const std::string& kernel) {
    if (isa == "none") GTEST_SKIP() << "no AVX512_VNNI here";
    BackendOptions options;
    options.cpu_isa = isa;
    options.kernel = kernel;
    options.poisons_memory = true;
    auto backend = CreateCpuBackend(options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  std::shared_ptr<const Executable> Compile(const Network& network, Precision precision) {
    auto executable = backend_->Compile(network, precision);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  }

  std::mt19937 random_ = FreshRandom();
  std::unique_ptr<Backend> backend_;
};

class FastTest : public FastBackendTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { CreateBackend(GetParam(), ""); }
};

// Instruction set and kernel.
class FastKernelTest : public FastBackendTest,
                       public ::testing::WithParamInterface<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override { CreateBackend(std::get<0>(GetParam()), std::get<1>(GetParam())); }

  struct Compiled {
    Network network;
    std::shared_ptr<const Executable> executable;
  };
  // A network with the forced kernel, if any, and without layers of nearly zero by chance.
  Compiled NextNetwork() {
    const cpu::KernelEntry* kernel = cpu::FindKernel(std::get<1>(GetParam()));
    for (;;) {
      Network network = test::RandomFastNetwork(random_);
      if (kernel != nullptr && !TakesPart(*kernel, network)) continue;
      auto executable = backend_->Compile(network, Precision::kFast);
      if (absl::IsUnimplemented(executable.status())) continue;
      EXPECT_TRUE(executable.ok()) << executable.status();
      return {std::move(network), *std::move(executable)};
    }
  }

 private:
  // Values for the whole image are computed exactly.
  static bool TakesPart(const cpu::KernelEntry& kernel, const Network& network) {
    const std::vector<bool> per_image = IsPerImage(network);
    for (size_t i = 0; i < network.layers.size(); ++i) {
      if (!per_image[i] && kernel.supports(network.layers[i])) return true;
    }
    return false;
  }
};

// "" = the best kernel of each layer.
TEST_P(FastKernelTest, AgreesWithTheReferenceAndWithItselfInTiles) {
  const auto reference = CreateReferenceBackend({});
  ASSERT_TRUE(reference.ok()) << reference.status();
  for (int i = 0; i < 8; ++i) {
    const auto [network, executable] = NextNetwork();
    SCOPED_TRACE(Describe(network));
    EXPECT_EQ(executable->precision(), Precision::kFast);
    const auto expected = (*reference)->Compile(network, Precision::kExact);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const Size size{RandomInt(random_, 1, 60), RandomInt(random_, 1, 60)};
    const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random_);
    const Image whole = RunTiles(*backend_, *executable, source, size, SampleType::kF32);
    const Image exact = RunTiles(**reference, **expected, source, size, SampleType::kF32);
    float largest = 1;
    for (const float v : Floats(exact)) largest = std::max(largest, std::abs(v));
    for (size_t n = 0; n < Floats(exact).size(); ++n) {
      ASSERT_NEAR(Floats(whole)[n], Floats(exact)[n], 0.02f * largest) << "value " << n;
    }
    const Size tile{RandomInt(random_, 5, 60), RandomInt(random_, 5, 60)};
    const Image tiled = RunTiles(*backend_, *executable, source, tile, SampleType::kF32);
    EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()))
        << "tiles of " << tile.width << "x" << tile.height;
    if (HasFailure()) return;
  }
}

// The entries of FastIsas, each with the names of its kernels and "".
std::vector<std::tuple<std::string, std::string>> IsasAndKernels() {
  std::vector<std::tuple<std::string, std::string>> pairs;
  for (const std::string& name : FastIsas()) {
    pairs.emplace_back(name, "");
    for (const cpu::KernelEntry& kernel : cpu::ListKernels()) {
      const bool exact_only =
          kernel.name.find("attention") != std::string_view::npos || kernel.name == "sample";
      if (!exact_only && RunsOn(kernel, name)) pairs.emplace_back(name, kernel.name);
    }
  }
  return pairs;
}

INSTANTIATE_TEST_SUITE_P(Kernels, FastKernelTest, ::testing::ValuesIn(IsasAndKernels()),
                         [](const auto& info) {
                           const std::string& kernel = std::get<1>(info.param);
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               kernel.empty() ? "best" : kernel);
                         });
INSTANTIATE_TEST_SUITE_P(Isas, FastTest, ::testing::ValuesIn(FastIsas()),
                         [](const auto& info) { return info.param; });

Layer Conv(int in, int out, float weight, int kernel_px = 3) {
  Layer layer{.op = Op::kConv,
              .name = absl::StrCat("conv ", in, "-", out),
              .out_channels = out,
              .in_channels = in,
              .kernel_px = kernel_px,
              .padding_px = kernel_px / 2};
  const size_t taps = size_t{1} * kernel_px * kernel_px;
  layer.weights.assign(taps * in * out, 0.0f);
  // Each output takes one input, at the centre.
  for (int o = 0; o < out; ++o) {
    layer.weights[(static_cast<size_t>(o) * in + o % in) * taps + taps / 2] = weight;
  }
  layer.bias.assign(out, 0.0f);
  return layer;
}

// Factors for each channel of the image, computed by an operation on other factors, as in ONNX's
// squeeze and excite with SiLU.
Network ScaledBy(Op op) {
  constexpr int kChannels = 64;
  Network network;
  network.name = absl::StrCat("scaled by ", std::string(OpName(op)));
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}, Conv(3, kChannels, 1)};
  const auto append = [&](Layer layer) {
    layer.in_channels = network.layers[layer.inputs[0]].out_channels;
    if (layer.out_channels == 0) layer.out_channels = layer.in_channels;
    network.layers.push_back(std::move(layer));
    return static_cast<int>(network.layers.size()) - 1;
  };
  network.layers[1].inputs = {0};
  const int pool = append({.op = Op::kGlobalAveragePool, .name = "pool", .inputs = {1}});
  const int curve = append({.op = Op::kActivation,
                            .name = "sigmoid",
                            .inputs = {pool},
                            .activation = Activation::kSigmoid});
  std::vector<int> parts = {pool, curve};
  if (op == Op::kConcat) {
    for (int& part : parts) {
      part = append(
          {.op = Op::kSlice, .name = "half", .inputs = {part}, .out_channels = kChannels / 2});
    }
  }
  const int factors =
      append({.op = op, .name = "factors", .inputs = parts, .out_channels = kChannels});
  const int scaled = append({.op = Op::kMul, .name = "mul", .inputs = {1, factors}});
  Layer last = Conv(kChannels, 3, 1);
  last.inputs = {scaled};
  append(std::move(last));
  return network;
}

TEST_P(FastTest, FactorsOfTheWholeImageMayBeMadeByAnyOperation) {
  for (const Op op : {Op::kMul, Op::kAdd, Op::kConcat}) {
    const Network network = ScaledBy(op);
    SCOPED_TRACE(network.name);
    const auto fast = Compile(network, Precision::kFast);
    const auto exact = Compile(network, Precision::kExact);
    const Size size{RandomInt(random_, 20, 70), RandomInt(random_, 20, 70)};
    const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random_);
    const Image result = RunTiles(*backend_, *fast, source, size, SampleType::kF32);
    const Image expected = RunTiles(*backend_, *exact, source, size, SampleType::kF32);
    for (size_t i = 0; i < Floats(result).size(); ++i) {
      ASSERT_NEAR(Floats(result)[i], Floats(expected)[i], 5e-3f) << "value " << i;
    }
  }
}

// A network with inner layers, of several kernels, beyond fp16's range for bright pixels, but not
// for dark ones.
Network LargeInBetween(Activation activation) {
  Network network;
  network.name = "large";
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    Conv(3, 32, 8e4f),
                    Conv(32, 48, 2.0f),
                    Conv(48, 48, 1.0f, /*kernel_px=*/5),
                    Conv(48, 3, 1 / 16e4f)};
  for (int i = 1; i < 5; ++i) network.layers[i].inputs = {i - 1};
  for (const int i : {2, 3}) {
    Layer& layer = network.layers[i];
    layer.activation = activation;
    layer.slope.assign(activation == Activation::kLeakyRelu ? 1 : 0, 0.5f);
    layer.clip_min = -1e6f;
    layer.clip_max = 1e6f;
  }
  return network;
}

// Dark, but for a bright spot.
Image ImageWithSpot(Size size, std::mt19937& random) {
  Image image({size.width, size.height, 4, SampleType::kU8});
  uint8_t* pixels = image.mutable_view().data;
  for (size_t i = 0; i < image.bytes(); ++i) pixels[i] = static_cast<uint8_t>(random() % 16);
  const int x = RandomInt(random, 0, size.width - 1), y = RandomInt(random, 0, size.height - 1);
  uint8_t* spot = image.mutable_view().Crop({x, y, 1, 1}).data;
  std::fill_n(spot, 3, 255);
  return image;
}

TEST_P(FastTest, PixelsBeyondItsRangeAreExact) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu, Activation::kClip}) {
    SCOPED_TRACE(ActivationName(activation));
    const Network network = LargeInBetween(activation);
    const auto fast = Compile(network, Precision::kFast);
    const auto exact = Compile(network, Precision::kExact);
    const Size size{RandomInt(random_, 20, 70), RandomInt(random_, 20, 70)};
    const Image source = ImageWithSpot(size, random_);
    const Size tile{RandomInt(random_, 5, 60), RandomInt(random_, 5, 60)};
    for (const SampleType type : {SampleType::kU8, SampleType::kF32}) {
      const Image whole = RunTiles(*backend_, *fast, source, size, type);
      const Image tiled = RunTiles(*backend_, *fast, source, tile, type);
      EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()));
      if (type != SampleType::kF32) continue;
      const Image expected = RunTiles(*backend_, *exact, source, size, type);
      int same = 0;
      for (size_t i = 0; i < Floats(whole).size(); ++i) {
        ASSERT_NEAR(Floats(whole)[i], Floats(expected)[i], 2e-3f) << "value " << i;
        same += Floats(whole)[i] == Floats(expected)[i] ? 1 : 0;
      }
      EXPECT_GT(same, 0) << "the spot was not computed again";
      EXPECT_LT(same, static_cast<int>(Floats(whole).size())) << "all was computed again";
    }
  }
}

// Bright pixels between dark ones give a run each, more than a tile keeps: it is computed in parts.
TEST_P(FastTest, AnyNumberOfPixelsBeyondItsRangeIsExact) {
  const Size size{700, RandomInt(random_, 400, 420)};
  Image source({size.width, size.height, 3, SampleType::kU8});
  for (int y = 0; y < size.height; ++y) {
    uint8_t* const row = source.mutable_view().row(y);
    for (int x = 0; x < size.width; ++x) {
      std::fill_n(row + 3 * x, 3, static_cast<uint8_t>(x % 2 == 0 ? 255 : random_() % 16));
    }
  }
  // Single pixels, so that runs are no longer than these.
  Network network;
  network.name = "large points";
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    Conv(3, 32, 8e4f, /*kernel_px=*/1),
                    Conv(32, 3, 1 / 16e4f, /*kernel_px=*/1)};
  for (int i = 1; i < 3; ++i) network.layers[i].inputs = {i - 1};
  const auto fast = Compile(network, Precision::kFast);
  const auto exact = Compile(network, Precision::kExact);
  const Image whole = RunTiles(*backend_, *fast, source, size, SampleType::kF32);
  const Image expected = RunTiles(*backend_, *exact, source, size, SampleType::kF32);
  int replaced = 0;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < 3 * size.width; ++x) {
      const float value = whole.view().row_as<float>(y)[x];
      ASSERT_NEAR(value, expected.view().row_as<float>(y)[x], 2e-3f) << x << ", " << y;
      replaced += x / 3 % 2 == 0 && value == expected.view().row_as<float>(y)[x] ? 1 : 0;
    }
  }
  EXPECT_GT(replaced, 3 * (1 << 16)) << "more than a tile keeps";
  const Image tiled = RunTiles(*backend_, *fast, source, {160, 130}, SampleType::kF32);
  EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()));
}

// A network with inner values `scale` times those of images, of several kernels.
Network SmallInBetween(float scale) {
  Network network;
  network.name = "small";
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    Conv(3, 32, scale),
                    Conv(32, 48, 1.0f),
                    Conv(48, 48, 1.0f, /*kernel_px=*/5),
                    Conv(48, 3, 1 / scale)};
  for (int i = 1; i < 5; ++i) network.layers[i].inputs = {i - 1};
  return network;
}

TEST_P(FastTest, RefusesLayersOfValuesThatHalvesLose) {
  for (const float scale : {1e-38f, 1e-20f, 1e-7f, 1e-5f, 9e-4f}) {
    EXPECT_EQ(backend_->Compile(SmallInBetween(scale), Precision::kFast).status(),
              absl::UnimplementedError(absl::StrCat(
                  "the cpu backend cannot run layer 'conv 3-32' (conv) in precision 'fast': its "
                  "values reach ",
                  scale, ", 16-bit floats need 0.000976562")));
  }
  for (const float scale : {1e-3f, 1e-2f, 1.0f}) {
    const Network network = SmallInBetween(scale);
    const auto fast = Compile(network, Precision::kFast);
    const auto exact = Compile(network, Precision::kExact);
    const Image source = RandomImage({64, 48, 3, SampleType::kU8}, random_);
    const Image result = RunTiles(*backend_, *fast, source, {64, 48}, SampleType::kU8);
    const Image expected = RunTiles(*backend_, *exact, source, {64, 48}, SampleType::kU8);
    double sum = 0;
    for (size_t i = 0; i < result.bytes(); ++i) {
      sum += std::pow(result.view().data[i] - expected.view().data[i], 2);
    }
    EXPECT_GE(10 * std::log10(255.0 * 255 * static_cast<double>(result.bytes()) / sum), kMinPsnr_dB)
        << scale;
  }
}

// Parts added to larger ones may be of any small size.
TEST_P(FastTest, TakesSmallPartsOfSums) {
  Network network = SmallInBetween(1);
  network.layers.resize(3);
  network.layers.push_back(Conv(48, 48, 1e-6f));
  network.layers[3].inputs = {2};
  network.layers.push_back(
      {.op = Op::kAdd, .name = "sum", .inputs = {2, 3}, .out_channels = 48, .in_channels = 48});
  network.layers.push_back(Conv(48, 3, 1));
  network.layers[5].inputs = {4};
  EXPECT_EQ(backend_->Compile(network, Precision::kFast).status(), absl::OkStatus());
}

// A layer outside fp16's range at bright pixels, times a part of its mean: so small that integers
// with the step of white pages are near enough in dark ones.
Network LargeTimesItsMean() {
  constexpr float kLarge = 8e4f, kShare = 0.05f;
  Network network;
  network.name = "large times mean";
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}, Conv(3, 32, kLarge)};
  network.layers[1].inputs = {0};
  test::AppendTimesMean(network, 1);
  Layer share = Conv(32, 32, kShare / kLarge * 255, /*kernel_px=*/1);
  share.inputs = {2};
  network.layers.insert(network.layers.begin() + 3, share);
  network.layers.back().inputs = {1, 3};
  network.layers.push_back(Conv(32, 3, 1 / kLarge));
  network.layers.back().inputs = {4};
  return network;
}

// Were those pixels missing in the mean, or counted as rounded to halves, all would differ.
TEST_P(FastTest, MeansCountPixelsBeyondTheRangeExactly) {
  const Network network = LargeTimesItsMean();
  const auto fast = Compile(network, Precision::kFast);
  const auto exact = Compile(network, Precision::kExact);
  const Size size{RandomInt(random_, 9, 20), RandomInt(random_, 9, 20)};
  const Image source = ImageWithSpot(size, random_);
  const Image whole = RunTiles(*backend_, *fast, source, size, SampleType::kF32);
  const Image expected = RunTiles(*backend_, *exact, source, size, SampleType::kF32);
  for (size_t i = 0; i < Floats(whole).size(); ++i) {
    ASSERT_NEAR(Floats(whole)[i], Floats(expected)[i], 5e-4f + 1e-3f * Floats(expected)[i])
        << "value " << i;
  }
  const Size tile{RandomInt(random_, 5, 9), RandomInt(random_, 5, 9)};
  const Image tiled = RunTiles(*backend_, *fast, source, tile, SampleType::kF32);
  EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()))
      << "tiles of " << tile.width << "x" << tile.height;
}

// A network with a first layer for patterns absent from noise and drawings. At the patterns the
// second reads far larger values.
Network PatternFinder(std::mt19937& random) {
  Network network;
  network.name = "patterns";
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    Conv(3, 32, 0.0f, /*kernel_px=*/15),
                    Conv(32, 16, 0.003f),
                    Conv(16, 3, 1.0f)};
  for (int i = 1; i < 4; ++i) network.layers[i].inputs = {i - 1};
  for (float& weight : network.layers[1].weights) weight = random() % 2 == 0 ? 1.0f : -1.0f;
  return network;
}

// Noise, and the pattern of the finder's first output.
Image ImageWithPattern(const Layer& finder, Size size, std::mt19937& random) {
  Image image = RandomImage({size.width, size.height, 3, SampleType::kU8}, random);
  const int side = finder.kernel_px;
  const Rect place{RandomInt(random, 0, size.width - side),
                   RandomInt(random, 0, size.height - side), side, side};
  const MutableImageView pattern = image.mutable_view().Crop(place);
  for (int y = 0; y < side; ++y) {
    for (int i = 0; i < 3 * side; ++i) {
      const float weight = finder.weights[(i % 3 * side + y) * side + i / 3];
      pattern.row(y)[i] = weight > 0 ? 255 : 0;
    }
  }
  return image;
}

TEST_P(FastTest, PixelsBeyondTheCalibratedRangeAreExact) {
  const Network network = PatternFinder(random_);
  const auto exact = Compile(network, Precision::kExact);
  CreateBackend(GetParam(), "winograd_f4_int16");
  const auto fast = Compile(network, Precision::kFast);
  const Size size{RandomInt(random_, 40, 70), RandomInt(random_, 40, 70)};
  const Image source = ImageWithPattern(network.layers[1], size, random_);
  const Image whole = RunTiles(*backend_, *fast, source, size, SampleType::kF32);
  const Image expected = RunTiles(*backend_, *exact, source, size, SampleType::kF32);
  int same = 0;
  for (size_t i = 0; i < Floats(whole).size(); ++i) {
    ASSERT_NEAR(Floats(whole)[i], Floats(expected)[i], 2e-3f) << "value " << i;
    same += Floats(whole)[i] == Floats(expected)[i] ? 1 : 0;
  }
  EXPECT_GE(same, 3 * 16) << "the pattern was not computed again";
  EXPECT_LT(same, static_cast<int>(Floats(whole).size()) / 2) << "most was computed again";
  const Size tile{RandomInt(random_, 5, 60), RandomInt(random_, 5, 60)};
  const Image tiled = RunTiles(*backend_, *fast, source, tile, SampleType::kF32);
  EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()))
      << "tiles of " << tile.width << "x" << tile.height;
}

// The error over all images of one network.
struct SquaredError {
  double sum = 0;
  double samples = 0;

  double Psnr_dB() const { return 10 * std::log10(255.0 * 255.0 * samples / std::max(sum, 1e-9)); }
};

class FastQualityTest : public FastTest {
 protected:
  struct Pair {
    std::shared_ptr<const Executable> fast, exact;
  };
  Pair CompilePair(const Network& network) {
    return {Compile(network, Precision::kFast), Compile(network, Precision::kExact)};
  }

  // Adds the differences of fast 8-bit results from exact ones.
  void Compare(const Pair& pair, const Image& source, SquaredError& error) {
    const Size size = source.spec().size();
    const Image fast = RunTiles(*backend_, *pair.fast, source, size, SampleType::kU8);
    const Image exact = RunTiles(*backend_, *pair.exact, source, size, SampleType::kU8);
    for (size_t i = 0; i < fast.bytes(); ++i) {
      error.sum += std::pow(fast.view().data[i] - exact.view().data[i], 2);
    }
    error.samples += static_cast<double>(fast.bytes());
  }

  void Check(const std::map<std::string, SquaredError>& errors) {
    for (const auto& [model, error] : errors) {
      std::printf("%s, %s: %.1f dB\n", GetParam().c_str(), model.c_str(), error.Psnr_dB());
      EXPECT_GE(error.Psnr_dB(), kMinPsnr_dB) << model;
      EXPECT_LE(error.Psnr_dB(), kMaxPsnr_dB) << model;
    }
  }
};

TEST_P(FastQualityTest, PublicWeights) {
  const std::vector<test::Golden> goldens = ListGoldens();
  if (goldens.empty()) GTEST_SKIP() << "no goldens under " << SharedFolder();
  std::map<std::string, SquaredError> errors;
  std::map<std::string, Pair> pairs;
  for (const test::Golden& golden : goldens) {
    Pair& pair = pairs[golden.model];
    if (pair.fast == nullptr) {
      const auto network = LoadNetworkFile(SharedFolder() / "models" / (golden.model + ".param"));
      ASSERT_TRUE(network.ok()) << network.status();
      pair = CompilePair(*network);
    }
    const Image source = ReadPng(SharedFolder() / "golden/inputs" / (golden.image + ".png"));
    Compare(pair, source, errors[golden.model]);
  }
  Check(errors);
}

TEST_P(FastQualityTest, BundledModels) {
  const auto repository = ModelRepository::Open({UPSCALED_BUNDLED_MODELS});
  ASSERT_TRUE(repository.ok()) << repository.status();
  std::map<std::string, SquaredError> errors;
  for (const ModelCard& card : repository->models()) {
    for (const ModelVariant& variant : card.variants) {
      const auto network = LoadNetwork(card, variant);
      ASSERT_TRUE(network.ok()) << network.status();
      const ImageSpec spec{RandomInt(random_, 150, 250), RandomInt(random_, 100, 200), 3,
                           SampleType::kU8};
      SquaredError& error = errors[absl::StrCat(card.name, " x", variant.scale)];
      const Pair pair = CompilePair(*network);
      Compare(pair, test::PhotoImage(spec, random_), error);
      Compare(pair, test::ArtImage(spec, random_), error);
    }
  }
  Check(errors);
}

using Color = std::array<uint8_t, 3>;

// Colours the part of the rectangle inside the RGB image.
void Fill(const Rect& rect, const Color& color, Image& image) {
  const Size size = image.spec().size();
  const Rect inside = Intersect(rect, {0, 0, size.width, size.height});
  if (inside.empty()) return;
  for (int y = inside.y; y < inside.bottom(); ++y) {
    uint8_t* pixel = image.mutable_view().row(y) + 3 * inside.x;
    for (int x = 0; x < inside.width; ++x) pixel = std::copy_n(color.begin(), 3, pixel);
  }
}

// Three strokes between the nodes of a grid.
void DrawGlyph(const Rect& glyph, int stroke_px, const Color& ink, Image& image,
               std::mt19937& random) {
  const auto node = [&](int begin, int length) {
    return begin + RandomInt(random, 0, 2) * length / 2;
  };
  for (int i = 0; i < 3; ++i) {
    const int x0 = node(glyph.x, glyph.width), y0 = node(glyph.y, glyph.height);
    const int x1 = node(glyph.x, glyph.width), y1 = node(glyph.y, glyph.height);
    for (int step = 0; step <= glyph.height; ++step) {
      Fill({x0 + (x1 - x0) * step / glyph.height, y0 + (y1 - y0) * step / glyph.height, stroke_px,
            stroke_px},
           ink, image);
    }
  }
}

// Lines similar to print, thin or bold.
Image PrintImage(const ImageSpec& spec, const Color& paper, const Color& ink,
                 std::mt19937& random) {
  Image image(spec);
  Fill({0, 0, spec.width_px, spec.height_px}, paper, image);
  int height = 0;
  for (int top = 2; top < spec.height_px; top += height * 3 / 2) {
    height = RandomInt(random, 8, 40);
    const int stroke_px = std::max(1, height / RandomInt(random, 5, 12));
    for (int left = 2; left < spec.width_px; left += height * 3 / 4) {
      DrawGlyph({left, top, height / 2, height}, stroke_px, ink, image, random);
    }
  }
  return image;
}

// In black and white, either way.
Image PrintImage(const ImageSpec& spec, std::mt19937& random) {
  const uint8_t paper = RandomInt(random, 0, 1) * 255, ink = 255 - paper;
  return PrintImage(spec, {paper, paper, paper}, {ink, ink, ink}, random);
}

Image CheckerImage(const ImageSpec& spec, const Color& a, const Color& b, int side_px) {
  Image image(spec);
  Fill({0, 0, spec.width_px, spec.height_px}, a, image);
  for (int y = 0; y < spec.height_px; y += side_px) {
    for (int x = y / side_px % 2 * side_px; x < spec.width_px; x += 2 * side_px) {
      Fill({x, y, side_px, side_px}, b, image);
    }
  }
  return image;
}

// The same with soft edges.
Image SoftPrintImage(const ImageSpec& spec, std::mt19937& random) {
  ImageSpec twice = spec;
  twice.width_px *= 2;
  twice.height_px *= 2;
  const Image large = PrintImage(twice, random);
  Image image(spec);
  for (int y = 0; y < spec.height_px; ++y) {
    const uint8_t* const above = large.view().row(2 * y);
    const uint8_t* const below = large.view().row(2 * y + 1);
    for (int i = 0; i < 3 * spec.width_px; ++i) {
      const int left = i / 3 * 6 + i % 3, right = left + 3;
      image.mutable_view().row(y)[i] =
          static_cast<uint8_t>((above[left] + above[right] + below[left] + below[right]) / 4);
    }
  }
  return image;
}

// Values beyond the calibration's are computed twice.
class FastSpeedTest : public FastQualityTest {
 protected:
  // At most this part of every bundled model's results is as in fp32.
  void ExpectComputedOnce(const std::vector<Image>& images, double most) {
    const auto repository = ModelRepository::Open({UPSCALED_BUNDLED_MODELS});
    ASSERT_TRUE(repository.ok()) << repository.status();
    for (const ModelCard& card : repository->models()) {
      for (const ModelVariant& variant : card.variants) {
        const auto network = LoadNetwork(card, variant);
        ASSERT_TRUE(network.ok()) << network.status();
        const Pair pair = CompilePair(*network);
        double same = 0, all = 0;
        for (const Image& source : images) {
          const Size size = source.spec().size();
          const Image fast = RunTiles(*backend_, *pair.fast, source, size, SampleType::kF32);
          const Image exact = RunTiles(*backend_, *pair.exact, source, size, SampleType::kF32);
          const std::span<const float> values = Floats(fast), expected = Floats(exact);
          for (size_t i = 0; i < values.size(); ++i) same += values[i] == expected[i] ? 1 : 0;
          all += static_cast<double>(values.size());
        }
        const std::string name = absl::StrCat(card.name, ", noise level ", variant.noise_level);
        std::printf("%s, %s: %.4f %% as in fp32\n", GetParam().c_str(), name.c_str(),
                    100 * same / all);
        EXPECT_LT(same, most * all) << name;
      }
    }
  }
  ImageSpec RandomSpec() {
    return {RandomInt(random_, 200, 300), RandomInt(random_, 200, 300), 3, SampleType::kU8};
  }
};

TEST_P(FastSpeedTest, ComputesPagesOfPrintOnce) {
  std::vector<Image> pages;
  for (int page = 0; page < 4; ++page) {
    pages.push_back(page % 2 == 0 ? PrintImage(RandomSpec(), random_)
                                  : SoftPrintImage(RandomSpec(), random_));
  }
  ExpectComputedOnce(pages, 0.01);
}

TEST_P(FastSpeedTest, ComputesSaturatedColoursOnce) {
  const std::pair<Color, Color> pairs[] = {{{255, 0, 0}, {0, 0, 255}},
                                           {{255, 0, 255}, {0, 255, 0}},
                                           {{0, 255, 255}, {255, 0, 0}},
                                           {{255, 255, 0}, {0, 0, 255}}};
  std::vector<Image> images;
  for (const auto& [a, b] : pairs) {
    for (const int side_px : {1, 2, 3, 5}) {
      images.push_back(CheckerImage({100, 80, 3, SampleType::kU8}, a, b, side_px));
    }
    images.push_back(PrintImage({150, 100, 3, SampleType::kU8}, a, b, random_));
    images.push_back(PrintImage({150, 100, 3, SampleType::kU8}, b, a, random_));
  }
  ExpectComputedOnce(images, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Isas, FastSpeedTest, ::testing::ValuesIn(FastIsas()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Isas, FastQualityTest, ::testing::ValuesIn(FastIsas()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace upscaled
