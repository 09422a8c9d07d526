// AVIF: round trips, files unlike our encoder's (turned, in tiles, of 10 bits), damage.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <avif/avif.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "engine/image/convert.h"
#include "engine/image/endian.h"
#include "engine/image/memory_io.h"
#include "tests/support/odd_files.h"
#include "tests/support/prefixes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::IsEmpty;

constexpr EncodeOptions kLossless = {.format = ImageFormat::kAvif, .quality = 100};

struct AvifFile {
  int bits = 8;
  std::optional<Rect> crop;
  int quarters = 0;  // turned against the clock, and then
  int mirror = -1;   // top and bottom (0) or left and right (1) exchanged
  Size grid = {1, 1};
};

std::unique_ptr<avifImage, void (*)(avifImage*)> MakeAvifImage(const AvifFile& file,
                                                               ImageView view) {
  std::unique_ptr<avifImage, void (*)(avifImage*)> image(
      avifImageCreate(view.width_px(), view.height_px(), file.bits, AVIF_PIXEL_FORMAT_YUV444),
      avifImageDestroy);
  image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_IDENTITY;
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, image.get());
  rgb.depth = view.spec.type == SampleType::kU8 ? 8 : 16;
  rgb.format = view.spec.has_alpha() ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  rgb.pixels = const_cast<uint8_t*>(view.data);
  rgb.rowBytes = static_cast<uint32_t>(view.stride_bytes);
  avifImageRGBToYUV(image.get(), &rgb);
  if (file.crop.has_value()) {
    const avifCropRect part = {
        static_cast<uint32_t>(file.crop->x), static_cast<uint32_t>(file.crop->y),
        static_cast<uint32_t>(file.crop->width), static_cast<uint32_t>(file.crop->height)};
    avifDiagnostics diagnostics;
    image->transformFlags |= AVIF_TRANSFORM_CLAP;
    EXPECT_TRUE(avifCleanApertureBoxConvertCropRect(&image->clap, &part, image->width,
                                                    image->height, image->yuvFormat, &diagnostics));
  }
  if (file.quarters > 0) image->transformFlags |= AVIF_TRANSFORM_IROT;
  if (file.mirror >= 0) image->transformFlags |= AVIF_TRANSFORM_IMIR;
  image->irot.angle = static_cast<uint8_t>(file.quarters);
  image->imir.mode = static_cast<uint8_t>(std::max(file.mirror, 0));
  return image;
}

// Lossless, straight from libavif.
std::string WriteAvif(const AvifFile& file, ImageView view) {
  std::vector<std::unique_ptr<avifImage, void (*)(avifImage*)>> cells;
  const Size cell{view.width_px() / file.grid.width, view.height_px() / file.grid.height};
  for (int y = 0; y < file.grid.height; ++y)
    for (int x = 0; x < file.grid.width; ++x)
      cells.push_back(MakeAvifImage(
          file, view.Crop({x * cell.width, y * cell.height, cell.width, cell.height})));
  std::vector<const avifImage*> images;
  for (const auto& image : cells) images.push_back(image.get());
  avifEncoder* encoder = avifEncoderCreate();
  encoder->speed = 10;
  encoder->minQuantizer = encoder->maxQuantizer = 0;
  encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = 0;
  if (images.size() > 1)
    avifEncoderAddImageGrid(encoder, file.grid.width, file.grid.height, images.data(),
                            AVIF_ADD_IMAGE_FLAG_SINGLE);
  else
    avifEncoderAddImage(encoder, images[0], 1, AVIF_ADD_IMAGE_FLAG_SINGLE);
  avifRWData data = AVIF_DATA_EMPTY;
  avifEncoderFinish(encoder, &data);
  std::string bytes(reinterpret_cast<const char*>(data.data), data.size);
  avifRWDataFree(&data);
  avifEncoderDestroy(encoder);
  return bytes;
}

