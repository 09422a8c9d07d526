// Animations in PNG and WebP: every disposal, blending, place and depth against canvases worked out
// pixel by pixel; single frames; damage; hostile files. GIF's are in gif_test.cc.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <webp/decode.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include "absl/strings/str_cat.h"
#include "engine/image/codec.h"
#include "tests/support/animations.h"
#include "tests/support/prefixes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Samples of one pixel, in 0..1.
struct Pixel {
  double samples[4] = {};
};

double SampleOf(const ImageView& image, int x, int y, int c) {
  const int i = x * image.spec.channels + c;
  return image.spec.type == SampleType::kU8 ? image.row(y)[i] / 255.0
                                            : image.row_as<uint16_t>(y)[i] / 65535.0;
}

// The canvases of a file with frames of `channels`, alpha last.
class Oracle {
 public:
  Oracle(Size canvas, int channels) : size_(canvas), channels_(channels) {
    canvas_.resize(canvas.Area());
  }

  // Draws one frame and returns the canvas as it is shown.
  std::vector<Pixel> Show(const Rect& place, const Image& pixels, int disposal, bool blends) {
    const std::vector<Pixel> before = canvas_;
    const bool has_alpha = pixels.spec().has_alpha();
    for (int y = 0; y < place.height; ++y)
      for (int x = 0; x < place.width; ++x) {
        Pixel& below = canvas_[int64_t{1} * (place.y + y) * size_.width + place.x + x];
        Pixel above;
        for (int c = 0; c < channels_; ++c)
          above.samples[c] =
              c == channels_ - 1 && !has_alpha ? 1 : SampleOf(pixels.view(), x, y, c);
        below = blends && has_alpha ? Over(above, below) : above;
      }
    const std::vector<Pixel> shown = canvas_;
    for (int y = place.y; y < place.bottom() && disposal > 0; ++y)
      for (int x = place.x; x < place.right(); ++x) {
        const int64_t i = int64_t{1} * y * size_.width + x;
        canvas_[i] = disposal == 1 ? Pixel() : before[i];
      }
    return shown;
  }

 private:
  Pixel Over(const Pixel& above, const Pixel& below) const {
    const int a = channels_ - 1;
    const double alpha = above.samples[a] + (1 - above.samples[a]) * below.samples[a];
    if (above.samples[a] == 0) return below;
    Pixel result;
    for (int c = 0; c < a; ++c)
      result.samples[c] = (above.samples[c] * above.samples[a] +
                           below.samples[c] * below.samples[a] * (1 - above.samples[a])) /
                          alpha;
    result.samples[a] = alpha;
    return result;
  }

  const Size size_;
  const int channels_;
  std::vector<Pixel> canvas_;
};

// Compares visible colours; decoders round them after each frame.
void ExpectShows(const Image& image, const std::vector<Pixel>& expected) {
  const double tolerance = image.spec().type == SampleType::kU8 ? 3.0 / 255 : 0.001;
  const int channels = image.spec().channels, alpha = channels - 1;
  for (int y = 0; y < image.spec().height_px; ++y)
    for (int x = 0; x < image.spec().width_px; ++x) {
      const Pixel& pixel = expected[int64_t{1} * y * image.spec().width_px + x];
      const double opacity = SampleOf(image.view(), x, y, alpha);
      ASSERT_NEAR(opacity, pixel.samples[alpha], tolerance) << "at " << x << ", " << y;
      for (int c = 0; c < alpha; ++c)
        ASSERT_NEAR(opacity * SampleOf(image.view(), x, y, c),
                    pixel.samples[alpha] * pixel.samples[c], tolerance)
            << "at " << x << ", " << y << ", channel " << c;
    }
}

