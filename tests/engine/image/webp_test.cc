// WebP files unlike our encoder's.
#include <webp/encode.h>
#include <webp/mux.h>

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// RGB or RGBA, lossy or not, straight from libwebp.
std::string WriteWebp(ImageView image, bool lossless) {
  uint8_t* bytes = nullptr;
  const int width = image.width_px(), height = image.height_px();
  const int stride = static_cast<int>(image.stride_bytes);
  const bool alpha = image.spec.has_alpha();
  size_t size;
  if (lossless)
    size = alpha ? WebPEncodeLosslessRGBA(image.data, width, height, stride, &bytes)
                 : WebPEncodeLosslessRGB(image.data, width, height, stride, &bytes);
  else
    size = alpha ? WebPEncodeRGBA(image.data, width, height, stride, 95, &bytes)
                 : WebPEncodeRGB(image.data, width, height, stride, 95, &bytes);
  std::string result(reinterpret_cast<char*>(bytes), size);
  WebPFree(bytes);
  return result;
}

// Puts chunks around the image: ICCP before it, EXIF after it.
std::string AddChunks(const std::string& file, const std::string& icc, const std::string& exif) {
  const WebPData data = {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  const WebPData icc_data = {reinterpret_cast<const uint8_t*>(icc.data()), icc.size()};
  const WebPData exif_data = {reinterpret_cast<const uint8_t*>(exif.data()), exif.size()};
  WebPMux* mux = WebPMuxCreate(&data, 0);
  WebPMuxSetChunk(mux, "ICCP", &icc_data, 0);
  WebPMuxSetChunk(mux, "EXIF", &exif_data, 0);
  WebPData result;
  WebPMuxAssemble(mux, &result);
  std::string bytes(reinterpret_cast<const char*>(result.bytes), result.size);
  WebPDataClear(&result);
  WebPMuxDelete(mux);
  return bytes;
}

// The colour of invisible pixels may be anything.
void HideColoursUnderTransparency(Image& image) {
  if (!image.spec().has_alpha()) return;
  uint8_t* pixels = image.mutable_view().data;
  for (size_t i = 0; i < image.bytes(); i += 4)
    if (pixels[i + 3] == 0) pixels[i] = pixels[i + 1] = pixels[i + 2] = 0;
}

TEST(WebpTest, DecodesLossyAndLosslessWithAndWithoutExtras) {
  std::mt19937 random = test::FreshRandom();
  for (int channels : {3, 4})
    for (bool lossless : {false, true})
      for (bool extras : {false, true}) {
        SCOPED_TRACE(::testing::Message() << channels << lossless << extras);
        Image image = test::PhotoImage({75, 53, channels, SampleType::kU8}, random);
        std::string bytes = WriteWebp(image.view(), lossless);
        if (extras) bytes = AddChunks(bytes, "odd profile", "some exif");
        auto decoded = test::Decode(bytes);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_EQ(decoded->header.spec, image.spec());
        EXPECT_EQ(decoded->metadata.icc_profile, extras ? "odd profile" : "");
        HideColoursUnderTransparency(image);
        HideColoursUnderTransparency(decoded->image);
        if (lossless)
          EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
        else
          EXPECT_LE(test::LargestDifference(decoded->image.view(), image.view()), 60);
      }
}

// With libwebp's transforms, colour caches and blocks for these colours.
std::string WriteLossless(ImageView image, int method) {
  WebPConfig config;
  WebPPicture picture;
  WebPMemoryWriter writer;
  WebPMemoryWriterInit(&writer);
  EXPECT_TRUE(WebPConfigInit(&config) && WebPPictureInit(&picture));
  config.lossless = config.exact = 1;
  config.method = method;
  config.quality = 60;
  picture.use_argb = 1;
  picture.width = image.width_px();
  picture.height = image.height_px();
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  EXPECT_TRUE(WebPPictureImportRGBA(&picture, image.data, static_cast<int>(image.stride_bytes)));
  EXPECT_TRUE(WebPEncode(&config, &picture));
  std::string bytes(reinterpret_cast<const char*>(writer.mem), writer.size);
  WebPPictureFree(&picture);
  WebPMemoryWriterClear(&writer);
  return bytes;
}

TEST(WebpTest, LosslessFilesOfEveryKindPassTheGuardOfHuffmanCodes) {
  std::mt19937 random = test::FreshRandom();
  for (int method = 0; method <= 6; ++method)
    for (const int colours : {1, 2, 4, 16, 200, 0}) {  // 0: as many as there are
      SCOPED_TRACE(::testing::Message() << "method " << method << ", colours " << colours);
      const ImageSpec spec = {test::RandomInt(random, 1, 200), test::RandomInt(random, 1, 150), 4,
                              SampleType::kU8};
      Image image =
          colours % 4 == 0 ? test::PhotoImage(spec, random) : test::ArtImage(spec, random);
      if (colours > 0) {
        auto* pixels = reinterpret_cast<uint32_t*>(image.mutable_view().data);
        for (size_t i = 0; i < image.bytes() / 4; ++i) pixels[i] = pixels[i] % colours * 0x01030507;
      }
      const std::string file = WriteLossless(image.view(), method);
      test::SlowSource source(file, test::RandomInt(random, 1, 3000));
      const auto decoder = OpenImageDecoder(source, {});
      ASSERT_TRUE(decoder.ok()) << decoder.status();
      ASSERT_EQ((*decoder)->spec().size(), spec.size());
      const auto decoded = test::ReadAll(**decoder);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      if (decoded->spec() == spec) {
        EXPECT_TRUE(test::SameImages(decoded->view(), image.view()));
      }
    }
}

TEST(WebpTest, LosslessKeepsColoursUnderTransparency) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::ArtImage({60, 90, 4, SampleType::kU8}, random);
  const auto bytes = test::Encode(image.view(), {.format = ImageFormat::kWebp, .quality = 100});
  ASSERT_TRUE(bytes.ok());
  const auto decoded = test::Decode(*bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
}

// Lines of 1 to 3 pixels on a ground, of colours of unequal brightness.
Image ColouredLines(std::array<uint8_t, 3> paper, std::array<uint8_t, 3> ink) {
  Image image({96, 64, 3, SampleType::kU8});
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 96; ++x) {
      const bool inked = x % 20 < x / 20 % 3 + 1;
      std::copy_n((inked ? ink : paper).begin(), 3, image.mutable_view().row(y) + 3 * x);
    }
  }
  return image;
}

