// The cpu backend's own options: instruction sets, forced kernels, threads. conformance_tests tests
// every backend's promises.
#include "engine/backends/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/base/cpu_info.h"
#include "engine/base/string_view.h"
#include "engine/pipeline/reach.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::AppendConv;
using test::Describe;
using test::FreshRandom;
using test::InputAlone;
using test::RandomAttentionNetwork;
using test::RandomImage;
using test::RandomInt;
using test::RandomNetwork;
using test::RunTiles;

constexpr float kTolerance = 1e-4f;  // relative to the largest value, at least to 1

void ExpectNear(const Image& actual, const Image& expected) {
  const size_t count = expected.bytes() / sizeof(float);
  const float* a = reinterpret_cast<const float*>(actual.view().data);
  const float* b = reinterpret_cast<const float*>(expected.view().data);
  float largest = 1;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(b[i]));
  for (size_t i = 0; i < count; ++i) ASSERT_NEAR(a[i], b[i], kTolerance * largest) << "value " << i;
}

bool SameBytes(const Image& a, const Image& b) {
  return a.spec() == b.spec() && std::memcmp(a.view().data, b.view().data, a.bytes()) == 0;
}

// A network with the kernel ("" = any), and `adds`: one with a crop and an add.
Network RandomNetworkFor(const std::string& kernel, bool adds, std::mt19937& random) {
  const bool attends =
      kernel.find("attention") != std::string::npos;  // other networks do not, nor do these crop
  for (;;) {
    Network network = attends ? RandomAttentionNetwork(random) : RandomNetwork(random);
    const auto adds_crop = [&](const Layer& layer) {
      return layer.op == Op::kAdd &&
             std::any_of(layer.inputs.begin(), layer.inputs.end(),
                         [&](int input) { return network.layers[input].op == Op::kCrop; });
    };
    if (adds && !attends && std::none_of(network.layers.begin(), network.layers.end(), adds_crop)) {
      continue;
    }
    if (kernel.empty() || std::any_of(network.layers.begin(), network.layers.end(),
                                      cpu::FindKernel(kernel)->supports)) {
      return network;
    }
  }
}

// Instruction set and forced kernel ("" = the best).
class CpuVariantTest : public ::testing::TestWithParam<std::tuple<cpu::Isa, std::string>> {
 protected:
  BackendOptions Options() const {
    BackendOptions options;
    options.cpu_isa = cpu::IsaName(std::get<0>(GetParam()));
    options.kernel = std::get<1>(GetParam());
    options.poisons_memory = true;
    return options;
  }
};

TEST_P(CpuVariantTest, AgreesWithTheReferenceAndWithItselfInTiles) {
  std::mt19937 random = FreshRandom();
  const auto backend = CreateCpuBackend(Options());
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto reference = CreateReferenceBackend({});
  ASSERT_TRUE(reference.ok()) << reference.status();
  for (int i = 0; i < 4; ++i) {
    const Network network = RandomNetworkFor(std::get<1>(GetParam()), /*adds=*/i == 0, random);
    SCOPED_TRACE(Describe(network));
    const auto executable = (*backend)->Compile(network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto expected = (*reference)->Compile(network, Precision::kExact);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const Size size{RandomInt(random, 1, 60), RandomInt(random, 1, 60)};
    const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random);
    const Image whole = RunTiles(**backend, **executable, source, size);
    ExpectNear(whole, RunTiles(**reference, **expected, source, size));
    const Size tile{RandomInt(random, 5, 60), RandomInt(random, 5, 60)};
    EXPECT_TRUE(SameBytes(RunTiles(**backend, **executable, source, tile), whole))
        << "image " << size.width << "x" << size.height << ", tiles of " << tile.width << "x"
        << tile.height;
    if (HasFailure()) return;
  }
}