// Noise. Its alpha, if there is one, is often 0 or full.
Image RandomFrame(const ImageSpec& spec, std::mt19937& random) {
  Image image = test::RandomImage(spec, random);
  for (int y = 0; y < spec.height_px && spec.has_alpha(); ++y)
    for (int x = 0; x < spec.width_px; ++x) {
      const int kind = test::RandomInt(random, 0, 2);
      if (kind == 2) continue;
      const int i = (x + 1) * spec.channels - 1;
      if (spec.type == SampleType::kU8)
        image.mutable_view().row(y)[i] = kind == 0 ? 0 : UINT8_MAX;
      else
        image.mutable_view().row_as<uint16_t>(y)[i] = kind == 0 ? 0 : UINT16_MAX;
    }
  return image;
}

Rect RandomPlace(Size canvas, std::mt19937& random, int step = 1) {
  const int x = test::RandomInt(random, 0, (canvas.width - 1) / step) * step;
  const int y = test::RandomInt(random, 0, (canvas.height - 1) / step) * step;
  return {x, y, test::RandomInt(random, 1, canvas.width - x),
          test::RandomInt(random, 1, canvas.height - y)};
}

test::ApngFile RandomApng(Size canvas, int channels, SampleType type, bool still_is_frame,
                          std::mt19937& random) {
  test::ApngFile file{.canvas = canvas,
                      .plays = static_cast<uint32_t>(test::RandomInt(random, 0, 9)),
                      .still_is_frame = still_is_frame};
  // Each disposal before each blending, in random places.
  for (int i = 0; i < 12; ++i) {
    const bool covers = i == 0 && still_is_frame;
    const Rect place =
        covers ? Rect{0, 0, canvas.width, canvas.height} : RandomPlace(canvas, random);
    file.frames.push_back({place,
                           RandomFrame({place.width, place.height, channels, type}, random),
                           {static_cast<uint32_t>(test::RandomInt(random, 0, 65535)),
                            static_cast<uint32_t>(test::RandomInt(random, 1, 1000))},
                           i % 3,
                           i / 3 % 2 == 1});
  }
  return file;
}

TEST(ApngTest, EveryFrameIsDrawnAsTheSpecificationSays) {
  std::mt19937 random = test::FreshRandom();
  for (const Size canvas : {Size{1, 1}, Size{7, 5}, Size{33, 20}})
    for (const int channels : {1, 2, 3, 4})
      for (const SampleType type : {SampleType::kU8, SampleType::kU16})
        for (const bool still_is_frame : {true, false}) {
          SCOPED_TRACE(::testing::Message() << canvas.width << " px, " << channels << " channels, "
                                            << static_cast<int>(type) << still_is_frame);
          const test::ApngFile file = RandomApng(canvas, channels, type, still_is_frame, random);
          const auto decoded = test::DecodeFrames(test::WriteApng(file), random);
          ASSERT_TRUE(decoded.ok()) << decoded.status();
          EXPECT_THAT(decoded->warnings, IsEmpty());
          ASSERT_TRUE(decoded->header.animation.has_value());
          EXPECT_EQ(*decoded->header.animation, (Animation{12, file.plays}));
          // Frames with a cleared part need alpha.
          const int shown = channels + channels % 2;
          ASSERT_EQ(decoded->header.spec, (ImageSpec{canvas.width, canvas.height, shown, type}));
          Oracle oracle(canvas, shown);
          for (size_t i = 0; i < file.frames.size(); ++i) {
            const test::ApngFrame& frame = file.frames[i];
            SCOPED_TRACE(i);
            EXPECT_EQ(decoded->delays[i], frame.delay);
            // The first one has nothing to go back to.
            const auto expected =
                oracle.Show(frame.place, frame.pixels, frame.disposal, frame.blends);
            ExpectShows(decoded->frames[i], expected);
          }
        }
}

TEST(ApngTest, AnOpaqueAnimationHasNoAlpha) {
  std::mt19937 random = test::FreshRandom();
  test::ApngFile file = RandomApng({9, 8}, 3, SampleType::kU8, true, random);
  for (test::ApngFrame& frame : file.frames) frame.disposal = 0;
  file.frames.back().disposal = 1;  // nothing is shown after it
  const auto decoded = test::DecodeFrames(test::WriteApng(file), random);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.spec.channels, 3);
}

