// Real networks against the outputs of an independent float64 implementation.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/sanitized.h"
#include "engine/model/loader.h"
#include "engine/model/repository.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/golden_files.h"
#include "tests/engine/backends/tested_devices.h"
#include "tests/support/run_image.h"

namespace upscaled {
namespace {

using test::CompareLevels;
using test::CreateTestedBackend;
using test::Golden;
using test::LevelDifference;
using test::ListGoldens;
using test::MaxAbsError;
using test::ReadNpy;
using test::ReadPng;
using test::SharedFolder;

constexpr float kMaxError = 1e-4f;
constexpr double kMinEqualShare = 0.999;

Image MakeResult(const Image& source, int scale, SampleType type) {
  const ImageSpec& spec = source.spec();
  return Image({spec.width_px * scale, spec.height_px * scale, 3, type});
}

std::filesystem::path GoldenPath(const Golden& golden, const char* extension) {
  return SharedFolder() / "golden" / golden.model / (golden.image + extension);
}

void RunWhole(Stream& stream, const Executable& executable, const Image& source, Image& result) {
  const TileTask task = test::WholeTask(executable, source.view(), result.mutable_view());
  const absl::Status status = test::RunImage(stream, executable, {task});
  ASSERT_TRUE(status.ok()) << status;
}

void CheckFloats(const char* device, const Golden& golden, const Image& result) {
  const Image expected = ReadNpy(GoldenPath(golden, ".npy"));
  ASSERT_EQ(result.spec(), expected.spec());
  const float error = MaxAbsError(result.view(), expected.view());
  std::printf("| %-9s | %-43s | %-8s | %.2e |\n", device, golden.model.c_str(),
              golden.image.c_str(), error);
  EXPECT_LE(error, kMaxError);
}

void CheckLevels(const Golden& golden, const Image& result) {
  const Image expected = ReadPng(GoldenPath(golden, ".png"));
  ASSERT_EQ(result.spec(), expected.spec());
  const LevelDifference difference = CompareLevels(result.view(), expected.view());
  EXPECT_LE(difference.max_levels, 1);
  // Or one sample with an exact value between two levels.
  const double all_but_one = 1.0 - 1.0 / (3.0 * static_cast<double>(result.spec().size().Area()));
  EXPECT_GE(difference.equal_share, std::min(kMinEqualShare, all_but_one));
}

class GoldenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (goldens_.empty()) GTEST_SKIP() << "no goldens under " << SharedFolder();
  }

  absl::StatusOr<Network> Load(const Golden& golden) {
    return LoadNetworkFile(SharedFolder() / "models" / (golden.model + ".param"));
  }

  const std::vector<Golden> goldens_ = ListGoldens();
};

TEST_F(GoldenTest, BordersInferredFromTheLayersAreThoseOfTheIndex) {
  for (const Golden& golden : goldens_) {
    SCOPED_TRACE(golden.model);
    const absl::StatusOr<Network> network = Load(golden);
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->scale, golden.scale);
    EXPECT_EQ(network->pad_px, golden.pad_px);
    EXPECT_EQ(network->align_px, golden.align_px);
  }
}

class GoldenDeviceTest : public GoldenTest, public ::testing::WithParamInterface<std::string> {};

// Prints the table of errors: device, model, image, the largest of any sample.
TEST_P(GoldenDeviceTest, EveryNetwork) {
  const auto backend = CreateTestedBackend(GetParam());
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const std::unique_ptr<Stream> stream = (*backend)->CreateStream();
  // The plain loops are slow. They leave out one of the two larger images. Levels are rounded alike
  // for every size, so the smallest image sets theirs. With sanitizers they would take half an
  // hour, so they run only the smallest: it shows every layer.
  const bool slow = GetParam() == "reference";
  for (const Golden& golden : goldens_) {
    const bool smallest = golden.image == "tiny";
    if (slow && !smallest && (kSanitized || golden.image == "lineart")) continue;
    SCOPED_TRACE(golden.model + " " + golden.image);
    const absl::StatusOr<Network> network = Load(golden);
    ASSERT_TRUE(network.ok()) << network.status();
    const auto executable = (*backend)->Compile(*network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();

    const Image source = ReadPng(SharedFolder() / "golden/inputs" / (golden.image + ".png"));
    Image floats = MakeResult(source, golden.scale, SampleType::kF32);
    RunWhole(*stream, **executable, source, floats);
    CheckFloats(GetParam().c_str(), golden, floats);
    if (slow && !smallest) continue;
    Image levels = MakeResult(source, golden.scale, SampleType::kU8);
    RunWhole(*stream, **executable, source, levels);
    CheckLevels(golden, levels);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, GoldenDeviceTest, ::testing::ValuesIn(test::TestedDevices()),
                         [](const auto& info) { return info.param; });

class BundledModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BundledModelTest, GivesWhatItsTrainerComputed) {
  const std::filesystem::path data = UPSCALED_TEST_DATA;
  const auto repository = ModelRepository::Open({UPSCALED_BUNDLED_MODELS});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const auto backend = CreateTestedBackend(GetParam());
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  for (const ModelCard& card : repository->models()) {
    const Image source = ReadPng(data / card.name / "input.png");
    for (const ModelVariant& variant : card.variants) {
      SCOPED_TRACE(absl::StrCat(card.name, ", noise level ", variant.noise_level));
      const absl::StatusOr<Network> network = LoadNetwork(card, variant);
      ASSERT_TRUE(network.ok()) << network.status();
      const auto executable = (*backend)->Compile(*network, Precision::kExact);
      ASSERT_TRUE(executable.ok()) << executable.status();
      const Image expected = ReadNpy(data / card.name / variant.weights.stem().concat(".npy"));
      Image result = MakeResult(source, variant.scale, SampleType::kF32);
      ASSERT_EQ(result.spec(), expected.spec());
      const TileTask task = test::WholeTask(**executable, source.view(), result.mutable_view());
      const absl::Status status = (*backend)->CreateStream()->Run(**executable, {&task, 1});
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_LE(MaxAbsError(result.view(), expected.view()), kMaxError);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BundledModelTest, ::testing::ValuesIn(test::TestedDevices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace upscaled