std::vector<std::string> ForcedKernels() {
  std::vector<std::string> names = {""};
  for (const cpu::KernelEntry& kernel : cpu::ListKernels()) {
    // Networks with sampling or attention in grids read anywhere, so they are never cut into tiles:
    // tests of kernels, of cells and of published networks have them.
    const bool anywhere = kernel.name == "sample" || kernel.name == "part_attention";
    if (kernel.precision == Precision::kExact && !anywhere) names.emplace_back(kernel.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Variants, CpuVariantTest,
                         ::testing::Combine(::testing::ValuesIn(cpu::ListIsas()),
                                            ::testing::ValuesIn(ForcedKernels())),
                         [](const auto& info) {
                           const std::string& kernel = std::get<1>(info.param);
                           return std::string(cpu::IsaName(std::get<0>(info.param))) + "_" +
                                  (kernel.empty() ? "best" : kernel);
                         });

void ExpectError(const BackendOptions& options, std::initializer_list<std::string_view> parts) {
  const auto backend = CreateCpuBackend(options);
  ASSERT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument) << backend.status();
  for (const std::string_view part : parts) {
    EXPECT_TRUE(absl::StrContains(backend.status().message(), ToAbsl(part)))
        << backend.status() << " lacks '" << part << "'";
  }
}

TEST(CpuOptionsTest, UnknownInstructionSetListsThoseThatRun) {
  BackendOptions options;
  options.cpu_isa = "mmx";
  ExpectError(options, {"cpu_isa 'mmx'", cpu::IsaName(cpu::ListIsas().front()),
                        cpu::IsaName(cpu::ListIsas().back())});
}

TEST(CpuOptionsTest, UnknownKernelListsThoseThereAre) {
  BackendOptions options;
  options.kernel = "magic";
  ExpectError(options, {"kernel 'magic'", "winograd_f6", "direct", "elementwise"});
}

TEST(CpuOptionsTest, KernelsThatAreNotBuiltAreSaidToBe) {
  for (const std::string_view missing : cpu::ListMissingKernels()) {
    BackendOptions options;
    options.kernel = missing;
    EXPECT_EQ(CreateCpuBackend(options).status(),
              absl::UnimplementedError(absl::StrCat("kernel '", options.kernel,
                                                    "' is not built: its library was not found")));
  }
}

TEST(CpuOptionsTest, NegativeThreads) {
  BackendOptions options;
  options.threads = -1;
  ExpectError(options, {"threads is -1"});
}

TEST(CpuOptionsTest, ThreadsAreStreams) {
  BackendOptions options;
  options.threads = 5;
  EXPECT_EQ((*CreateCpuBackend(options))->StreamCount(), 5);
  EXPECT_EQ((*CreateCpuBackend({}))->StreamCount(), AvailableCpuCount());
}

absl::Status CompileError(const Network& network, const BackendOptions& options) {
  return (*CreateCpuBackend(options))->Compile(network, Precision::kExact).status();
}

TEST(CpuOptionsTest, ForcedKernelThatSupportsNoLayerIsRefused) {
  Network network = InputAlone();
  AppendConv(network, 3, 3);
  BackendOptions options;
  for (const char* kernel : {"", "direct"}) {
    options.kernel = kernel;
    EXPECT_TRUE(CompileError(network, options).ok()) << CompileError(network, options);
  }
  options.kernel = "winograd_f4";
  EXPECT_EQ(CompileError(network, options),
            absl::UnimplementedError("kernel 'winograd_f4' supports no layer of the network"));
}

TEST(CpuLimitsTest, PackedWeights) {
  Network network = InputAlone();
  AppendConv(network, 8192, 1);
  AppendConv(network, 1, 31);
  AppendConv(network, 3, 1);
  EXPECT_EQ(CompileError(network, {}),
            absl::ResourceExhaustedError(
                "layer 'conv2' brings the packed weights to 1471 MiB, the limit is 1024"));
}

// A skip of 8000 channels. It waits for the rows ten 31x31 convolutions read ahead.
TEST(CpuLimitsTest, WorkspaceOfTheSmallestTile) {
  Network network = InputAlone();
  AppendConv(network, 8000, 1);
  AppendConv(network, 3, 1);
  for (int i = 0; i < 10; ++i) AppendConv(network, 3, 31);
  network.layers.push_back({.op = Op::kConcat,
                            .name = "join",
                            .inputs = {1, static_cast<int>(network.layers.size()) - 1},
                            .out_channels = 8003,
                            .in_channels = 8000});
  AppendConv(network, 3, 1);
  const absl::Status status = CompileError(network, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(absl::StartsWith(status.message(), "a tile of 120x72 pixels needs ")) << status;
  EXPECT_TRUE(absl::EndsWith(status.message(), " MiB of workspace, the limit is 1024")) << status;
}

// Weights of blocks. 160 blocks make a tile's halo too wide to leave room for Winograd's.
Network DeepNetworkWithWeights(std::mt19937& random) {
  Network network = test::DeepNetwork(160);
  std::normal_distribution<float> normal(0, 0.02f);
  for (Layer& layer : network.layers) {
    if (layer.op != Op::kConv) continue;
    layer.weights.resize(size_t{9} * layer.in_channels * layer.out_channels);
    for (float& weight : layer.weights) weight = normal(random);
    layer.activation = Activation::kRelu;
  }
  return network;
}

// By Winograd, as larger ones are in rows; small ones in tiles as well.
TEST(CpuWholeImagesTest, DeepNetworksComputeSmallImagesWhole) {
  std::mt19937 random = FreshRandom();
  const Network network = DeepNetworkWithWeights(random);
  BackendOptions direct;
  direct.kernel = "direct";
  const auto backend = CreateCpuBackend({}), plain = CreateCpuBackend(direct);
  ASSERT_TRUE(backend.ok() && plain.ok()) << backend.status() << plain.status();
  const auto executable = (*backend)->Compile(network, Precision::kExact);
  const auto expected = (*plain)->Compile(network, Precision::kExact);
  ASSERT_TRUE(executable.ok() && expected.ok()) << executable.status() << expected.status();

  const Size size{RandomInt(random, 1, 40), RandomInt(random, 1, 40)};
  EXPECT_EQ((*executable)->PreferredTileOf(size), size);
  EXPECT_TRUE((*executable)->ComputesTiles(size));
  EXPECT_EQ(ReachOf(**executable, size).halo_px(), kWholeImageHaloPx);
  for (const Size other : {Size{1025, 1000}, Size{1025, 1}}) {
    EXPECT_FALSE((*executable)->ComputesTiles(other));
    EXPECT_TRUE((*executable)->PlanRowStream(other).has_value());
  }
  const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random);
  const Image whole = RunTiles(**backend, **executable, source, size);
  const Image other = RunTiles(**plain, **expected, source, size);
  ExpectNear(whole, other);
  EXPECT_FALSE(SameBytes(whole, other)) << "it was computed by the same kernels";
  const Size tile{RandomInt(random, 5, 40), RandomInt(random, 5, 40)};
  EXPECT_TRUE(SameBytes(RunTiles(**backend, **executable, source, tile), whole))
      << "image " << size.width << "x" << size.height << ", tiles of " << tile.width << "x"
      << tile.height;
}

TEST(CpuWholeImagesTest, ACancelledTileEndsBetweenStages) {
  std::mt19937 random = FreshRandom();
  const auto backend = CreateCpuBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(DeepNetworkWithWeights(random), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Size size{20, 10};
  const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random);
  const int scale = (*executable)->network().scale;
  Image result({scale * size.width, scale * size.height, 3, SampleType::kF32});
  Cancellation cancellation;
  TileTask task{.plan = std::make_shared<const TilePlan>(
                    (*executable)->Plan({0, 0, size.width, size.height}, size)),
                .src = source.view(),
                .src_rect = {0, 0, size.width, size.height},
                .dst = result.mutable_view(),
                .cancellation = &cancellation};
  const auto stream = (*backend)->CreateStream();
  const Image expected = RunTiles(**backend, **executable, source, size);
  ASSERT_TRUE(stream->Run(**executable, {&task, 1}).ok());
  EXPECT_TRUE(SameBytes(result, expected)) << "not cancelled";

  cancellation.Cancel(absl::CancelledError("gone"));
  Image poisoned = RandomImage(result.spec(), random);
  const std::vector<uint8_t> before(poisoned.view().row(0), poisoned.view().row(1));
  task.dst = poisoned.mutable_view();
  EXPECT_TRUE(stream->Run(**executable, {&task, 1}).ok());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), poisoned.view().row(0)));
}

