// The opencl backend's own options, limits and precisions. opencl_conformance_tests tests every
// backend's promises.
#include "engine/backends/opencl/opencl_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/kernel_list.h"
#include "engine/backends/reference/reference_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cached_tile.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::AppendConv;
using test::Describe;
using test::FreshRandom;
using test::InputAlone;
using test::RandomImage;
using test::RandomInt;
using test::RunTiles;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

BackendOptions Options(const std::string& kernel = "") {
  BackendOptions options;
  options.kernel = kernel;
  options.cache_folder = UPSCALED_TEST_PROGRAMS;
  return options;
}

std::vector<float> Values(const Image& image) {
  const float* const begin = reinterpret_cast<const float*>(image.view().data);
  return {begin, begin + image.bytes() / sizeof(float)};
}

// Relative to the largest value, at least to 1.
void ExpectNear(const Image& actual, const Image& expected, float tolerance) {
  const std::vector<float> a = Values(actual), b = Values(expected);
  ASSERT_EQ(a.size(), b.size());
  float largest = 1;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * largest) << i;
}

class OpenClBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto backend = CreateOpenClBackend("opencl", Options());
    if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
  }

  // Networks with `kernel` ("" = any) agree with the reference, and with themselves in tiles.
  void CheckNetworks(const std::string& kernel, Precision precision, float tolerance) {
    const auto backend = CreateOpenClBackend("opencl", Options(kernel));
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto reference = CreateReferenceBackend({});
    for (int i = 0; i < 4; ++i) {
      const Network network = RandomNetworkFor(kernel, precision);
      SCOPED_TRACE(Describe(network));
      const auto executable = (*backend)->Compile(network, precision);
      ASSERT_TRUE(executable.ok()) << executable.status();
      EXPECT_EQ((*executable)->precision(), precision);
      const auto exact = (*reference)->Compile(network, Precision::kExact);
      ASSERT_TRUE(exact.ok()) << exact.status();
      const Size size{RandomInt(random_, 1, 60), RandomInt(random_, 1, 60)};
      const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random_);
      const Image whole = RunTiles(**backend, **executable, source, size);
      ExpectNear(whole, RunTiles(**reference, **exact, source, size), tolerance);
      const Size tile{RandomInt(random_, 5, 60), RandomInt(random_, 5, 60)};
      const Image tiled = RunTiles(**backend, **executable, source, tile);
      EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()))
          << "tiles of " << tile.width << "x" << tile.height;
      if (HasFailure()) return;
    }
  }

  Network RandomNetworkFor(const std::string& kernel, Precision precision) {
    for (;;) {
      Network network = precision == Precision::kFast ? test::RandomFastNetwork(random_)
                                                      : test::RandomNetwork(random_);
      if (kernel.empty() ||
          std::any_of(network.layers.begin(), network.layers.end(),
                      (*FindForcedKernel("opencl", opencl::ListKernels(), kernel))->supports)) {
        return network;
      }
    }
  }

  std::mt19937 random_ = FreshRandom();
};

TEST_F(OpenClBackendTest, EveryForcedKernel) {
  for (const opencl::KernelEntry& info : opencl::ListKernels()) {
    SCOPED_TRACE(info.name);
    CheckNetworks(std::string(info.name), Precision::kExact, 1e-4f);
  }
}

// fp16 has 11 bits; a random network of a dozen layers loses a few of them.
TEST_F(OpenClBackendTest, FastPrecisionStaysNearTheReference) {
  CheckNetworks("", Precision::kFast, 1e-2f);
}

TEST_F(OpenClBackendTest, FastPrecisionHalvesTheMemoryOfTiles) {
  const auto backend = CreateOpenClBackend("opencl", Options());
  const Network network = test::RandomFastNetwork(random_);
  SCOPED_TRACE(Describe(network));
  const auto exact = (*backend)->Compile(network, Precision::kExact);
  const auto fast = (*backend)->Compile(network, Precision::kFast);
  ASSERT_TRUE(exact.ok() && fast.ok()) << exact.status() << fast.status();
  EXPECT_LT((*fast)->WorkspaceBytes({300, 300}), (*exact)->WorkspaceBytes({300, 300}));
}

TEST_F(OpenClBackendTest, ACachedTileGoesOnWhereItStopped) {
  const auto backend = CreateOpenClBackend("opencl", Options());
  ASSERT_TRUE(backend.ok()) << backend.status();
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    test::ExpectGoesOn(**backend, precision, random_);
  }
}

