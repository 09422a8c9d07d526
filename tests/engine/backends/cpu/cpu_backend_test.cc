// The cpu backend's own options: instruction sets, forced kernels, threads. What every backend
// promises is tested by conformance_tests.
#include "engine/backends/cpu/cpu_backend.h"

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/base/cpu_info.h"
#include "engine/base/string_view.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::Describe;
using test::FreshRandom;
using test::RandomImage;
using test::RandomInt;
using test::RandomNetwork;

constexpr float kTolerance = 1e-4f;  // relative to the largest value, at least to 1

Image RunTiles(Backend& backend, const Executable& executable, const Image& source, Size tile) {
  const Size size = source.spec().size();
  const int scale = executable.network().scale;
  Image result({size.width * scale, size.height * scale, 3, SampleType::kF32});
  const auto stream = backend.CreateStream();
  for (int y = 0; y < size.height; y += tile.height) {
    for (int x = 0; x < size.width; x += tile.width) {
      const Rect part = Intersect({x, y, tile.width, tile.height}, {0, 0, size.width, size.height});
      const Rect input = executable.InputRect(part, size);
      const TileTask task{source.view().Crop(input), input, size, part,
                          result.mutable_view().Crop(Scale(part, scale))};
      const absl::Status status = stream->Run(executable, {&task, 1});
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  return result;
}

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

// Instruction set and forced kernel ("" = the best).
class CpuVariantTest : public ::testing::TestWithParam<std::tuple<cpu::Isa, std::string>> {
 protected:
  BackendOptions Options() const {
    BackendOptions options;
    options.cpu_isa = cpu::IsaName(std::get<0>(GetParam()));
    options.kernel = std::get<1>(GetParam());
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
    const Network network = RandomNetwork(random);
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
        << "picture " << size.width << "x" << size.height << ", tiles of " << tile.width << "x"
        << tile.height;
    if (HasFailure()) return;
  }
}

std::vector<std::string> ForcedKernels() {
  std::vector<std::string> names = {""};
  for (const cpu::KernelInfo& kernel : cpu::ListKernels()) names.emplace_back(kernel.name);
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

TEST(CpuOptionsTest, FastPrecisionIsRefusedClearly) {
  std::mt19937 random = FreshRandom();
  const auto backend = CreateCpuBackend({});
  const auto executable = (*backend)->Compile(RandomNetwork(random), Precision::kFast);
  EXPECT_EQ(executable.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(executable.status().message(), "'fast'"));
}

TEST(CpuOptionsTest, UnsupportedLayerIsNamed) {
  std::mt19937 random = FreshRandom();
  Network network = RandomNetwork(random);
  // Squeeze and excite: the result scaled by its own mean.
  Layer pool;
  pool.op = Op::kGlobalAveragePool;
  pool.name = "squeeze";
  pool.inputs = {static_cast<int>(network.layers.size()) - 1};
  pool.in_channels = pool.out_channels = 3;
  Layer scale;
  scale.op = Op::kMul;
  scale.name = "excite";
  scale.inputs = {pool.inputs[0], pool.inputs[0] + 1};
  scale.in_channels = scale.out_channels = 3;
  network.layers.push_back(pool);
  network.layers.push_back(scale);
  const auto executable = (*CreateCpuBackend({}))->Compile(network, Precision::kExact);
  EXPECT_EQ(executable.status().code(), absl::StatusCode::kUnimplemented) << executable.status();
  EXPECT_TRUE(absl::StrContains(executable.status().message(), "squeeze"));
}

}  // namespace
}  // namespace upscaled