// The largest difference between two 16-bit samples.
int LargestDifference16(ImageView a, ImageView b) {
  int most = 0;
  for (int y = 0; y < a.height_px(); ++y)
    for (int i = 0; i < a.width_px() * a.spec.channels; ++i)
      most = std::max(most, std::abs(a.row_as<uint16_t>(y)[i] - b.row_as<uint16_t>(y)[i]));
  return most;
}

TEST(AvifTest, KeepsAllSamplesWithoutLoss) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : {Size{1, 1}, Size{17, 1}, Size{3, 33}, Size{67, 45}})
    for (int channels = 1; channels <= 4; ++channels)
      for (const SampleType type : {SampleType::kU8, SampleType::kU16}) {
        const ImageSpec spec = {size.width, size.height, channels, type};
        SCOPED_TRACE(::testing::Message() << spec);
        const Image image = test::RandomImage(spec, random);
        const auto bytes = test::Encode(image.view(), kLossless);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        const auto decoded = test::Decode(*bytes);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        ASSERT_EQ(decoded->header.spec, spec);
        EXPECT_THAT(decoded->warnings, IsEmpty());
        if (type == SampleType::kU8)
          EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
        else  // 12 bits of 16
          EXPECT_LE(LargestDifference16(decoded->image.view(), image.view()), 9);
      }
}

TEST(AvifTest, QualityTradesSizeForError) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({128, 96, 4, SampleType::kU8}, random);
  size_t last = 0;
  for (const int quality : {20, 60, 89, 90, 99}) {
    const auto bytes =
        test::Encode(image.view(), {.format = ImageFormat::kAvif, .quality = quality});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_GT(bytes->size(), last) << quality;
    last = bytes->size();
    const auto decoded = test::Decode(*bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->header.spec, image.spec());
    if (quality >= 90) {
      EXPECT_LE(test::LargestDifference(decoded->image.view(), image.view()), 40);
    }
  }
}

TEST(AvifTest, TurnsImagesUpright) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({13, 7, 3, SampleType::kU8}, random);
  // By quarters and mirror, EXIF's equal orientation.
  constexpr int kPlain[] = {1, 8, 3, 6}, kTopBottom[] = {4, 5, 2, 7}, kLeftRight[] = {2, 7, 4, 5};
  for (int quarters = 0; quarters < 4; ++quarters)
    for (const int mirror : {-1, 0, 1}) {
      SCOPED_TRACE(::testing::Message() << quarters << " quarters, mirror " << mirror);
      const auto decoded =
          test::Decode(WriteAvif({.quarters = quarters, .mirror = mirror}, image.view()));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      const int orientation = (mirror < 0    ? kPlain
                               : mirror == 0 ? kTopBottom
                                             : kLeftRight)[quarters];
      EXPECT_TRUE(test::SameImages(decoded->image.view(),
                                   test::TurnUpright(image.view(), orientation).view()));
    }
}

TEST(AvifTest, CropsBeforeItTurns) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({23, 17, 3, SampleType::kU8}, random);
  for (const Rect& part : {Rect{0, 0, 23, 17}, Rect{3, 2, 11, 14}, Rect{22, 16, 1, 1}})
    for (const int quarters : {0, 1}) {
      const auto decoded =
          test::Decode(WriteAvif({.crop = part, .quarters = quarters}, image.view()));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_TRUE(test::SameImages(
          decoded->image.view(),
          test::TurnUpright(image.view().Crop(part), quarters == 0 ? 1 : 8).view()));
      EXPECT_THAT(decoded->warnings, IsEmpty());
    }
}

TEST(AvifTest, ReadsTilesAndTenBits) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({192, 128, 3, SampleType::kU8}, random);
  const auto grid = test::Decode(WriteAvif({.grid = {3, 2}}, image.view()));
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_TRUE(test::SameImages(grid->image.view(), image.view()));

  const Image wide = test::RandomImage({9, 5, 3, SampleType::kU16}, random);
  const auto ten = test::Decode(WriteAvif({.bits = 10}, wide.view()));
  ASSERT_TRUE(ten.ok()) << ten.status();
  EXPECT_EQ(ten->header.spec, wide.spec());
  EXPECT_LE(LargestDifference16(ten->image.view(), wide.view()), 33);  // 10 bits of 16
}

