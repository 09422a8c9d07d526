// Exported files read back as the same network, by our own loaders.
#include <cmath>
#include <random>
#include <string>

#include "engine/backends/reference/reference_backend.h"
#include "engine/image/image.h"
#include "engine/model/ncnn_exporter.h"
#include "engine/model/ncnn_loader.h"
#include "engine/model/onnx/exporter.h"
#include "engine/model/onnx/loader.h"
#include "engine/model/tensors/safetensors.h"
#include "engine/model/tensors/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/model/weights_files.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FreshRandom;
using test::RandomImage;
using ::testing::HasSubstr;

constexpr int kNetworks = 40;

Image Compute(const Network& network, const Image& source) {
  const auto backend = CreateReferenceBackend({}).value();
  const auto executable = backend->Compile(network, Precision::kExact).value();
  const Size size = source.spec().size();
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kF32});
  const absl::Status ran =
      test::RunImage(*backend->CreateStream(), *executable,
                     {test::WholeTask(*executable, source.view(), result.mutable_view())});
  EXPECT_TRUE(ran.ok()) << ran;
  return result;
}

// The largest difference, as a part of the largest value.
double Difference(const Image& a, const Image& b) {
  double difference = 0, largest = 1;
  for (int y = 0; y < a.spec().height_px; ++y) {
    for (int i = 0; i < 3 * a.spec().width_px; ++i) {
      const double value = a.view().row_as<float>(y)[i];
      difference = std::max(difference, std::abs(value - b.view().row_as<float>(y)[i]));
      largest = std::max(largest, std::abs(value));
    }
  }
  return difference / largest;
}

class ExportTest : public ::testing::Test {
 protected:
  // `again` is what was read back of `network`.
  void ExpectSame(const Network& network, const absl::StatusOr<Network>& again) {
    SCOPED_TRACE(test::Describe(network));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(again->scale, network.scale);
    // Folding of factors into weights rounds otherwise.
    EXPECT_LT(Difference(Compute(network, source_), Compute(*again, source_)), 1e-6);
  }

  std::mt19937 random_ = FreshRandom();
  const Image source_ = RandomImage({13, 9, 3, SampleType::kU8}, random_);
};

TEST_F(ExportTest, NcnnReadsBackAsTheSame) {
  for (int i = 0; i < kNetworks; ++i) {
    const Network network = test::RandomNetwork(random_);
    const absl::StatusOr<NcnnFilePair> files = ExportNcnn(network);
    if (files.ok()) {
      ExpectSame(network, ParseNcnn(files->param, files->bin));
    } else {
      EXPECT_EQ(files.status().code(), absl::StatusCode::kUnimplemented) << files.status();
    }
  }
}

// ncnn takes a parameter without a point or an exponent for an integer.
TEST(NcnnExportTest, FloatsAreWrittenAsFloats) {
  Network network;
  network.scale = 2;
  network.layers = {{.op = Op::kInput, .out_channels = 3},
                    {.op = Op::kResizeNearest,
                     .inputs = {0},
                     .out_channels = 3,
                     .factor = 2,
                     .activation = Activation::kClip,
                     .clip_min = 0,
                     .clip_max = 1}};
  const std::string param = ExportNcnn(network)->param;
  EXPECT_THAT(param, HasSubstr("0=1 1=2.000000000e+00 2=2.000000000e+00"));
  EXPECT_THAT(param, HasSubstr("0=0.000000000e+00 1=1.000000000e+00"));
}

TEST_F(ExportTest, OnnxReadsBackAsTheSame) {
  int aligned = 0;
  for (int i = 0; i < kNetworks; ++i) {
    const Network network = test::RandomNetwork(random_);
    const absl::StatusOr<std::string> file = ExportOnnx(network);
    if (!file.ok()) {
      EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented) << file.status();
      continue;
    }
    const absl::StatusOr<Network> again = ParseOnnx(*file);
    ExpectSame(network, again);
    if (network.align_px == 1) {
      EXPECT_EQ(again->pad_px, 0) << "the border is in the graph";
    } else {
      ++aligned;
    }
  }
  EXPECT_GT(aligned, 0);
}

TEST_F(ExportTest, OnnxReadsBackPaddingToMultiplesInTheLayers) {
  for (const PadMode mode : {PadMode::kReflect, PadMode::kReplicate, PadMode::kConstant}) {
    for (const bool of_image : {true, false}) {
      for (const auto& [padding_px, factor] :
           {std::pair{2, 4}, {3, 2}, {6, 3}, {1, 4}, {5, 3}, {0, 8}}) {
        Network network = test::InputAlone();
        if (!of_image) test::AppendConv(network, 3, 3);
        network.layers.push_back({.op = Op::kPad,
                                  .name = "pad",
                                  .inputs = {static_cast<int>(network.layers.size()) - 1},
                                  .out_channels = 3,
                                  .in_channels = 3,
                                  .padding_px = padding_px,
                                  .factor = factor,
                                  .pad_mode = mode,
                                  .pad_value = 0.25f});
        test::AppendConv(network, 3, 2 * padding_px + 1);
        network.layers.back().padding_px = 0;
        std::uniform_real_distribution<float> weight(-0.1f, 0.1f);
        for (Layer& layer : network.layers) {
          for (float& value : layer.weights) value = weight(random_);
        }
        ASSERT_TRUE(network.Validate().ok()) << network.Validate();
        const absl::StatusOr<std::string> file = ExportOnnx(network);
        ASSERT_TRUE(file.ok()) << file.status();
        SCOPED_TRACE(test::Describe(network));
        ExpectSame(network, ParseOnnx(*file));
      }
    }
  }
}

TEST_F(ExportTest, AnAlignmentThatTheLayersDoNotNeedIsNoneOfOurs) {
  Network network = test::RandomNetwork(random_);
  while (network.align_px == 1 || !ExportOnnx(network).ok()) network = test::RandomNetwork(random_);
  network.scale += 1;
  EXPECT_THAT(std::string(ParseOnnx(*ExportOnnx(network)).status().message()),
              HasSubstr("to multiples of " + std::to_string(network.align_px) +
                        ", and does not cut that off again; the layers need "));
}

TEST(SafetensorsExportTest, TensorsReadBackAsTheyWere) {
  const auto whole = ParseSafetensors(test::SafetensorsOf(test::ConvShapes("body.0", 3, 3, 3)));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const absl::StatusOr<std::string> file = WriteSafetensors(**whole);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(LooksLikeSafetensors(*file));
  const auto again = ParseSafetensors(*file);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ((*again)->tensors().size(), 2u);
  for (const auto& [name, info] : (*whole)->tensors()) {
    EXPECT_EQ((*again)->Find(name)->shape, info.shape);
    EXPECT_EQ(*(*again)->Read(name), *(*whole)->Read(name));
  }
}

TEST(SafetensorsExportTest, HalvesBecomeFloats) {
  const auto halves = ParseSafetensors(
      test::Safetensors(R"({"x":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})",
                        std::string("\x00\x3c\x00\xc0", 4)));
  ASSERT_TRUE(halves.ok()) << halves.status();
  const auto again = ParseSafetensors(*WriteSafetensors(**halves));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->Find("x")->type_name, "F32");
  EXPECT_THAT(*(*again)->Read("x"), ::testing::ElementsAre(1, -2));
}

}  // namespace
}  // namespace upscaled