TEST(ApngTest, OneFrameIsThatOfTheAnimation) {
  std::mt19937 random = test::FreshRandom();
  const std::string bytes = test::WriteApng(RandomApng({9, 8}, 4, SampleType::kU8, true, random));
  const auto all = test::DecodeFrames(bytes, random);
  ASSERT_TRUE(all.ok()) << all.status();
  for (int frame = 1; frame <= 12; ++frame) {
    const auto one = test::Decode(bytes, {.frame = frame});
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_FALSE(one->header.animation.has_value());
    EXPECT_TRUE(test::SameImages(one->image.view(), all->frames[frame - 1].view())) << frame;
    EXPECT_THAT(one->header.warnings, ElementsAre(HasSubstr("11 left out")));
    // Callers with a single frame know about the others.
    const auto asked = test::Decode(bytes, {.frame = frame, .warns_of_frames = false});
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_THAT(asked->header.warnings, IsEmpty());
  }
  EXPECT_THAT(std::string(test::Decode(bytes, {.frame = 13}).status().message()),
              HasSubstr("PNG: frame 13 is asked for; the image has 12"));
}

TEST(ApngTest, DelaysWithoutADenominatorAreHundredths) {
  std::mt19937 random = test::FreshRandom();
  test::ApngFile file = RandomApng({3, 3}, 3, SampleType::kU8, true, random);
  file.frames[1].delay = {7, 0};
  const auto decoded = test::DecodeFrames(test::WriteApng(file), random);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->delays[1], (FrameDelay{7, 100}));
}

TEST(ApngTest, KeepsMetadataBeforeAndBehindItsFrames) {
  std::mt19937 random = test::FreshRandom();
  const test::ApngFile file = RandomApng({5, 4}, 3, SampleType::kU8, true, random);
  const std::string text = test::PngChunk("tEXt", std::string("Title\0drawn", 11));
  std::string bytes = test::WriteApng(file, test::PngChunk("tEXt", std::string("Late\0end", 8)));
  bytes.insert(33, text);
  const auto decoded = test::DecodeFrames(bytes, random);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->metadata.texts, ElementsAre(ImageText{"Title", "drawn", "", ""}));
  EXPECT_THAT(decoded->late_metadata.texts, ElementsAre(ImageText{"Late", "end", "", ""}));
}

TEST(ApngTest, TurnsEachFrameUpright) {
  std::mt19937 random = test::FreshRandom();
  std::string bytes = test::WriteApng(RandomApng({6, 4}, 4, SampleType::kU8, true, random));
  const auto stored = test::DecodeFrames(bytes, random);
  const std::string exif("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", 26);
  bytes.insert(33, test::PngChunk("eXIf", exif));
  const auto turned = test::DecodeFrames(bytes, random);
  ASSERT_TRUE(stored.ok() && turned.ok()) << stored.status() << turned.status();
  for (size_t i = 0; i < 12; ++i)
    EXPECT_TRUE(test::SameImages(turned->frames[i].view(),
                                 test::TurnUpright(stored->frames[i].view(), 6).view()));
}