double Psnr_dB(const ImageView& a, const ImageView& b) {
  double sum = 0;
  for (int y = 0; y < a.height_px(); ++y) {
    for (int i = 0; i < 3 * a.width_px(); ++i) sum += std::pow(a.row(y)[i] - b.row(y)[i], 2);
  }
  return 10 * std::log10(255.0 * 255 * 3 * static_cast<double>(a.spec.size().Area()) / sum);
}

TEST(WebpTest, HighQualityKeepsColouredLines) {
  const Image images[] = {ColouredLines({255, 255, 255}, {0, 0, 255}),
                          ColouredLines({0, 0, 0}, {0, 255, 0})};
  const auto psnr_dB = [](const Image& image, int quality) {
    const auto bytes =
        test::Encode(image.view(), {.format = ImageFormat::kWebp, .quality = quality});
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    const auto decoded = test::Decode(*bytes);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return Psnr_dB(decoded->image.view(), image.view());
  };
  for (const Image& image : images) {
    for (const int quality : {90, 95, 99}) {
      EXPECT_GT(psnr_dB(image, quality), psnr_dB(image, 89) + 2) << quality;
    }
  }
}

std::string Chunk(const std::string& type, const std::string& data) {
  std::string bytes = type;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(data.size() >> shift);
  return bytes + data + std::string(data.size() % 2, '\0');
}

