// JPEG XL: round trips, files unlike our encoder's (turned, float, premultiplied, animated),
// damage.
#include <jxl/encode.h>

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/colour_profiles.h"
#include "tests/support/odd_files.h"
#include "tests/support/prefixes.h"
#include "tests/support/resolution_exif.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr EncodeOptions kLosslessJxl = {.format = ImageFormat::kJxl, .quality = 100};

struct JxlFile {
  int orientation = 1;
  int bits = 0;  // 0: as the samples
  bool boxed = false, is_float = false;
  int frames = 1;
  int spare_channels = 0;  // of depth, empty
  std::string alpha_name;
  JxlTransferFunction transfer = JXL_TRANSFER_FUNCTION_SRGB;
  std::string exif, xmp;
};

// Lossless, straight from libjxl.
std::string WriteJxl(const JxlFile& file, ImageView view) {
  JxlEncoder* const encoder = JxlEncoderCreate(nullptr);
  JxlEncoderUseContainer(encoder, file.boxed ? JXL_TRUE : JXL_FALSE);
  const bool wide = view.spec.type == SampleType::kU16;
  JxlBasicInfo info;
  JxlEncoderInitBasicInfo(&info);
  info.xsize = view.width_px();
  info.ysize = view.height_px();
  info.bits_per_sample = file.is_float ? 32 : file.bits > 0 ? file.bits : wide ? 16 : 8;
  info.exponent_bits_per_sample = file.is_float ? 8 : 0;
  info.num_color_channels = view.spec.channels < 3 ? 1 : 3;
  info.num_extra_channels = (view.spec.has_alpha() ? 1 : 0) + file.spare_channels;
  info.alpha_bits = view.spec.has_alpha() ? info.bits_per_sample : 0;
  info.alpha_exponent_bits = view.spec.has_alpha() ? info.exponent_bits_per_sample : 0;
  info.orientation = static_cast<JxlOrientation>(file.orientation);
  info.uses_original_profile = JXL_TRUE;
  if (file.frames > 1) {
    info.have_animation = JXL_TRUE;
    info.animation.tps_numerator = 10;
    info.animation.tps_denominator = 1;
  }
  EXPECT_EQ(JxlEncoderSetBasicInfo(encoder, &info), JXL_ENC_SUCCESS);
  for (int i = 0; i < file.spare_channels; ++i) {
    JxlExtraChannelInfo channel;
    JxlEncoderInitExtraChannelInfo(JXL_CHANNEL_DEPTH, &channel);
    channel.bits_per_sample = 8;
    JxlEncoderSetExtraChannelInfo(encoder, i + (view.spec.has_alpha() ? 1 : 0), &channel);
  }
  if (!file.alpha_name.empty())
    JxlEncoderSetExtraChannelName(encoder, 0, file.alpha_name.data(), file.alpha_name.size());
  JxlColorEncoding colours;
  JxlColorEncodingSetToSRGB(&colours, view.spec.channels < 3 ? JXL_TRUE : JXL_FALSE);
  colours.transfer_function = file.transfer;
  if (file.transfer != JXL_TRANSFER_FUNCTION_SRGB) colours.primaries = JXL_PRIMARIES_2100;
  EXPECT_EQ(JxlEncoderSetColorEncoding(encoder, &colours), JXL_ENC_SUCCESS);
  const std::pair<const char*, std::string> boxes[] = {
      {"Exif", file.exif.empty() ? "" : std::string(4, '\0') + file.exif}, {"xml ", file.xmp}};
  for (const auto& [type, content] : boxes) {
    if (content.empty()) continue;
    JxlEncoderUseBoxes(encoder);
    EXPECT_EQ(JxlEncoderAddBox(encoder, type, reinterpret_cast<const uint8_t*>(content.data()),
                               content.size(), JXL_FALSE),
              JXL_ENC_SUCCESS);
  }
  JxlEncoderCloseBoxes(encoder);
  JxlEncoderFrameSettings* const settings = JxlEncoderFrameSettingsCreate(encoder, nullptr);
  JxlEncoderSetFrameLossless(settings, JXL_TRUE);
  JxlEncoderFrameSettingsSetOption(settings, JXL_ENC_FRAME_SETTING_EFFORT, 1);
  const JxlPixelFormat format = {static_cast<uint32_t>(view.spec.channels),
                                 wide ? JXL_TYPE_UINT16 : JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
  const size_t bytes = view.spec.row_bytes() * view.height_px();
  const std::vector<uint8_t> spare(view.spec.size().Area());
  const JxlPixelFormat spare_format = {1, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
  for (int i = 0; i < file.frames; ++i) {
    if (file.frames > 1) {
      JxlFrameHeader header;
      JxlEncoderInitFrameHeader(&header);
      header.duration = 1;
      JxlEncoderSetFrameHeader(settings, &header);
    }
    std::vector<uint8_t> pixels(view.data, view.data + bytes);
    for (uint8_t& byte : pixels) byte = static_cast<uint8_t>(byte ^ i);
    EXPECT_EQ(JxlEncoderAddImageFrame(settings, &format, pixels.data(), bytes), JXL_ENC_SUCCESS);
    for (int k = 0; k < file.spare_channels; ++k)
      JxlEncoderSetExtraChannelBuffer(settings, &spare_format, spare.data(), spare.size(),
                                      k + (view.spec.has_alpha() ? 1 : 0));
  }
  JxlEncoderCloseInput(encoder);
  std::string result(size_t{1} << 20, '\0');
  auto* next = reinterpret_cast<uint8_t*>(result.data());
  size_t room = result.size();
  EXPECT_EQ(JxlEncoderProcessOutput(encoder, &next, &room), JXL_ENC_SUCCESS);
  result.resize(result.size() - room);
  JxlEncoderDestroy(encoder);
  return result;
}

TEST(JxlTest, KeepsAllSamplesWithoutLoss) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : {Size{1, 1}, Size{17, 1}, Size{3, 33}, Size{267, 45}})
    for (int channels = 1; channels <= 4; ++channels)
      for (const SampleType type : {SampleType::kU8, SampleType::kU16}) {
        const ImageSpec spec = {size.width, size.height, channels, type};
        SCOPED_TRACE(::testing::Message() << spec);
        const Image image = test::RandomImage(spec, random);
        const auto bytes = test::Encode(image.view(), kLosslessJxl);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        const auto decoded = test::Decode(*bytes);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        ASSERT_EQ(decoded->header.spec, spec);
        EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
        EXPECT_THAT(decoded->warnings, IsEmpty());
        EXPECT_EQ(decoded->metadata, ImageMetadata{});
      }
}

