// Files of every format through UpscaleImage: the engine's own bytes come back.
#include <functional>

#include <gmock/gmock.h>

#include "engine/image/memory_io.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/transcode.h"
#include "tests/integration/test_server.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using test::Decode;
using test::FreshRandom;
using test::JpegColor;
using test::JpegFile;
using test::PhotoImage;
using test::RandomInt;
using ::testing::Each;
using ::testing::Le;

// The engine's own result of `image` with the bundled model, in the same format and depth.
std::string EngineResult(const std::string& image,
                         const std::optional<BilateralOptions>& prefilter) {
  const auto backend = *CreateBackend("cpu", {.threads = 1});
  const auto executor = MakeLocalExecutor(*backend);
  const auto repository = *ModelRepository::Open({"engine/model/bundled"});
  const ModelCard& card = **repository.Find("general-2x");
  const auto executable =
      *backend->Compile(*LoadNetwork(card, card.variants.front()), Precision::kExact);
  upscaled::MemorySource source(image);
  upscaled::StringSink sink;
  const auto stats = TranscodeImage(
      {.input = source, .output = sink, .executor = *executor},
      [&](const ImageHeader& header) -> absl::StatusOr<TranscodePlan> {
        const Size result{2 * header.spec.width_px, 2 * header.spec.height_px};
        auto plan = PlanUpscale(header.spec, result, {executable},
                                {.prefilter = prefilter, .result_type = header.spec.type});
        if (!plan.ok()) return plan.status();
        return PlanTranscode(header, *std::move(plan), {.format = header.format});
      });
  EXPECT_TRUE(stats.ok()) << stats.status();
  return sink.Take();
}

struct Kind {
  std::string name;
  std::function<std::string(Size stored, std::mt19937& random)> make;
  // The expected result.
  ImageFormat format;
  int channels = 3;
  SampleType type = SampleType::kU8;
  bool turned = false;  // width and height change places
  std::string icc_profile;
};

// As our encoders write them.
Kind Plain(ImageFormat format, int channels, SampleType type = SampleType::kU8,
           const std::string& icc_profile = "") {
  const std::string name = std::string(FormatName(format)) + "_" + std::to_string(channels) +
                           "_channels_" + std::to_string(8 * SampleBytes(type)) + "_bits" +
                           (icc_profile.empty() ? "" : "_icc");
  const auto make = [=](Size size, std::mt19937& random) {
    const Image image = PhotoImage({size.width, size.height, channels, type}, random);
    return *test::Encode(image.view(), {.format = format}, {icc_profile});
  };
  return {name, make, format, channels, type, false, icc_profile};
}

constexpr int kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6;  // IHDR's color types

// `change` adds to the random file of this format.
Kind Png(const std::string& name, int bit_depth, int color_type, int channels,
         const std::function<void(test::PngFile&)>& change = nullptr) {
  const auto make = [=](Size size, std::mt19937& random) {
    test::PngFile file = test::RandomPng(size.width, size.height, bit_depth, color_type, random);
    if (change) change(file);
    return test::WritePng(file);
  };
  const SampleType type = bit_depth == 16 ? SampleType::kU16 : SampleType::kU8;
  return {"png_" + name, make, ImageFormat::kPng, channels, type};
}

Kind Jpeg(const std::string& name, const JpegFile& file, bool turned = false) {
  const bool cmyk = file.color == JpegColor::kCmyk || file.color == JpegColor::kYcck;
  const int stored = file.color == JpegColor::kGray ? 1 : cmyk ? 4 : 3;
  const auto make = [=](Size size, std::mt19937& random) {
    const ImageSpec spec{size.width, size.height, stored, SampleType::kU8};
    return test::WriteJpeg(file, PhotoImage(spec, random).view());
  };
  return {"jpeg_" + name,  make,   ImageFormat::kJpeg,          stored == 1 ? 1 : 3,
          SampleType::kU8, turned, cmyk ? "" : file.icc_profile};  // CMYK's does not fit RGB
}