// With RIFF's size set right.
std::string WebpOf(const std::string& chunks) { return Chunk("RIFF", "WEBP" + chunks); }

std::string Extended(int flags, Size canvas) {
  std::string payload(4, '\0');
  payload[0] = static_cast<char>(flags);
  for (const int side : {canvas.width - 1, canvas.height - 1})
    for (int shift = 0; shift < 24; shift += 8) payload += static_cast<char>(side >> shift);
  return Chunk("VP8X", payload);
}

TEST(WebpTest, ChunksThatAreLeftOutAreNamed) {
  constexpr int kIcc = 0x20, kExif = 0x08, kXmp = 0x04, kAnimated = 0x02;
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({16, 10, 3, SampleType::kU8}, random);
  for (const bool lossless : {false, true}) {
    const std::string pixels = WriteWebp(image.view(), lossless).substr(12);
    const std::string icc = Chunk("ICCP", "profile"), exif = Chunk("EXIF", "II*\0"),
                      xmp = Chunk("XMP ", "<x/>"), odd = Chunk("oddC", "x"),
                      binary = Chunk("\1\2ab", "");
    const auto named = [&](const std::string& chunks) {
      const auto decoded = test::Decode(WebpOf(chunks), {.warns_of_frames = false});
      EXPECT_TRUE(decoded.ok()) << decoded.status();
      return decoded.ok() ? decoded->warnings : std::vector<std::string>();
    };
    const std::string left_out = "WebP: chunks are left out: ",
                      unannounced =
                          "WebP: chunks that the file's header (VP8X) does not announce are left "
                          "out: ";
    const auto extended = [&](int flags) { return Extended(flags, {16, 10}); };
    EXPECT_THAT(named(pixels), IsEmpty());
    EXPECT_THAT(named(extended(kIcc | kExif | kXmp) + icc + pixels + exif + xmp), IsEmpty());
    EXPECT_THAT(named(pixels + odd), ElementsAre(left_out + "oddC"));
    EXPECT_THAT(named(extended(kIcc) + odd + icc + icc + pixels + odd + binary),
                ElementsAre(left_out + "oddC, ICCP, ??ab"));
    // Readers heed no chunks that VP8X does not announce.
    EXPECT_THAT(named(extended(kXmp) + pixels + exif + xmp + xmp),
                ElementsAre(left_out + "XMP", unannounced + "EXIF"));
    EXPECT_THAT(named(extended(0) + icc + pixels + xmp + exif),
                ElementsAre(unannounced + "ICCP, XMP, EXIF"));
    EXPECT_THAT(named(pixels + icc + exif + xmp), ElementsAre(unannounced + "ICCP, EXIF, XMP"));
    EXPECT_THAT(named(extended(kIcc) + pixels + icc + pixels),
                ElementsAre(left_out + "ICCP, VP8" + (lossless ? "L" : "")));
    // An animation has chunks of the file and of its frames.
    std::string frame(16, '\0');
    frame[6] = 15;
    frame[9] = 9;
    const std::string frames =
        Chunk("ANMF", frame + pixels) + Chunk("ANMF", frame + pixels + Chunk("inIt", "12"));
    const std::string control = Chunk("ANIM", std::string(6, '\0'));
    const std::string moving = control + Chunk("ANMF", frame + pixels) + exif + xmp + icc;
    EXPECT_THAT(named(extended(kAnimated | kIcc | kExif | kXmp) + moving), IsEmpty());
    EXPECT_THAT(named(extended(kAnimated) + moving), ElementsAre(unannounced + "EXIF, XMP, ICCP"));
    EXPECT_THAT(named(extended(kAnimated) + control + frames + odd),
                ElementsAre(left_out + "inIt, oddC"));
  }
}

