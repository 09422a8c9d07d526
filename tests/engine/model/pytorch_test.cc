// Well-known networks as PyTorch computes them, loaded from the files that people have of them.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/backend_list.h"
#include "engine/image/image.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/limits.h"
#include "engine/model/loader.h"
#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"
#include "tests/engine/model/changed_weights.h"
#include "tests/support/planes_file.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using std::filesystem::path;

// For values around 1.
constexpr float kTolerance = 1e-4f;
constexpr int kSkipped = 77;

Image ReadPlanes(const std::filesystem::path& path) {
  absl::StatusOr<Image> image = test::ReadPlanesFile(path);
  EXPECT_TRUE(image.ok()) << image.status();
  return image.ok() ? *std::move(image) : Image({1, 1, 3, SampleType::kF32});
}

float LargestDifference(const Image& a, const Image& b) {
  float largest = 0;
  for (int y = 0; y < a.spec().height_px; ++y) {
    for (int i = 0; i < a.spec().width_px * a.spec().channels; ++i) {
      const float difference = a.view().row_as<float>(y)[i] - b.view().row_as<float>(y)[i];
      largest = std::isnan(difference) ? difference : std::max(largest, std::abs(difference));
    }
  }
  return largest;
}

// The image in two tiles, one above the other or side by side, that meet anywhere.
std::vector<Rect> RandomTiles(Size image, std::mt19937& random) {
  const bool above = image.width == 1 || (image.height > 1 && test::RandomInt(random, 0, 1) == 0);
  if (above) {
    const int y = test::RandomInt(random, 1, image.height - 1);
    return {{0, 0, image.width, y}, {0, y, image.width, image.height - y}};
  }
  const int x = test::RandomInt(random, 1, image.width - 1);
  return {{0, 0, x, image.height}, {x, 0, image.width - x, image.height}};
}

Image RunTiles(Backend& backend, const Executable& executable, const Image& image,
               const std::vector<Rect>& tiles) {
  const int scale = executable.network().scale;
  const ImageSpec spec = image.spec();
  Image result({spec.width_px * scale, spec.height_px * scale, spec.channels, spec.type});
  std::vector<TileTask> tasks;
  for (const Rect& tile : tiles) tasks.push_back(test::MakeTask(executable, image, tile, result));
  const absl::Status run = test::RunImage(*backend.CreateStream(), executable, std::move(tasks));
  EXPECT_TRUE(run.ok()) << run;
  return result;
}

using NetworkOnDevice = std::tuple<const char*, std::string>;

class PytorchTest : public ::testing::TestWithParam<NetworkOnDevice> {
 protected:
  // Once for suites of the same script of this folder.
  static void WriteNetworks(const std::string& script) {
    if (std::exchange(script_, script) == script) return;
    folder_ = std::make_unique<client::TempFolder>();
    const uint32_t seed = test::FreshRandom()();
    const int status =
        std::system(absl::StrCat("/usr/bin/python3 -B -W ignore ", UPSCALED_NETWORKS, "/", script,
                                 " ", folder_->path().string(), " ", seed, " >/dev/null")
                        .c_str());
    ASSERT_TRUE(WIFEXITED(status));
    has_pytorch_ = WEXITSTATUS(status) != kSkipped;
    if (!has_pytorch_) return;
    ASSERT_EQ(WEXITSTATUS(status), 0);
  }

  void SetUp() override {
    if (!has_pytorch_) GTEST_SKIP() << "needs python3-torch";
    image_ = ReadPlanes(Folder() / "image.planes");
    expected_ = ReadPlanes(Folder() / "result.planes");
  }

  static path Folder() { return *folder_ / std::get<0>(GetParam()); }

  // Whole and in tiles, on the device.
  void ExpectResult(const char* file) const {
    const std::string& device = std::get<1>(GetParam());
    const auto backend =
        CreateBackend(device, {.threads = 1, .cache_folder = UPSCALED_TEST_PROGRAMS});
    if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto network = LoadNetworkFile(Folder() / file);
    ASSERT_TRUE(network.ok()) << network.status();
    const auto executable = (*backend)->Compile(*network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const Size size = image_.spec().size();
    const Image whole =
        RunTiles(**backend, **executable, image_, {{0, 0, size.width, size.height}});
    ASSERT_EQ(whole.spec(), expected_.spec());
    EXPECT_LE(LargestDifference(whole, expected_), kTolerance);
    std::mt19937 random = test::FreshRandom();
    const Image tiled = RunTiles(**backend, **executable, image_, RandomTiles(size, random));
    EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()));
  }

 private:
  static inline std::string script_;
  static inline std::unique_ptr<client::TempFolder> folder_;
  static inline bool has_pytorch_ = false;
  Image image_, expected_;
};