std::vector<Kind> Kinds() {
  const auto interlace = [](test::PngFile& file) { file.interlaced = true; };
  const auto clear_color = [](test::PngFile& file) {
    file.transparent = test::StoredPixel(file, 0, 0);
  };
  const auto clear_palette = [](test::PngFile& file) { file.palette_alpha = {0, 128, 255}; };
  const std::string gray_profile = test::TestProfile(true, 1000);
  const std::string profile = test::TestProfile(false, 100'000);  // spans segments of a JPEG
  std::vector<Kind> kinds = {
      Plain(ImageFormat::kJpeg, 1),
      Plain(ImageFormat::kJpeg, 3),
      Plain(ImageFormat::kWebp, 3),
      Plain(ImageFormat::kWebp, 4),
      Plain(ImageFormat::kPng, 1, SampleType::kU8, gray_profile),
      Plain(ImageFormat::kPng, 4, SampleType::kU16, profile),
      Plain(ImageFormat::kJpeg, 1, SampleType::kU8, gray_profile),
      Plain(ImageFormat::kJpeg, 3, SampleType::kU8, profile),
      Plain(ImageFormat::kWebp, 4, SampleType::kU8, profile),
      Png("gray_1_bit", 1, kGray, 1),
      Png("gray_2_bits", 2, kGray, 1),
      Png("gray_4_bits", 4, kGray, 1),
      Png("gray_4_bits_trns", 4, kGray, 2, clear_color),
      Png("gray_16_bits_trns", 16, kGray, 2, clear_color),
      Png("rgb_8_bits_trns", 8, kRgb, 4, clear_color),
      Png("palette_1_bit", 1, kPalette, 3),
      Png("palette_2_bits", 2, kPalette, 3),
      Png("palette_4_bits", 4, kPalette, 3),
      Png("palette_8_bits", 8, kPalette, 3),
      Png("palette_2_bits_trns", 2, kPalette, 4, clear_palette),
      Png("palette_8_bits_trns", 8, kPalette, 4, clear_palette),
      Png("interlaced_gray_1_bit", 1, kGray, 1, interlace),
      Png("interlaced_palette_4_bits", 4, kPalette, 3, interlace),
      Png("interlaced_rgb_8_bits", 8, kRgb, 3, interlace),
      Png("interlaced_gray_alpha_16_bits", 16, kGrayAlpha, 2, interlace),
      Png("interlaced_rgba_16_bits", 16, kRgba, 4, interlace),
      Jpeg("rgb", {.color = JpegColor::kRgb}),
      Jpeg("cmyk", {.color = JpegColor::kCmyk, .adobe_marker = false}),
      Jpeg("cmyk_adobe", {.color = JpegColor::kCmyk, .icc_profile = profile}),
      Jpeg("ycck", {.color = JpegColor::kYcck}),
      Jpeg("progressive", {.progressive = true}),
      Jpeg("progressive_gray", {.color = JpegColor::kGray, .progressive = true}),
      Jpeg("scans", {.scan_per_component = true}),
      Jpeg("arithmetic", {.arithmetic = true}),
      Jpeg("restarts_420", {.restart_interval = 3, .luma_sampling = {2, 2}}),
  };
  for (int channels = 1; channels <= 4; ++channels) {
    kinds.push_back(Plain(ImageFormat::kPng, channels));
    kinds.push_back(Plain(ImageFormat::kPng, channels, SampleType::kU16));
  }
  for (int orientation = 1; orientation <= 8; ++orientation) {
    kinds.push_back(Jpeg("orientation_" + std::to_string(orientation),
                         {.exif = test::ExifSegment(orientation, orientation % 2 == 0),
                          .icc_profile = orientation == 6 ? profile : ""},
                         orientation >= 5));
  }
  return kinds;
}

class RoundTripTest : public ::testing::TestWithParam<Kind> {};

TEST_P(RoundTripTest, GivesTheEnginesBytes) {
  const Kind& kind = GetParam();
  std::mt19937 random = FreshRandom();
  const Size stored{RandomInt(random, 1, 300), RandomInt(random, 1, 200)};
  const std::string image = kind.make(stored, random);
  const Size source = kind.turned ? Size{stored.height, stored.width} : stored;
  const Size result{2 * source.width, 2 * source.height};
  TestServer server;
  pb::UpscaleOptions options;
  options.set_keep_16_bit(true);
  options.set_noise_level(kNoDenoise);  // the engine's call below chooses none
  std::optional<BilateralOptions> prefilter;
  if (RandomInt(random, 0, 1)) {
    prefilter = {1.5, 20};
    options.mutable_prefilter()->set_sigma_space(prefilter->sigma_space);
    options.mutable_prefilter()->set_sigma_range(prefilter->sigma_range);
  }
  const Outcome outcome = UpscaleImage(server.stub(), options, image);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();

  ASSERT_TRUE(outcome.header.has_value());
  EXPECT_EQ(outcome.header->source_width_px(), source.width);
  EXPECT_EQ(outcome.header->source_height_px(), source.height);
  EXPECT_EQ(outcome.header->result_width_px(), result.width);
  EXPECT_EQ(outcome.header->result_height_px(), result.height);
  EXPECT_EQ(outcome.header->channels(), kind.channels);
  EXPECT_EQ(outcome.header->bits_per_sample(), static_cast<int>(8 * SampleBytes(kind.type)));
  EXPECT_EQ(outcome.header->model(), "general-2x");
  EXPECT_EQ(outcome.header->request_id().size(), 36u);
  EXPECT_THAT(outcome.chunk_bytes, Each(Le(size_t{256} << 10)));
  ASSERT_TRUE(outcome.summary.has_value());
  EXPECT_EQ(outcome.summary->result_bytes(), static_cast<int64_t>(outcome.image.size()));
  EXPECT_EQ(outcome.summary->device(), "cpu");
  EXPECT_GE(outcome.summary->tiles(), 1);

  const auto decoded = Decode(outcome.image);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.format, kind.format);
  EXPECT_EQ(decoded->header.spec,
            (ImageSpec{result.width, result.height, kind.channels, kind.type}));
  EXPECT_EQ(decoded->header.orientation, Orientation::kIdentity);
  EXPECT_TRUE(decoded->metadata.icc_profile == kind.icc_profile)
      << decoded->metadata.icc_profile.size() << " bytes of colour profile";
  EXPECT_TRUE(outcome.image == EngineResult(image, prefilter));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RoundTripTest, ::testing::ValuesIn(Kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace upscaled::server