TEST(ApngTest, CutAndDamagedFilesAreRefusedOrFilled) {
  std::mt19937 random = test::FreshRandom();
  const test::ApngFile file = RandomApng({12, 9}, 4, SampleType::kU8, true, random);
  const std::string bytes = test::WriteApng(file);
  const auto whole = test::DecodeFrames(bytes, random);
  ASSERT_TRUE(whole.ok());
  const size_t without_end = bytes.size() - 12;
  for (size_t length = 0; length < bytes.size(); length += 7) {
    const std::string_view cut = std::string_view(bytes).substr(0, length);
    const auto decoded = test::DecodeFrames(cut, random);
    if (decoded.ok()) {  // all pixels are there
      EXPECT_GE(decoded->warnings.size(), 1u) << length;
      for (size_t i = 0; i < whole->frames.size(); ++i)
        EXPECT_TRUE(test::SameImages(decoded->frames[i].view(), whole->frames[i].view())) << i;
    } else {
      EXPECT_LT(length, without_end) << decoded.status();
      EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument) << length;
    }
    const auto filled = test::DecodeFrames(cut, random, {.fill_damage = true});
    if (!filled.ok() || decoded.ok()) continue;
    EXPECT_GE(filled->warnings.size(), 1u) << length;
    for (size_t i = 0; i + 1 < filled->frames.size(); ++i)
      EXPECT_TRUE(test::SameImages(filled->frames[i].view(), whole->frames[i].view())) << i;
  }
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    damaged[test::RandomInt(random, 0, static_cast<int>(bytes.size()) - 1)] ^=
        1 << test::RandomInt(random, 0, 7);
    (void)test::DecodeFrames(damaged, random, {.max_pixels = 1 << 16});
  }
}

TEST(ApngTest, RefusesHostileOnesByTheirHeader) {
  const std::string ihdr = test::PngChunk(
      "IHDR", test::Be32(4000) + test::Be32(3000) + std::string("\x08\x02\0\0\0", 5));
  const std::string begin = "\x89PNG\r\n\x1a\n" + ihdr;
  const auto refusal = [&](uint32_t frames, const DecodeLimits& limits) {
    const std::string bytes = begin + test::PngChunk("acTL", test::Be32(frames) + test::Be32(0)) +
                              test::PngChunk("fcTL", std::string(26, '\0')) +
                              std::string("\0\0\1\0IDAT", 8);
    return ParseImageHeader(AsBytes(bytes), limits).status();
  };
  EXPECT_THAT(std::string(refusal(1'000'000, {.frame = 0}).message()),
              HasSubstr("PNG: the animation has 1000000 frames; the limit is 10000"));
  EXPECT_THAT(std::string(refusal(9, {.frame = 0}).message()),
              HasSubstr("PNG: the animation's 9 frames have 108000000 pixels; the limit is"));
  EXPECT_TRUE(refusal(9, {}).ok());  // the first alone
}

TEST(ApngTest, RefusesASecondHeader) {
  std::mt19937 random = test::FreshRandom();
  const std::string bytes = test::WriteApng(RandomApng({10, 10}, 3, SampleType::kU8, true, random));
  const size_t control = bytes.find("acTL") - 4;
  const std::string large = test::Be32(1000) + test::Be32(1000) + bytes.substr(24, 5);
  for (const std::string& second :
       {std::string(), std::string(5, '\0'), bytes.substr(16, 13), large}) {
    for (const size_t at : {control, bytes.find("fcTL") - 4, bytes.find("IEND") - 4}) {
      std::string changed = bytes;
      changed.insert(at, test::PngChunk("IHDR", second));
      EXPECT_THAT(std::string(test::DecodeFrames(changed, random).status().message()),
                  HasSubstr("PNG: it has a second IHDR"));
    }
  }
}

TEST(ApngTest, RefusesFramesOutsideOfTheCanvas) {
  std::mt19937 random = test::FreshRandom();
  for (const Rect& place : {Rect{3, 0, 5, 3}, Rect{0, 4, 3, 5}, Rect{-1, 0, 2, 2}}) {
    test::ApngFile file = RandomApng({7, 7}, 3, SampleType::kU8, true, random);
    file.frames[4].place = place;
    EXPECT_THAT(std::string(test::DecodeFrames(test::WriteApng(file), random).status().message()),
                HasSubstr("outside of the canvas of 7 x 7"));
  }
}

struct WebpFrame {
  Rect place;
  Image pixels;
  int delay_ms = 0;
  bool clears = false, blends = false;
};