TEST_F(OpenClBackendTest, SaysWhatItIs) {
  const auto backend = CreateOpenClBackend("opencl", Options());
  EXPECT_THAT(std::string((*backend)->name()), StartsWith("opencl:"));
  const PluginDevices enumeration = EnumerateOpenClDevices();
  ASSERT_FALSE(enumeration.devices.empty());
  EXPECT_EQ(enumeration.devices[0].name, (*backend)->name());
  EXPECT_EQ(enumeration.devices[0].description, (*backend)->description());
  EXPECT_THAT(enumeration.devices[0].description, HasSubstr("compute units"));
}

TEST_F(OpenClBackendTest, TellsACacheFolderThatItCannotUse) {
  const std::string file = absl::StrCat(::testing::TempDir(), "/opencl_backend_test.file");
  std::ofstream(file) << "no folder";
  BackendOptions options;
  options.cache_folder = file;
  const auto backend = CreateOpenClBackend("opencl", options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT((*backend)->description(),
              HasSubstr(absl::StrCat("compiles at every start: ", file, " is no folder")));
  std::filesystem::remove(file);
}

TEST_F(OpenClBackendTest, UnknownDeviceTellsWhatThereIs) {
  const auto backend = CreateOpenClBackend("opencl:77.0", {});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(backend.status().message()),
              AllOf(HasSubstr("no OpenCL device 'opencl:77.0'"), HasSubstr("there is opencl:")));
}

TEST_F(OpenClBackendTest, RefusesWhatItCannotHonour) {
  const auto unknown = CreateOpenClBackend("opencl", Options("magic"));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()),
              AllOf(HasSubstr("kernel 'magic'"), HasSubstr("winograd_row4, conv3x3, conv, ")));
  BackendOptions isa;
  isa.cpu_isa = "avx2";
  EXPECT_EQ(CreateOpenClBackend("opencl", isa).status(),
            absl::InvalidArgumentError("cpu_isa 'avx2' is an option of the cpu backend"));
}

TEST_F(OpenClBackendTest, ForcedKernelThatSupportsNoLayerIsRefused) {
  Network network = InputAlone();
  AppendConv(network, 3, 3);
  const auto status = [&](const char* kernel) {
    const auto backend = CreateOpenClBackend("opencl", Options(kernel));
    return (*backend)->Compile(network, Precision::kExact).status();
  };
  EXPECT_TRUE(status("conv").ok()) << status("conv");
  EXPECT_EQ(status("transposed"),
            absl::UnimplementedError("kernel 'transposed' supports no layer of the network"));
}

TEST_F(OpenClBackendTest, SmallImagesOfDeepNetworksAreOneTile) {
  const auto compile = [](int layers) {
    Network network = InputAlone();
    for (int i = 1; i < layers; ++i) AppendConv(network, 16, 3);
    AppendConv(network, 3, 3);
    const auto backend = CreateOpenClBackend("opencl", Options());
    auto executable = (*backend)->Compile(network, Precision::kExact);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  };
  const auto shallow = compile(4), deep = compile(200);
  const Size image{240, 135};
  EXPECT_FALSE(shallow->ComputesWhole(image));
  EXPECT_TRUE(deep->ComputesWhole(image));
  EXPECT_FALSE(deep->ComputesWhole({kMaxWholeImagePx + 1, 16}));
  EXPECT_GT(deep->WorkspaceBytes(deep->PreferredTile()), deep->WorkspaceBytes({16, 16}));
  EXPECT_GE(deep->WorkspaceBytes(image), deep->WorkspaceBytes(deep->PreferredTile()));
}

TEST_F(OpenClBackendTest, TileThatDoesNotFitNamesTheLayerAndTheLimit) {
  Network network = InputAlone();
  AppendConv(network, 8192, 1);
  AppendConv(network, 3, 1);
  const auto backend = CreateOpenClBackend("opencl", Options());
  const auto executable = (*backend)->Compile(network, Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  // 8192 channels of a megapixel: 2^33 values, kernels count to 2^31.
  const Image source({1024, 1024, 3, SampleType::kU8});
  Image result({1024, 1024, 3, SampleType::kU8});
  const TileTask task = test::WholeTask(**executable, source.view(), result.mutable_view());
  const absl::Status status = (*backend)->CreateStream()->Run(**executable, {&task, 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("layer 'conv1' of the tile needs a buffer of 32768 MiB, the limit of opencl"));
}

}  // namespace
}  // namespace upscaled