TEST(AvifTest, CarriesMetadataAndColours) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU16}, random);
  ImageMetadata metadata;
  metadata.exif = std::string("II*\0\x08\0\0\0\0\0\0\0\0\0", 14);
  metadata.xmp = "<x:xmpmeta xmlns:x='adobe:ns:meta/'/>";
  metadata.colour_chunks = {{.type = "cICP", .data = std::string("\x09\x10\0\x01", 4)}};
  const auto bytes = test::Encode(image.view(), kLossless, metadata);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto decoded = test::Decode(*bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata, metadata);
  EXPECT_EQ(decoded->header.hdr, "PQ");
  // As exiftool writes it.
  ImageMetadata prefixed = metadata;
  prefixed.exif.insert(0, "Exif\0\0", 6);
  decoded = test::Decode(*test::Encode(image.view(), kLossless, prefixed));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata, metadata);

  const ImageMetadata profile = {test::TestProfile(false, 3144)};
  decoded = test::Decode(*test::Encode(image.view(), kLossless, profile));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata, profile);
  EXPECT_EQ(decoded->header.hdr, "");
}

// The boxes of the first track's path "moov/trak/...", by name.
std::string BoxOf(std::string_view file, std::initializer_list<const char*> path) {
  std::string_view rest = file;
  for (const char* const name : path) {
    bool found = false;
    while (!found && rest.size() >= 8) {
      const size_t size = LoadBe32(AsBytes(rest).data());
      found = rest.substr(4, 4) == name;
      rest = found ? rest.substr(8, size - 8) : rest.substr(size);
    }
    if (!found) return "";
  }
  return std::string(rest);
}