TEST(JxlTest, QualityTradesSizeForError) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({128, 96, 4, SampleType::kU8}, random);
  size_t last = 0;
  for (const int quality : {10, 60, 90, 99}) {
    const auto bytes =
        test::Encode(image.view(), {.format = ImageFormat::kJxl, .quality = quality});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_GT(bytes->size(), last) << quality;
    last = bytes->size();
    const auto decoded = test::Decode(*bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->header.spec, image.spec());
    EXPECT_THAT(decoded->warnings, IsEmpty());
  }
}

// With a frame for their DC, libjxl 0.7 ends the process over the first six.
TEST(JxlTest, WritesThinImagesOfAnyQuality) {
  std::mt19937 random = test::FreshRandom();
  constexpr Size kSizes[] = {{1, 2049},  {1, 4097}, {2, 2057}, {7, 2305}, {8, 2049},
                             {17, 2057}, {9, 2049}, {2049, 1}, {4097, 17}};
  for (const Size size : kSizes)
    for (const int channels : {1, 2, 3, 4})
      for (const int quality : {1, 30, 50}) {
        const Image image =
            test::RandomImage({size.width, size.height, channels, SampleType::kU8}, random);
        const auto bytes =
            test::Encode(image.view(), {.format = ImageFormat::kJxl, .quality = quality});
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        const auto decoded = test::Decode(*bytes);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_EQ(decoded->header.spec, image.spec());
      }
}

TEST(JxlTest, ReadsEveryFormOfHeader) {
  std::mt19937 random = test::FreshRandom();
  // Sides by eights, by ratio, and of every length of number.
  for (const Size size : {Size{8, 8}, Size{256, 256}, Size{64, 48}, Size{160, 90}, Size{9, 700},
                          Size{600, 3}, Size{1, 9000}, Size{48, 40}})
    for (const bool boxed : {false, true})
      for (int orientation = 1; orientation <= 8; ++orientation) {
        const Image image =
            test::RandomImage({size.width, size.height, 2, SampleType::kU8}, random);
        const auto decoded =
            test::Decode(WriteJxl({.orientation = orientation, .boxed = boxed}, image.view()));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_TRUE(test::SameImages(decoded->image.view(),
                                     test::TurnUpright(image.view(), orientation).view()));
      }
}