// As libwebp's demuxer and browsers do: neither kept nor turned by.
TEST(WebpTest, OnlyAnnouncedMetadataAreHeeded) {
  constexpr int kIcc = 0x20, kExif = 0x08, kXmp = 0x04, kAnimated = 0x02;
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({16, 10, 3, SampleType::kU8}, random);
  const std::string turned("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 26);
  const std::string late = Chunk("EXIF", turned) + Chunk("XMP ", "<x/>");
  std::string frame(16, '\0');
  frame[6] = 15;
  frame[9] = 9;
  for (const int flags :
       {0, kIcc, kExif, kXmp, kIcc | kExif, kIcc | kXmp, kExif | kXmp, kIcc | kExif | kXmp})
    for (const bool lossless : {false, true})
      for (const bool moves : {false, true})
        for (const bool icc_is_late : {false, true}) {
          SCOPED_TRACE(::testing::Message() << flags << lossless << moves << icc_is_late);
          const std::string stored = WriteWebp(image.view(), lossless).substr(12);
          const std::string pixels =
              moves ? Chunk("ANIM", std::string(6, '\0')) + Chunk("ANMF", frame + stored) : stored;
          const std::string icc = Chunk("ICCP", "profile");
          const std::string file = WebpOf(Extended(flags | (moves ? kAnimated : 0), {16, 10}) +
                                          (icc_is_late ? pixels + icc : icc + pixels) + late);
          const auto decoded = test::Decode(file);
          ASSERT_TRUE(decoded.ok()) << decoded.status();
          const bool has_icc = (flags & kIcc) != 0 && (moves || !icc_is_late);
          EXPECT_EQ(decoded->metadata.icc_profile, has_icc ? "profile" : "");
          EXPECT_EQ(decoded->metadata.exif, (flags & kExif) != 0 ? turned : "");
          EXPECT_EQ(decoded->metadata.xmp, (flags & kXmp) != 0 ? "<x/>" : "");
          EXPECT_EQ(decoded->header.spec.width_px, (flags & kExif) != 0 ? 10 : 16);
          EXPECT_LE(BytesOf(decoded->metadata), decoded->header.metadata_bytes);
          const int all = kIcc | kExif | kXmp;
          const bool is_misplaced = (flags & kIcc) != 0 && !has_icc;
          EXPECT_EQ(decoded->warnings.size(), (flags != all ? 1u : 0u) + (is_misplaced ? 1u : 0u))
              << ::testing::PrintToString(decoded->warnings);
          for (const std::string& warning : decoded->warnings)
            EXPECT_THAT(warning, HasSubstr("left out: "));
        }
}

// The frame tells, as libwebp reads it.
TEST(WebpTest, AlphaNeedsNoAnnouncement) {
  std::mt19937 random = test::FreshRandom();
  for (const bool lossless : {false, true})
    for (const int channels : {3, 4}) {
      const Image image = test::PhotoImage({16, 10, channels, SampleType::kU8}, random);
      const std::string file = WriteWebp(image.view(), lossless);
      const size_t first = file.compare(12, 4, "VP8X") == 0 ? 30 : 12;
      for (const int flags : {0, 0x10}) {
        const std::string other = WebpOf(Extended(flags, {16, 10}) + file.substr(first));
        const auto decoded = test::Decode(other);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_THAT(decoded->warnings, IsEmpty());
        EXPECT_TRUE(test::SameImages(decoded->image.view(), test::Decode(file)->image.view()));
      }
    }
}

TEST(WebpTest, RefusesAFrameOfAnotherSizeThanTheCanvas) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({16, 16, 3, SampleType::kU8}, random);
  std::string bytes = AddChunks(WriteWebp(image.view(), true), "icc", "exif");
  bytes[24] = 99;  // the canvas' width - 1
  const absl::Status status = test::Decode(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the frame is 16 x 16 px, the canvas 100"));
}

}  // namespace
}  // namespace upscaled