// As PyTorch and others export them.
class ExportedTest : public PytorchTest {
 public:
  static void SetUpTestSuite() { WriteNetworks("public_networks.py"); }
};

TEST_P(ExportedTest, GivesPytorchsResult) {
  ExpectResult("network.onnx");
  if (std::filesystem::exists(Folder() / "network.param")) ExpectResult("network.param");
}

// Only weights.
class PublishedTest : public PytorchTest {
 public:
  static void SetUpTestSuite() { WriteNetworks("published_weights.py"); }
};

TEST_P(PublishedTest, GivesPytorchsResult) { ExpectResult("network.pth"); }

class WrittenTest : public PublishedTest {};

// For every way of writing its tensors.
TEST_P(WrittenTest, IsTheSameNetwork) {
  const auto expected = LoadNetworkFile(Folder() / "network.pth");
  ASSERT_TRUE(expected.ok()) << expected.status();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() == ".planes") continue;
    SCOPED_TRACE(entry.path().filename());
    ++files;
    const auto network = LoadNetworkFile(entry.path());
    ASSERT_TRUE(network.ok()) << network.status();
    ASSERT_EQ(network->layers.size(), expected->layers.size());
    for (size_t i = 0; i < network->layers.size(); ++i) {
      EXPECT_EQ(network->layers[i].weights, expected->layers[i].weights) << i;
      EXPECT_EQ(network->layers[i].bias, expected->layers[i].bias) << i;
      EXPECT_EQ(network->layers[i].slope, expected->layers[i].slope) << i;
    }
  }
  EXPECT_EQ(files, 9);
}

// Changes a tensor of each network. A change is refused by name, or the network is sound, and no
// more values are read than the limit.
class ChangedTest : public PublishedTest {};

TEST_P(ChangedTest, IsRefusedOrSound) {
  constexpr int64_t kValuesInAll = 8'000'000;  // that are read of a network
  std::mt19937 random = test::FreshRandom();
  int changes = 0, refused = 0;
  absl::Duration slowest;
  std::string slowest_name;
  for (const auto& entry : std::filesystem::directory_iterator(Folder().parent_path())) {
    const auto file = OpenWeightsFile(entry.path() / "network.pth");
    ASSERT_TRUE(file.ok()) << file.status();
    const auto sound = BuildNetwork(**file, "");
    ASSERT_TRUE(sound.ok()) << sound.status();
    const int64_t tries = std::clamp<int64_t>(kValuesInAll / sound->WeightCount(), 3, 100);
    for (int64_t i = 0; i < tries; ++i) {
      const test::WeightsChange change = test::RandomChange(**file, random);
      const std::string name =
          absl::StrCat(entry.path().filename().string(), ": ", change.Describe());
      SCOPED_TRACE(name);
      const auto changed = test::ChangedFile::Create(**file, change);
      ++changes, ++refused;
      if (!changed.ok()) continue;  // any format's parser refuses it
      const absl::Time begin = absl::Now();
      const absl::StatusOr<Network> network = BuildNetwork(**changed, sound->architecture);
      if (const absl::Duration time = absl::Now() - begin; time > slowest) {
        slowest = time, slowest_name = name;
      }
      EXPECT_LE((*changed)->values_read(), sound->WeightCount() + kMaxWeights);
      if (network.ok()) {
        --refused;
        EXPECT_TRUE(network->Validate().ok()) << network->Validate();
      } else {
        EXPECT_TRUE(absl::IsInvalidArgument(network.status()) ||
                    absl::IsUnimplemented(network.status()))
            << network.status();
      }
    }
  }
  EXPECT_GT(refused, changes / 4);
  std::cout << refused << " of " << changes
            << " refused, the slowest to be built or refused: " << slowest_name << ", "
            << absl::ToDoubleMilliseconds(slowest) << " ms\n";
}