std::string WriteStill(const ImageView& image, bool lossless) {
  uint8_t* bytes = nullptr;
  const int stride = static_cast<int>(image.stride_bytes);
  const size_t count = image.spec.channels == 3
                           ? (lossless ? WebPEncodeLosslessRGB(image.data, image.width_px(),
                                                               image.height_px(), stride, &bytes)
                                       : WebPEncodeRGB(image.data, image.width_px(),
                                                       image.height_px(), stride, 80, &bytes))
                           : (lossless ? WebPEncodeLosslessRGBA(image.data, image.width_px(),
                                                                image.height_px(), stride, &bytes)
                                       : WebPEncodeRGBA(image.data, image.width_px(),
                                                        image.height_px(), stride, 80, &bytes));
  std::string still(reinterpret_cast<const char*>(bytes), count);
  WebPFree(bytes);
  return still;
}

std::string WriteWebpAnimation(Size canvas, const std::vector<WebpFrame>& frames, int plays,
                               bool lossless) {
  WebPMux* mux = WebPMuxNew();
  WebPMuxSetCanvasSize(mux, canvas.width, canvas.height);
  for (const WebpFrame& frame : frames) {
    const std::string still = WriteStill(frame.pixels.view(), lossless);
    WebPMuxFrameInfo info = {};
    info.bitstream = {reinterpret_cast<const uint8_t*>(still.data()), still.size()};
    info.id = WEBP_CHUNK_ANMF;
    info.duration = frame.delay_ms;
    info.x_offset = frame.place.x;
    info.y_offset = frame.place.y;
    info.dispose_method = frame.clears ? WEBP_MUX_DISPOSE_BACKGROUND : WEBP_MUX_DISPOSE_NONE;
    info.blend_method = frame.blends ? WEBP_MUX_BLEND : WEBP_MUX_NO_BLEND;
    EXPECT_EQ(WebPMuxPushFrame(mux, &info, 1), WEBP_MUX_OK);
  }
  const WebPMuxAnimParams params = {0xFFFFFFFF, plays};
  WebPMuxSetAnimationParams(mux, &params);
  WebPData result;
  EXPECT_EQ(WebPMuxAssemble(mux, &result), WEBP_MUX_OK);
  std::string bytes(reinterpret_cast<const char*>(result.bytes), result.size);
  WebPDataClear(&result);
  WebPMuxDelete(mux);
  return bytes;
}

std::vector<WebpFrame> RandomWebpFrames(Size canvas, int channels, std::mt19937& random) {
  std::vector<WebpFrame> frames;
  for (int i = 0; i < 8; ++i) {
    const Rect place =
        i == 0 ? Rect{0, 0, canvas.width, canvas.height} : RandomPlace(canvas, random, /*step=*/2);
    frames.push_back({place,
                      RandomFrame({place.width, place.height, channels, SampleType::kU8}, random),
                      test::RandomInt(random, 0, 5000), i % 2 == 1, i / 2 % 2 == 1});
  }
  return frames;
}

TEST(WebpAnimationTest, EveryFrameIsDrawnAsTheSpecificationSays) {
  std::mt19937 random = test::FreshRandom();
  for (const Size canvas : {Size{1, 1}, Size{7, 5}, Size{33, 20}})
    for (const int channels : {3, 4}) {
      SCOPED_TRACE(::testing::Message() << canvas.width << " px, " << channels << " channels");
      const std::vector<WebpFrame> frames = RandomWebpFrames(canvas, channels, random);
      const auto decoded =
          test::DecodeFrames(WriteWebpAnimation(canvas, frames, 3, /*lossless=*/true), random);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_THAT(decoded->warnings, IsEmpty());
      EXPECT_EQ(decoded->header.animation, (Animation{8, 3}));
      EXPECT_TRUE(decoded->header.lossless_webp);
      ASSERT_EQ(decoded->header.spec, (ImageSpec{canvas.width, canvas.height, 4, SampleType::kU8}));
      Oracle oracle(canvas, 4);
      for (size_t i = 0; i < frames.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(decoded->delays[i],
                  (FrameDelay{static_cast<uint32_t>(frames[i].delay_ms), 1000}));
        ExpectShows(decoded->frames[i], oracle.Show(frames[i].place, frames[i].pixels,
                                                    frames[i].clears ? 1 : 0, frames[i].blends));
      }
    }
}

