// Well-known networks as PyTorch computes them, loaded from the files that its exporters write.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/backend_list.h"
#include "engine/image/image.h"
#include "engine/model/loader.h"
#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

// For values around 1.
constexpr float kTolerance = 1e-4f;
constexpr int kSkipped = 77;

struct Case {
  const char* script;  // of this folder; writes the network's files
  const char* network;
  std::vector<const char*> files;
};

std::ostream& operator<<(std::ostream& out, const Case& test_case) {
  return out << test_case.network;
}

// Interleaved float samples of a .planes file, see public_networks.py.
Image ReadPlanes(const std::filesystem::path& path) {
  const std::string bytes = client::ReadText(path);
  std::array<int32_t, 3> shape = {};  // channels, height, width
  EXPECT_GE(bytes.size(), sizeof shape) << path;
  std::memcpy(shape.data(), bytes.data(), sizeof shape);
  const auto [channels, height, width] = shape;
  EXPECT_EQ(bytes.size(), sizeof shape + sizeof(float) * channels * height * width);
  Image image({width, height, channels, SampleType::kF32});
  const char* value = bytes.data() + sizeof shape;
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      float* row = image.mutable_view().row_as<float>(y);
      for (int x = 0; x < width; ++x, value += sizeof(float)) {
        std::memcpy(&row[x * channels + c], value, sizeof(float));
      }
    }
  }
  return image;
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

class PytorchTest : public ::testing::TestWithParam<Case> {};

TEST_P(PytorchTest, SameResult) {
  const client::TempFolder folder;
  const uint32_t seed = test::FreshRandom()();
  const int status = std::system(absl::StrCat("/usr/bin/python3 -B -W ignore ", UPSCALED_NETWORKS,
                                              "/", GetParam().script, " ", GetParam().network, " ",
                                              folder.path().string(), " ", seed, " >/dev/null")
                                     .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "needs python3-torch";
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const Image image = ReadPlanes(folder / "image.planes");
  const Image expected = ReadPlanes(folder / "result.planes");
  for (const char* file : GetParam().files) {
    const auto network = LoadNetworkFile(folder / file);
    ASSERT_TRUE(network.ok()) << network.status();
    for (const char* device : {"reference", "cpu"}) {
      SCOPED_TRACE(absl::StrCat(file, " on ", device));
      const auto backend = CreateBackend(device, {.threads = 1});
      ASSERT_TRUE(backend.ok()) << backend.status();
      const auto executable = (*backend)->Compile(*network, Precision::kExact);
      ASSERT_TRUE(executable.ok()) << executable.status();
      Image result(expected.spec());
      const auto stream = (*backend)->CreateStream();
      const absl::Status run =
          test::RunImage(*stream, **executable,
                         {test::WholeTask(**executable, image.view(), result.mutable_view())});
      ASSERT_TRUE(run.ok()) << run;
      EXPECT_LE(LargestDifference(result, expected), kTolerance);
    }
  }
}

constexpr char kExported[] = "public_networks.py";
constexpr char kWeights[] = "published_weights.py";
const std::vector<const char*> kAllWeights = {"network.pth", "old.pth", "half.pth",
                                              "network.safetensors"};
const std::vector<const char*> kOneOfThem = {"network.pth"};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.network;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Networks, PytorchTest,
    ::testing::Values(Case{kExported, "srvgg-x2", {"network.onnx", "network.param"}},
                      Case{kExported, "srvgg-x4", {"network.onnx", "network.param"}},
                      Case{kExported, "rrdb-x4", {"network.onnx", "network.param"}},
                      Case{kExported, "operators", {"network.onnx"}},
                      Case{kExported, "excite", {"network.onnx"}}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Weights, PytorchTest,
    ::testing::Values(
        Case{kWeights, "compact-x4", kAllWeights}, Case{kWeights, "compact-x2-small", kAllWeights},
        Case{kWeights, "compact-x1", kAllWeights}, Case{kWeights, "real-esrgan-x4", kOneOfThem},
        Case{kWeights, "real-esrgan-x2", kOneOfThem}, Case{kWeights, "real-esrgan-x1", kOneOfThem},
        Case{kWeights, "bsrgan-x2", kOneOfThem}, Case{kWeights, "esrgan-x4", kAllWeights},
        Case{kWeights, "esrgan-x1", kOneOfThem}, Case{kWeights, "esrgan-x8", kOneOfThem},
        Case{kWeights, "esrgan-plus", kOneOfThem}, Case{kWeights, "span-x4", kAllWeights},
        Case{kWeights, "span-x2", kOneOfThem}, Case{kWeights, "espcn-x2", kOneOfThem},
        Case{kWeights, "artcnn-x2", kAllWeights}, Case{kWeights, "artcnn-x4", kOneOfThem},
        Case{kWeights, "artcnn-luma-x2", kOneOfThem}, Case{kWeights, "artcnn-luma-x3", kOneOfThem},
        Case{kWeights, "dis-x4", kAllWeights}, Case{kWeights, "dis-x3-depthwise", kOneOfThem},
        Case{kWeights, "dis-x1", kOneOfThem}, Case{kWeights, "dis-luma-x2", kOneOfThem},
        Case{kWeights, "cunet-x1", kOneOfThem}, Case{kWeights, "cunet-x2", kOneOfThem},
        Case{kWeights, "cugan-x3", kOneOfThem}, Case{kWeights, "cugan-x4", kOneOfThem},
        Case{kWeights, "cugan-pro-x2", kOneOfThem}),
    NameOf);

}  // namespace
}  // namespace upscaled