std::string NameOf(const ::testing::TestParamInfo<NetworkOnDevice>& info) {
  std::string name = absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param));
  std::erase(name, '-');
  return name;
}

const auto kDevices =
    ::testing::ValuesIn(std::vector<std::string>(absl::StrSplit(UPSCALED_PYTORCH_DEVICES, ' ')));

INSTANTIATE_TEST_SUITE_P(Networks, ExportedTest,
                         ::testing::Combine(::testing::Values("srvgg-x2", "srvgg-x4", "rrdb-x4",
                                                              "operators", "excite"),
                                            kDevices),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(
    Networks, PublishedTest,
    ::testing::Combine(
        ::testing::Values("compact-x4", "compact-x2-small", "compact-x1", "real-esrgan-x4",
                          "real-esrgan-x2", "real-esrgan-x1", "bsrgan-x2", "esrgan-x4", "esrgan-x1",
                          "esrgan-x8", "esrgan-plus", "span-x4", "span-x2", "espcn-x2",
                          "espcn-x2-residual", "artcnn-x2", "artcnn-x4", "artcnn-luma-x2",
                          "artcnn-luma-x3", "dis-x4", "dis-x3-depthwise", "dis-x1", "dis-luma-x2",
                          "plksr-x4", "real-plksr-x2", "real-plksr-x3-small", "real-plksr-x4-norm",
                          "real-plksr-x2-norm", "mosr-x4", "mosr-x2-mean", "cunet-x1", "cunet-x2",
                          "cugan-x2", "cugan-x2-odd", "cugan-fast-x2", "cugan-x3", "cugan-x4",
                          "cugan-pro-x2", "compact-luma-x2", "compact-rgba-x4", "esrgan-luma-x4",
                          "real-esrgan-rgba-x2", "edsr-x2", "edsr-x4-large", "edsr-x3-basicsr",
                          "rcan-x2", "rcan-x4-basicsr", "srresnet-x4", "srresnet-x1", "srresnet-x3",
                          "swift-srgan-x2", "swift-srgan-x4", "spanplus-x4", "spanplus-x2-stages",
                          "spanplus-x1", "nunif-vgg7", "spsr-x4", "spsr-x2", "nunif-upconv7",
                          "moesr-x4", "moesr-x3-shuffle", "moesr-x4-nearest", "moesr-luma-x1"),
        kDevices),
    NameOf);

// GPUs refuse attention, samples between pixels, and maxima.
INSTANTIATE_TEST_SUITE_P(
    Attention, PublishedTest,
    ::testing::Combine(
        ::testing::Values("swinir-x2", "swinir-x3-direct", "swinir-x4-real", "swinir-x1-jpeg",
                          "swinir-luma-x1", "drct-x2", "drct-x4", "swin-unet-x1", "swin-unet-x2",
                          "swin-unet-x4", "swin-unet-x4-norm", "hat-x2", "hat-x4", "dat-x2",
                          "dat-x3-light", "dat-x4-square", "swin2sr-x2", "swin2sr-x4-real",
                          "srformer-x2", "srformer-x4-odd", "srformer-x3-light", "srformer-x1-odd",
                          "scunet-x1", "real-plksr-x4-dysample", "real-plksr-x3-dysample",
                          "mosr-x2-dysample", "spanplus-x2-dysample", "omnisr-x2", "omnisr-x4",
                          "omnisr-x3-plain", "rtmosr-x4", "rtmosr-x2-blocks", "rtmosr-x3-plain",
                          "moesr-x2-dysample"),
        ::testing::Values("reference", "cpu")),
    NameOf);

INSTANTIATE_TEST_SUITE_P(Networks, ChangedTest,
                         ::testing::Combine(::testing::Values("compact-x4"),
                                            ::testing::Values("reference")),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(Networks, WrittenTest,
                         ::testing::Combine(::testing::Values("compact-x4", "esrgan-x8", "span-x4",
                                                              "artcnn-x2", "dis-x4", "cugan-x2"),
                                            ::testing::Values("reference")),
                         NameOf);

}  // namespace
}  // namespace upscaled