TEST(WebpAnimationTest, SingleFramesLossyOnesAndOpaqueOnes) {
  std::mt19937 random = test::FreshRandom();
  std::vector<WebpFrame> frames = RandomWebpFrames({18, 13}, 3, random);
  for (WebpFrame& frame : frames) frame.clears = false;
  const std::string bytes = WriteWebpAnimation({18, 13}, frames, 0, /*lossless=*/false);
  const auto all = test::DecodeFrames(bytes, random);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->header.spec.channels, 3);
  EXPECT_FALSE(all->header.lossless_webp);
  EXPECT_EQ(all->header.animation, (Animation{8, 0}));
  for (int frame = 1; frame <= 8; ++frame) {
    const auto one = test::Decode(bytes, {.frame = frame});
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_TRUE(test::SameImages(one->image.view(), all->frames[frame - 1].view())) << frame;
    EXPECT_THAT(one->header.warnings, ElementsAre(HasSubstr("7 left out")));
    const auto asked = test::Decode(bytes, {.frame = frame, .warns_of_frames = false});
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_THAT(asked->header.warnings, IsEmpty());
  }
}

TEST(WebpAnimationTest, CutAndDamagedFilesAreRefusedOrFilled) {
  std::mt19937 random = test::FreshRandom();
  const std::string bytes =
      WriteWebpAnimation({12, 9}, RandomWebpFrames({12, 9}, 4, random), 1, true);
  const auto whole = test::DecodeFrames(bytes, random);
  ASSERT_TRUE(whole.ok());
  for (size_t length = 0; length < bytes.size(); length += 5) {
    const std::string_view cut = std::string_view(bytes).substr(0, length);
    const auto decoded = test::DecodeFrames(cut, random);
    EXPECT_TRUE(decoded.ok() || absl::IsInvalidArgument(decoded.status())) << length;
    const auto filled = test::DecodeFrames(cut, random, {.fill_damage = true});
    if (!filled.ok()) continue;
    EXPECT_THAT(filled->warnings, ElementsAre(HasSubstr("WebP: the file ")));
    for (size_t i = 0; i < filled->frames.size(); ++i)
      EXPECT_TRUE(test::SameImages(filled->frames[i].view(), whole->frames[i].view())) << i;
  }
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    damaged[test::RandomInt(random, 0, static_cast<int>(bytes.size()) - 1)] ^=
        1 << test::RandomInt(random, 0, 7);
    (void)test::DecodeFrames(damaged, random, {.max_pixels = 1 << 16});
  }
}

TEST(WebpAnimationTest, RefusesHostileOnes) {
  std::mt19937 random = test::FreshRandom();
  std::vector<WebpFrame> frames = RandomWebpFrames({12, 9}, 3, random);
  const std::string bytes = WriteWebpAnimation({12, 9}, frames, 1, true);
  EXPECT_THAT(std::string(test::DecodeFrames(bytes, random, {.max_frames = 7}).status().message()),
              HasSubstr("WebP: the animation has at least 8 frames; the limit is 7"));
  EXPECT_THAT(
      std::string(test::DecodeFrames(bytes, random, {.max_pixels = 500}).status().message()),
      HasSubstr("WebP: the animation's first 5 frames have 540 pixels; the limit is 500"));
  MemorySource source(std::string_view(bytes).substr(0, 200));
  EXPECT_THAT(std::string(ParseImageHeader(AsBytes(bytes).first(200),
                                           {.max_animation_bytes = 300, .frame = 0})
                              .status()
                              .message()),
              HasSubstr("WebP: the animation has more than 300 bytes"));
  for (int stated = 0; stated < 22; stated += 2) {  // behind RIFF and this number
    std::string small = bytes;
    small[4] = static_cast<char>(stated);
    small[5] = small[6] = small[7] = '\0';
    for (const size_t length : {size_t{30}, small.size()}) {
      EXPECT_THAT(
          std::string(test::DecodeFrames(small.substr(0, length), random).status().message()),
          HasSubstr(absl::StrCat("WebP: the file says that it has ", stated + 8, " bytes")));
    }
  }
  std::string outside = bytes;
  outside[outside.find("ANMF") + 8] = 3;
  EXPECT_THAT(std::string(test::DecodeFrames(outside, random).status().message()),
              HasSubstr("WebP: frame 1 is 12 x 9 px at 6, 0, outside of the canvas of 12 x 9"));
}