TEST(JxlTest, ReadsTenBitsFloatsAndSpareChannels) {
  std::mt19937 random = test::FreshRandom();
  const Image wide = test::RandomImage({19, 15, 4, SampleType::kU16}, random);
  for (const int bits : {10, 12, 14}) {
    const auto decoded = test::Decode(WriteJxl({.bits = bits}, wide.view()));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->header.spec, wide.spec());
    for (int y = 0; y < 15; ++y)
      for (int i = 0; i < 19 * 4; ++i)
        ASSERT_NEAR(decoded->image.view().row_as<uint16_t>(y)[i],
                    wide.view().row_as<uint16_t>(y)[i], (65536 >> bits) + 1);
  }
  const auto real = test::Decode(WriteJxl({.is_float = true}, wide.view()));
  ASSERT_TRUE(real.ok()) << real.status();
  EXPECT_TRUE(test::SameImages(real->image.view(), wide.view()));
  EXPECT_THAT(real->header.warnings, ElementsAre(HasSubstr("floating-point samples become 16")));

  const Image image = test::RandomImage({19, 15, 4, SampleType::kU8}, random);
  const auto spare = test::Decode(WriteJxl({.spare_channels = 2}, image.view()));
  ASSERT_TRUE(spare.ok()) << spare.status();
  EXPECT_TRUE(test::SameImages(spare->image.view(), image.view()));
  EXPECT_THAT(spare->header.warnings, ElementsAre(HasSubstr("2 channels are neither")));
  EXPECT_EQ(test::Decode(WriteJxl({.spare_channels = 9}, image.view())).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(JxlTest, DividesColoursByAlphaThatTheyWereMultipliedWith) {
  Image image({4, 1, 4, SampleType::kU8});
  const uint8_t pixels[] = {50, 100, 0, 100, 200, 100, 50, 255, 0, 0, 0, 0, 20, 20, 40, 51};
  std::copy(std::begin(pixels), std::end(pixels), image.mutable_view().row(0));
  // The library's encoder cannot say so: the bit that does stands behind the channel's name.
  constexpr size_t kAssociatedByte = 9;
  std::string bytes = WriteJxl({.alpha_name = "A"}, image.view());
  bytes[kAssociatedByte] ^= 1;
  const auto decoded = test::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const uint8_t* const row = decoded->image.view().row(0);
  EXPECT_THAT(std::vector<int>(row, row + 4), ElementsAre(128, 255, 0, 100));
  EXPECT_THAT(std::vector<int>(row + 4, row + 8), ElementsAre(200, 100, 50, 255));
  EXPECT_THAT(std::vector<int>(row + 12, row + 16), ElementsAre(100, 100, 200, 51));
}

TEST(JxlTest, AnimationsAreReadAsTheirFirstFrameAndSaySo) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({12, 7, 3, SampleType::kU8}, random);
  const std::string bytes = WriteJxl({.frames = 5}, image.view());
  const auto decoded = test::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
  EXPECT_THAT(decoded->warnings,
              ElementsAre("JPEG XL: it is an animation of 5 frames: the first is computed, 4 left "
                          "out"));
  EXPECT_TRUE(decoded->header.may_move);
}

TEST(JxlTest, CarriesMetadataAndColours) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU16}, random);
  ImageMetadata metadata;
  metadata.exif = std::string("II*\0\x08\0\0\0\0\0\0\0\0\0", 14);
  metadata.xmp = "<x:xmpmeta xmlns:x='adobe:ns:meta/'/>";
  // PQ and HLG of BT.2100, P3, linear light.
  for (const char* cicp : {"\x09\x10", "\x09\x12", "\x0c\x0d", "\x01\x08"})
    for (const int quality : {90, 100}) {
      metadata.colour_chunks = {
          {.type = "cICP", .data = std::string(cicp, 2) + std::string("\0\1", 2)}};
      const auto bytes =
          test::Encode(image.view(), {.format = ImageFormat::kJxl, .quality = quality}, metadata);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      const auto decoded = test::Decode(*bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->metadata, metadata);
      EXPECT_EQ(decoded->header.hdr, cicp[1] == 16 ? "PQ" : cicp[1] == 18 ? "HLG" : "");
      EXPECT_THAT(decoded->warnings, IsEmpty());
    }
  ImageMetadata prefixed = metadata;  // as some writers do
  prefixed.exif.insert(0, "Exif\0\0", 6);
  const auto bytes = test::Encode(image.view(), {.format = ImageFormat::kJxl}, prefixed);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(test::Decode(*bytes)->metadata, metadata);
}

// The codestream turns the image, and what EXIF and XMP say of its sides turns with it.
TEST(JxlTest, ResolutionsAreTurnedWithTheImage) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({21, 13, 3, SampleType::kU8}, random);
  const test::ExifResolutions values;
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big_endian : {false, true}) {
      const std::string file =
          WriteJxl({.orientation = orientation,
                    .boxed = true,
                    .exif = test::ResolutionExif(values, orientation, big_endian),
                    .xmp = "<x tiff:XResolution='300/1' tiff:YResolution='150/1'/>"},
                   image.view());
      const auto decoded = test::Decode(file);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      const bool swaps = orientation >= 5;
      EXPECT_EQ(decoded->header.spec.width_px, swaps ? 13 : 21);
      EXPECT_TRUE(test::ResolutionsIn(decoded->metadata.exif) ==
                  (swaps ? test::Turned(values) : values))
          << orientation;
      EXPECT_EQ(decoded->metadata.xmp,
                swaps ? "<x tiff:XResolution='150/1' tiff:YResolution='300/1'/>"
                      : "<x tiff:XResolution='300/1' tiff:YResolution='150/1'/>");
    }
}