TEST(AvifTest, AnimationsComeOutWithTheirTimes) {
  std::mt19937 random = test::FreshRandom();
  const FrameDelay kDelays[] = {{1, 10}, {1, 30}, {1, 30}, {0, 1}, {3, 1000}, {65'535, 1}};
  for (const int channels : {1, 3, 4})
    for (const uint32_t plays : {0u, 3u}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels, " << plays << " plays");
      std::vector<Image> frames;
      for (size_t i = 0; i < std::size(kDelays); ++i)
        frames.push_back(test::RandomImage({33, 21, channels, SampleType::kU8}, random));
      StringSink sink;
      EncodeOptions options = kLossless;
      options.animation = Animation{static_cast<int>(frames.size()), plays};
      const ImageMetadata metadata = {.icc_profile = test::TestProfile(channels < 3, 3144)};
      auto encoder = CreateImageEncoder(options, frames[0].spec(), metadata, sink);
      ASSERT_TRUE(encoder.ok()) << encoder.status();
      for (size_t i = 0; i < frames.size(); ++i) {
        ASSERT_TRUE((*encoder)->BeginFrame(kDelays[i]).ok());
        ASSERT_TRUE((*encoder)->WriteRows(frames[i].view()).ok());
      }
      ASSERT_TRUE((*encoder)->Finish().ok());
      const std::string file = sink.Take();

      const std::unique_ptr<avifDecoder, void (*)(avifDecoder*)> decoder(avifDecoderCreate(),
                                                                         avifDecoderDestroy);
      decoder->requestedSource = AVIF_DECODER_SOURCE_TRACKS;
      avifDecoderSetIOMemory(decoder.get(), AsBytes(file).data(), file.size());
      ASSERT_EQ(avifDecoderParse(decoder.get()), AVIF_RESULT_OK);
      ASSERT_EQ(decoder->imageCount, 6);
      EXPECT_EQ(decoder->image->icc.size, metadata.icc_profile.size());
      EXPECT_EQ(decoder->alphaPresent, channels == 4);
      double end_s = 0;
      for (int i = 0; i < 6; ++i) {
        ASSERT_EQ(avifDecoderNextImage(decoder.get()), AVIF_RESULT_OK);
        end_s += static_cast<double>(kDelays[i].numerator) / kDelays[i].denominator;
        EXPECT_NEAR(decoder->imageTiming.pts + decoder->imageTiming.duration, end_s, 3e-5) << i;
        avifRGBImage rgb;
        avifRGBImageSetDefaults(&rgb, decoder->image);
        Image decoded({33, 21, channels == 4 ? 4 : 3, SampleType::kU8});
        rgb.format = channels == 4 ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
        rgb.depth = 8;
        rgb.pixels = decoded.mutable_view().data;
        rgb.rowBytes = static_cast<uint32_t>(decoded.view().stride_bytes);
        ASSERT_EQ(avifImageYUVToRGB(decoder->image, &rgb), AVIF_RESULT_OK);
        Image expected(decoded.spec());
        ConvertPixels(frames[i].view(), expected.mutable_view());
        EXPECT_TRUE(test::SameImages(decoded.view(), expected.view())) << i;
      }
      EXPECT_NEAR(decoder->duration, end_s, 1e-4);

      // Files repeat without end unless an edit list says how long the track is shown.
      const std::string edit = BoxOf(file, {"moov", "trak", "edts", "elst"});
      if (plays == 0) {
        EXPECT_EQ(edit, "");
        continue;
      }
      ASSERT_EQ(edit.size(), 28u);
      EXPECT_EQ(edit.substr(0, 8), std::string("\x01\0\0\x01\0\0\0\x01", 8));
      const auto number = [](std::string_view bytes) {
        return uint64_t{LoadBe32(AsBytes(bytes).data())} << 32 |
               LoadBe32(AsBytes(bytes).data() + 4);
      };
      EXPECT_EQ(number(edit.substr(8)), decoder->durationInTimescales);
      EXPECT_EQ(number(BoxOf(file, {"moov", "trak", "tkhd"}).substr(28)),
                plays * decoder->durationInTimescales);
    }
}

TEST(AvifTest, FramesThatStayTakeNextToNothing) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({128, 96, 3, SampleType::kU8}, random);
  const auto size_of = [&image](int frames) {
    StringSink sink;
    const auto encoder = CreateImageEncoder(
        {.format = ImageFormat::kAvif, .quality = 80, .animation = Animation{frames, 0}},
        image.spec(), {}, sink);
    for (int i = 0; i < frames; ++i) {
      EXPECT_TRUE((*encoder)->BeginFrame({1, 10}).ok());
      EXPECT_TRUE((*encoder)->WriteRows(image.view()).ok());
    }
    EXPECT_TRUE((*encoder)->Finish().ok());
    return sink.bytes().size();
  };
  EXPECT_LT(size_of(10), 2 * size_of(1));
}

TEST(AvifTest, CutAndDamagedFilesAreRefused) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({40, 30, 4, SampleType::kU8}, random);
  const std::string bytes =
      *test::Encode(image.view(), {.format = ImageFormat::kAvif, .quality = 50});
  test::ExpectPrefixesAreRefused(bytes, 7);
  test::ExpectDamageIsSurvived(bytes, random, 200);
}

TEST(AvifTest, HugeOnesAreRefusedByTheirHeader) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({40, 30, 3, SampleType::kU8}, random);
  std::string bytes = *test::Encode(image.view(), kLossless);
  const size_t size = bytes.find("ispe") + 8;
  bytes.replace(size, 8, std::string("\0\x01\0\0\0\x01\0\0", 8));
  EXPECT_EQ(ParseImageHeader(AsBytes(bytes), {}).status().message(),
            "AVIF: the image has 4294967296 pixels (65536 x 65536); the limit is 100000000");
}

}  // namespace
}  // namespace upscaled