// Frames. Each differs from the one before in a random part, or not at all.
std::vector<Image> RelatedFrames(const ImageSpec& spec, int count, std::mt19937& random) {
  std::vector<Image> frames;
  for (int i = 0; i < count; ++i) {
    Image& frame = frames.emplace_back(RandomFrame(spec, random));
    if (i == 0 || i % 4 == 3) continue;  // another picture
    const Rect part = RandomPlace(spec.size(), random);
    for (int y = 0; y < spec.height_px; ++y)
      for (int x = 0; x < spec.width_px; ++x)
        if (i % 4 == 1 || !part.Contains({x, y, 1, 1}))
          std::copy_n(frames[i - 1].view().row(y) + x * spec.pixel_bytes(), spec.pixel_bytes(),
                      frame.mutable_view().row(y) + x * spec.pixel_bytes());
  }
  return frames;
}

absl::StatusOr<std::string> EncodeFrames(const std::vector<Image>& frames,
                                         const std::vector<FrameDelay>& delays,
                                         const EncodeOptions& options,
                                         const ImageMetadata& metadata, std::mt19937& random) {
  StringSink sink;
  const ImageSpec& spec = frames.front().spec();
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageEncoder> encoder,
                   CreateImageEncoder(options, spec, metadata, sink));
  for (size_t i = 0; i < frames.size(); ++i) {
    RETURN_IF_ERROR(encoder->BeginFrame(delays[i]));
    for (int y = 0; y < spec.height_px;) {
      const int rows = test::RandomInt(random, 1, spec.height_px - y);
      RETURN_IF_ERROR(encoder->WriteRows(frames[i].view().Crop({0, y, spec.width_px, rows})));
      y += rows;
    }
  }
  RETURN_IF_ERROR(encoder->Finish());
  return sink.Take();
}

double SecondsOf(FrameDelay delay) {
  return static_cast<double>(delay.numerator) / delay.denominator;
}

TEST(AnimationEncoderTest, WritesWhatItReadsBack) {
  std::mt19937 random = test::FreshRandom();
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp})
    for (const Size size : {Size{1, 1}, Size{7, 5}, Size{61, 33}})
      for (const int channels : {1, 2, 3, 4})
        for (const SampleType type : {SampleType::kU8, SampleType::kU16}) {
          const ImageSpec spec{size.width, size.height, channels, type};
          if (!CheckEncodable(format, spec).ok()) continue;
          SCOPED_TRACE(::testing::Message() << FormatName(format) << ", " << spec);
          std::vector<Image> frames = RelatedFrames(spec, 9, random);
          // Without a transparent pixel, WebP has no alpha.
          if (spec.has_alpha()) frames[0].mutable_view().row(0)[spec.pixel_bytes() - 1] = 100;
          std::vector<FrameDelay> delays;
          for (size_t i = 0; i < frames.size(); ++i)
            delays.push_back({static_cast<uint32_t>(test::RandomInt(random, 0, 65535)), 1000});
          const Animation animation{9, static_cast<uint32_t>(test::RandomInt(random, 0, 9))};
          const auto bytes = EncodeFrames(
              frames, delays, {.format = format, .quality = 100, .animation = animation},
              {.exif = "MM, an EXIF block"}, random);
          ASSERT_TRUE(bytes.ok()) << bytes.status();
          const auto decoded = test::DecodeFrames(*bytes, random);
          ASSERT_TRUE(decoded.ok()) << decoded.status();
          EXPECT_THAT(decoded->warnings, IsEmpty());
          EXPECT_EQ(decoded->header.animation, animation);
          EXPECT_EQ(decoded->metadata.exif, "MM, an EXIF block");
          EXPECT_EQ(decoded->delays, delays);
          ASSERT_EQ(decoded->frames.size(), frames.size());
          for (size_t i = 0; i < frames.size(); ++i) {
            if (decoded->header.spec == spec) {
              EXPECT_TRUE(test::SameImages(decoded->frames[i].view(), frames[i].view())) << i;
            }
          }
          EXPECT_EQ(decoded->header.spec, spec);
        }
}