TEST(JxlTest, BoxesThatAreLeftOutAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU8}, random);
  const auto bytes = test::Encode(image.view(), {.format = ImageFormat::kJxl}, {.xmp = "<x/>"});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT(test::Decode(*bytes)->warnings, IsEmpty());
  const std::string box("\0\0\0\x0cjumbdata", 12);
  const auto decoded = test::Decode(*bytes + box + box);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->warnings, ElementsAre("JPEG XL: boxes are left out: jumb"));
}

// In a container, other bytes than a box's end a file as damage does.
TEST(JxlTest, BytesBehindTheImageAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({21, 13, 3, SampleType::kU8}, random);
  for (const bool boxed : {false, true}) {
    const std::string file = WriteJxl({.boxed = boxed}, image.view());
    for (const size_t count : {0, 1, 100'000}) {
      SCOPED_TRACE(::testing::Message() << boxed << ' ' << count);
      const auto decoded = test::Decode(file + std::string(count, 'x'));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->warnings.empty(), count == 0);
      if (!boxed && count > 0) {
        EXPECT_THAT(decoded->warnings[0], HasSubstr("bytes behind the image's end are left out"));
      }
    }
  }
}

TEST(JxlTest, LossyFilesOfAProfileBecomeSrgbWithAWarning) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU8}, random);
  ImageMetadata metadata;
  metadata.colour_chunks = {{.type = "cICP", .data = std::string("\x09\x01\0\1", 4)}};
  std::vector<std::string> warnings;
  const ImageMetadata profile =
      MetadataForResult(metadata, MetadataPolicy::kKeep, ImageFormat::kJpeg, image.spec(),
                        /*too_late=*/false, warnings);
  ASSERT_FALSE(profile.icc_profile.empty());
  auto decoded = test::Decode(*test::Encode(image.view(), kLosslessJxl, profile));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata, profile);
  decoded = test::Decode(*test::Encode(image.view(), {.format = ImageFormat::kJxl}, profile));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata, ImageMetadata{});
  EXPECT_THAT(decoded->warnings, ElementsAre(HasSubstr("the colours become sRGB")));
}

// libjxl 0.7 ends the process over profiles that it cannot apply.
TEST(JxlTest, ProfilesThatCannotBeAppliedAreLeftOut) {
  std::mt19937 random = test::FreshRandom();
  std::string no_curve = test::SrgbProfile(), gray_by_header = test::SrgbProfile();
  no_curve.replace(no_curve.find("gTRC"), 4, "xTRC");
  gray_by_header.replace(16, 4, "GRAY");
  for (const std::string& profile :
       {test::CmykProfile(), no_curve, gray_by_header, test::TestProfile(true, 200),
        test::TestProfile(false, 200), std::string(400, 'x')})
    for (const int channels : {1, 2, 3, 4})
      for (const int quality : {90, 100}) {
        const Image image = test::PhotoImage({9, 8, channels, SampleType::kU8}, random);
        const ImageMetadata metadata = {.icc_profile = profile};
        const auto bytes =
            test::Encode(image.view(), {.format = ImageFormat::kJxl, .quality = quality}, metadata);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        EXPECT_EQ(test::Decode(*bytes)->metadata, ImageMetadata{});
        std::vector<std::string> warnings;
        EXPECT_EQ(MetadataForResult(metadata, MetadataPolicy::kKeep, ImageFormat::kJxl,
                                    image.spec(), /*too_late=*/false, warnings),
                  ImageMetadata{});
        EXPECT_THAT(warnings, ElementsAre(HasSubstr("the colour profile is left out")));
      }
}

TEST(JxlTest, CutAndDamagedFilesAreRefused) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({40, 30, 4, SampleType::kU8}, random);
  for (const int quality : {50, 100}) {
    const std::string bytes =
        *test::Encode(image.view(), {.format = ImageFormat::kJxl, .quality = quality});
    test::ExpectPrefixesAreRefused(bytes, 7);
    test::ExpectDamageIsSurvived(bytes, random, 200);
  }
}

TEST(JxlTest, HugeOnesAreRefusedByTheirHeader) {
  // 2^30 rows, and as many columns by the ratio of 1.
  std::string bytes("\xff\x0a", 2);
  uint64_t bits = 0b110 | uint64_t{0x3FFFFFFF} << 3 | uint64_t{1} << 33;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(bits >> 8 * i));
  EXPECT_EQ(ParseImageHeader(AsBytes(bytes), {}).status().message(),
            "JPEG XL: the image is 1073741824 x 1073741824 px; the limit is 1000000 px a side");
}

}  // namespace
}  // namespace upscaled