#if defined(__x86_64__)
// Values of 1e-40: a CPU is slow on them, and they are invisible.
TEST(CpuBackendTest, DenormalsAreZeroAndTheCallersThreadIsAsBefore) {
  Network network = InputAlone();
  AppendConv(network, 32, 3);
  AppendConv(network, 3, 1);
  std::fill(network.layers[1].weights.begin(), network.layers[1].weights.end(), 1e-30f);
  std::fill(network.layers[2].weights.begin(), network.layers[2].weights.end(), 1e-11f);
  std::mt19937 random = FreshRandom();
  const Image source = RandomImage({300, 20, 3, SampleType::kU8}, random);
  for (const int threads : {1, 2}) {
    const auto backend = CreateCpuBackend({.threads = threads});
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto executable = (*backend)->Compile(network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const unsigned before = __builtin_ia32_stmxcsr();
    const Image result = RunTiles(**backend, **executable, source, {300, 20}, SampleType::kF32);
    EXPECT_EQ(__builtin_ia32_stmxcsr() & 0xffc0, before & 0xffc0);
    const float* const values = reinterpret_cast<const float*>(result.view().data);
    EXPECT_EQ(std::count(values, values + result.bytes() / sizeof(float), 0.0f),
              static_cast<int64_t>(result.bytes() / sizeof(float)));
  }
}
#endif

}  // namespace
}  // namespace upscaled