TEST(AnimationEncoderTest, FramesThatDoNotChangeTakeFewBytes) {
  std::mt19937 random = test::FreshRandom();
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    const ImageSpec spec{200, 150, 3, SampleType::kU8};
    std::vector<Image> frames;
    frames.push_back(test::RandomImage(spec, random));
    for (int i = 1; i < 10; ++i) {
      frames.emplace_back(spec);
      std::copy_n(frames[0].view().data, frames[0].bytes(), frames[i].mutable_view().data);
    }
    const std::vector<FrameDelay> delays(10, FrameDelay{1, 10});
    const auto bytes =
        EncodeFrames(frames, delays, {.format = format, .animation = Animation{10, 0}}, {}, random);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_LT(bytes->size(), size_t{200 * 150 * 3 + 20'000}) << FormatName(format);
  }
}

TEST(AnimationEncoderTest, DelaysAddUpWithoutDrift) {
  std::mt19937 random = test::FreshRandom();
  const std::vector<Image> frames = RelatedFrames({3, 3, 3, SampleType::kU8}, 30, random);
  const std::vector<FrameDelay> delays(30, FrameDelay{1, 30});
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    const auto bytes =
        EncodeFrames(frames, delays, {.format = format, .animation = Animation{30, 0}}, {}, random);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto decoded = test::DecodeFrames(*bytes, random);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    double sum = 0;
    for (const FrameDelay& delay : decoded->delays) sum += SecondsOf(delay);
    EXPECT_NEAR(sum, 1, 1e-9) << FormatName(format);
  }
}

TEST(AnimationEncoderTest, LongDelaysStayAsLong) {
  std::mt19937 random = test::FreshRandom();
  const std::vector<Image> frames = RelatedFrames({3, 3, 3, SampleType::kU8}, 2, random);
  const std::vector<FrameDelay> delays = {{20'000'000, 1000}, {1, 1000}};
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    const auto bytes =
        EncodeFrames(frames, delays, {.format = format, .animation = Animation{2, 0}}, {}, random);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto decoded = test::DecodeFrames(*bytes, random);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    double sum = 0;
    for (const FrameDelay& delay : decoded->delays) sum += SecondsOf(delay);
    EXPECT_NEAR(sum, 20'000.001, 1e-9) << FormatName(format);
  }
}

TEST(AnimationEncoderTest, RefusesFormatsWithoutFramesAndFramesThatAreNotThere) {
  std::mt19937 random = test::FreshRandom();
  StringSink sink;
  const ImageSpec spec{4, 4, 3, SampleType::kU8};
  EXPECT_THAT(
      std::string(CreateImageEncoder({.format = ImageFormat::kJpeg, .animation = Animation{2, 0}},
                                     spec, {}, sink)
                      .status()
                      .message()),
      HasSubstr("jpeg holds no animations"));
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    const std::vector<Image> frames = RelatedFrames(spec, 2, random);
    const auto bytes = EncodeFrames(frames, {{1, 10}, {1, 10}},
                                    {.format = format, .animation = Animation{3, 0}}, {}, random);
    EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("frame 2 of 3 was the last one"));
  }
}

}  // namespace
}  // namespace upscaled
