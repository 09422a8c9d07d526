// GIF files: palettes, transparency, interlace, parts of a canvas, animations.
#include <string>
#include <utility>
#include <vector>

#include <gif_lib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/animations.h"
#include "tests/support/prefixes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct GifFrame {
  Rect place;
  std::vector<uint8_t> indices;
  bool interlaced = false;
  int transparent = -1;
  bool own_table = false;  // the screen's, with its channels exchanged
  int disposal = DISPOSAL_UNSPECIFIED;
  int delay = 0;  // in hundredths of a second
};

struct GifFile {
  Size screen;
  std::vector<GifFrame> frames;
  std::string comment, icc_profile;
  int repeats = -1;  // of the animation; -1: nothing is said
};

constexpr int kColours = 64;

GifColorType ColourOf(int index, bool exchanged = false) {
  const auto red = static_cast<uint8_t>(index * 4), green = static_cast<uint8_t>(255 - index),
             blue = static_cast<uint8_t>(index * 37);
  return exchanged ? GifColorType{blue, red, green} : GifColorType{red, green, blue};
}

int AppendTo(GifFileType* file, const GifByteType* bytes, int count) {
  static_cast<std::string*>(file->UserData)->append(reinterpret_cast<const char*>(bytes), count);
  return count;
}

ColorMapObject* MakeTable(bool exchanged) {
  ColorMapObject* table = GifMakeMapObject(kColours, nullptr);
  for (int i = 0; i < kColours; ++i) table->Colors[i] = ColourOf(i, exchanged);
  return table;
}

std::string WriteGif(const GifFile& file) {
  std::string bytes;
  int error;
  GifFileType* gif = EGifOpen(&bytes, AppendTo, &error);
  EGifSetGifVersion(gif, true);
  ColorMapObject* tables[2] = {MakeTable(false), MakeTable(true)};
  EGifPutScreenDesc(gif, file.screen.width, file.screen.height, 8, 0, tables[0]);
  if (!file.comment.empty()) EGifPutComment(gif, file.comment.c_str());
  if (!file.icc_profile.empty()) {
    EGifPutExtensionLeader(gif, APPLICATION_EXT_FUNC_CODE);
    EGifPutExtensionBlock(gif, 11, "ICCRGBG1012");
    EGifPutExtensionBlock(gif, static_cast<int>(file.icc_profile.size()), file.icc_profile.data());
    EGifPutExtensionTrailer(gif);
  }
  if (file.repeats >= 0) {
    const char loop[] = {1, static_cast<char>(file.repeats), static_cast<char>(file.repeats >> 8)};
    EGifPutExtensionLeader(gif, APPLICATION_EXT_FUNC_CODE);
    EGifPutExtensionBlock(gif, 11, "NETSCAPE2.0");
    EGifPutExtensionBlock(gif, 3, loop);
    EGifPutExtensionTrailer(gif);
  }
  for (const GifFrame& frame : file.frames) {
    if (frame.transparent >= 0 || frame.disposal != 0 || frame.delay != 0) {
      GraphicsControlBlock control = {frame.disposal, false, frame.delay, frame.transparent};
      GifByteType extension[4];
      EGifGCBToExtension(&control, extension);
      EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, 4, extension);
    }
    const Rect& r = frame.place;
    // giflib 5.2 forgets the table of the image before.
    GifFreeMapObject(std::exchange(gif->Image.ColorMap, nullptr));
    EGifPutImageDesc(gif, r.x, r.y, r.width, r.height, frame.interlaced,
                     frame.own_table ? tables[1] : nullptr);
    std::vector<int> order;
    for (const auto& [first, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}})
      for (int y = first; frame.interlaced && y < r.height; y += step) order.push_back(y);
    for (int y = 0; !frame.interlaced && y < r.height; ++y) order.push_back(y);
    for (const int y : order) {
      std::vector<uint8_t> row(frame.indices.begin() + y * r.width,
                               frame.indices.begin() + (y + 1) * r.width);
      EGifPutLine(gif, row.data(), r.width);
    }
  }
  for (ColorMapObject* table : tables) GifFreeMapObject(table);
  EGifCloseFile(gif, &error);
  return bytes;
}

GifFrame RandomFrame(const Rect& place, std::mt19937& random) {
  GifFrame frame{.place = place};
  for (int64_t i = 0; i < int64_t{place.width} * place.height; ++i)
    frame.indices.push_back(random() % kColours);
  return frame;
}

// The first frame on its canvas, worked out pixel by pixel.
Image Expected(const GifFile& file, int channels) {
  const GifFrame& frame = file.frames[0];
  const Rect& r = frame.place;
  const Size canvas{std::max(file.screen.width, r.x + r.width),
                    std::max(file.screen.height, r.y + r.height)};
  Image image({canvas.width, canvas.height, channels, SampleType::kU8});
  for (int y = 0; y < canvas.height; ++y)
    for (int x = 0; x < canvas.width; ++x) {
      uint8_t* pixel = image.mutable_view().row(y) + x * channels;
      std::fill_n(pixel, channels, 0);
      if (x < r.x || y < r.y || x >= r.x + r.width || y >= r.y + r.height) continue;
      const int index = frame.indices[(y - r.y) * r.width + x - r.x];
      const GifColorType colour = ColourOf(index, frame.own_table);
      pixel[0] = colour.Red;
      pixel[1] = colour.Green;
      pixel[2] = colour.Blue;
      if (channels == 4) pixel[3] = index == frame.transparent ? 0 : 255;
    }
  return image;
}

TEST(GifTest, ReadsTheFirstFrameOfEveryKind) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : {Size{1, 1}, Size{9, 1}, Size{3, 17}, Size{61, 33}})
    for (const bool interlaced : {false, true})
      for (const bool transparent : {false, true})
        for (const bool own_table : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << size.width << " " << interlaced << transparent << own_table);
          GifFile file{.screen = size};
          file.frames = {RandomFrame({0, 0, size.width, size.height}, random)};
          file.frames[0].interlaced = interlaced;
          file.frames[0].transparent = transparent ? test::RandomInt(random, 0, 63) : -1;
          file.frames[0].own_table = own_table;
          const auto decoded = test::Decode(WriteGif(file));
          ASSERT_TRUE(decoded.ok()) << decoded.status();
          EXPECT_EQ(decoded->header.format, ImageFormat::kGif);
          EXPECT_TRUE(
              test::SameImages(decoded->image.view(), Expected(file, transparent ? 4 : 3).view()));
          EXPECT_THAT(decoded->warnings, IsEmpty());
        }
}

TEST(GifTest, AFrameThatCoversAPartIsTransparentAround) {
  std::mt19937 random = test::FreshRandom();
  GifFile file{.screen = {20, 10}, .frames = {RandomFrame({3, 4, 5, 6}, random)}};
  for (const bool beyond : {false, true}) {
    if (beyond) file.screen = {6, 5};  // the canvas grows
    const auto decoded = test::Decode(WriteGif(file));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), Expected(file, 4).view()));
  }
}

TEST(GifTest, AnimationsAreReadAsTheirFirstFrameAndSaySo) {
  std::mt19937 random = test::FreshRandom();
  GifFile file{.screen = {12, 7}};
  for (int i = 0; i < 5; ++i) {
    file.frames.push_back(RandomFrame({0, 0, 12, 7}, random));
    file.frames.back().own_table = i % 2 == 1;
    file.frames.back().transparent = i > 0 ? 1 : -1;
  }
  const std::string bytes = WriteGif(file);
  for (const size_t piece : {size_t{1}, size_t{4096}}) {
    test::SlowSource source(bytes, piece);
    const auto decoder = OpenImageDecoder(source, {});
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    const auto image = test::ReadAllInPortions(**decoder, random);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_TRUE(test::SameImages(image->view(), Expected(file, 3).view()));
    EXPECT_THAT(
        (*decoder)->warnings(),
        ElementsAre("GIF: it is an animation of 5 frames: the first is computed, 4 left out"));
    const auto asked = test::Decode(bytes, {.warns_of_frames = false});
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_THAT(asked->warnings, IsEmpty());
  }
}

GifFile RandomAnimation(Size screen, bool opaque, std::mt19937& random) {
  GifFile file{.screen = screen, .repeats = test::RandomInt(random, 0, 300)};
  for (int i = 0; i < 14; ++i) {
    const int x = i == 0 ? 0 : test::RandomInt(random, 0, screen.width - 1);
    const int y = i == 0 ? 0 : test::RandomInt(random, 0, screen.height - 1);
    // Some reach beyond the screen.
    const int width = i == 0 ? screen.width : test::RandomInt(random, 1, screen.width);
    const int height = i == 0 ? screen.height : test::RandomInt(random, 1, screen.height);
    GifFrame& frame = file.frames.emplace_back(RandomFrame({x, y, width, height}, random));
    frame.interlaced = i % 2 == 1;
    frame.own_table = i % 3 == 1;
    frame.transparent = i > 0 && i % 5 < 3 ? test::RandomInt(random, 0, kColours - 1) : -1;
    frame.disposal = opaque ? i % 2 : i % 4;
    frame.delay = test::RandomInt(random, 0, 65535);
  }
  return file;
}

// The canvases of a file, pixel by pixel.
std::vector<Image> ExpectedFrames(const GifFile& file, int channels) {
  Image canvas({file.screen.width, file.screen.height, channels, SampleType::kU8});
  for (int y = 0; y < file.screen.height; ++y)
    std::fill_n(canvas.mutable_view().row(y), canvas.spec().row_bytes(), uint8_t{0});
  std::vector<Image> frames;
  for (const GifFrame& frame : file.frames) {
    Image before(canvas.spec());
    std::copy_n(canvas.view().data, canvas.bytes(), before.mutable_view().data);
    const auto each_pixel = [&](auto change) {
      for (int y = frame.place.y; y < std::min(frame.place.bottom(), file.screen.height); ++y)
        for (int x = frame.place.x; x < std::min(frame.place.right(), file.screen.width); ++x)
          change(x, y, canvas.mutable_view().row(y) + x * channels);
    };
    each_pixel([&](int x, int y, uint8_t* pixel) {
      const int index = frame.indices[(y - frame.place.y) * frame.place.width + x - frame.place.x];
      if (index == frame.transparent) return;
      const GifColorType colour = ColourOf(index, frame.own_table);
      const uint8_t rgba[] = {colour.Red, colour.Green, colour.Blue, 255};
      std::copy_n(rgba, channels, pixel);
    });
    Image& shown = frames.emplace_back(canvas.spec());
    std::copy_n(canvas.view().data, canvas.bytes(), shown.mutable_view().data);
    each_pixel([&](int x, int y, uint8_t* pixel) {
      if (frame.disposal == DISPOSE_BACKGROUND) std::fill_n(pixel, channels, 0);
      if (frame.disposal == DISPOSE_PREVIOUS)
        std::copy_n(before.view().row(y) + x * channels, channels, pixel);
    });
  }
  return frames;
}

TEST(GifTest, EveryFrameIsDrawnAsItsDisposalSays) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : {Size{1, 1}, Size{9, 4}, Size{40, 23}})
    for (const bool opaque : {false, true}) {
      SCOPED_TRACE(::testing::Message() << size.width << " px " << opaque);
      const GifFile file = RandomAnimation(size, opaque, random);
      const std::string bytes = WriteGif(file);
      const auto decoded = test::DecodeFrames(bytes, random);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_THAT(decoded->warnings, IsEmpty());
      const uint32_t plays = file.repeats == 0 ? 0 : file.repeats + 1;
      EXPECT_EQ(decoded->header.animation, (Animation{14, plays}));
      ASSERT_EQ(decoded->header.spec.channels, opaque ? 3 : 4);
      const std::vector<Image> expected = ExpectedFrames(file, opaque ? 3 : 4);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(test::SameImages(decoded->frames[i].view(), expected[i].view())) << i;
        EXPECT_EQ(decoded->delays[i],
                  (FrameDelay{static_cast<uint32_t>(file.frames[i].delay), 100}));
        if (i == 0) continue;
        const auto one = test::Decode(bytes, {.frame = static_cast<int>(i) + 1});
        ASSERT_TRUE(one.ok()) << one.status();
        EXPECT_TRUE(test::SameImages(one->image.view(), expected[i].view())) << i;
        EXPECT_THAT(one->header.warnings, ElementsAre(HasSubstr("13 left out")));
      }
      EXPECT_THAT(std::string(test::Decode(bytes, {.frame = 15}).status().message()),
                  HasSubstr("GIF: frame 15 is asked for; the image has 14"));
    }
}

TEST(GifTest, AnAnimationThatSaysNothingIsShownOnce) {
  std::mt19937 random = test::FreshRandom();
  GifFile file = RandomAnimation({5, 5}, true, random);
  file.repeats = -1;
  const auto decoded = test::DecodeFrames(WriteGif(file), random);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.animation, (Animation{14, 1}));
}

TEST(GifTest, CutAndDamagedAnimationsAreRefusedOrFilled) {
  std::mt19937 random = test::FreshRandom();
  const GifFile file = RandomAnimation({12, 9}, false, random);
  const std::string bytes = WriteGif(file);
  const std::vector<Image> expected = ExpectedFrames(file, 4);
  for (size_t length = 0; length < bytes.size(); length += 11) {
    const std::string_view cut = std::string_view(bytes).substr(0, length);
    const auto decoded = test::DecodeFrames(cut, random);
    EXPECT_TRUE(decoded.ok() || absl::IsInvalidArgument(decoded.status())) << length;
    const auto filled = test::DecodeFrames(cut, random, {.fill_damage = true});
    if (!filled.ok()) continue;
    EXPECT_GE(filled->warnings.size(), 1u) << length;
    if (filled->header.spec.channels != 4) continue;
    for (size_t i = 0; i + 1 < filled->frames.size(); ++i)
      EXPECT_TRUE(test::SameImages(filled->frames[i].view(), expected[i].view())) << i;
  }
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    damaged[test::RandomInt(random, 0, static_cast<int>(bytes.size()) - 1)] ^=
        1 << test::RandomInt(random, 0, 7);
    (void)test::DecodeFrames(damaged, random, {.max_pixels = 1 << 16});
  }
}

TEST(GifTest, RefusesHostileAnimations) {
  std::mt19937 random = test::FreshRandom();
  const std::string bytes = WriteGif(RandomAnimation({12, 9}, false, random));
  EXPECT_THAT(std::string(test::DecodeFrames(bytes, random, {.max_frames = 13}).status().message()),
              HasSubstr("GIF: the animation has at least 14 frames; the limit is 13"));
  EXPECT_THAT(
      std::string(test::DecodeFrames(bytes, random, {.max_pixels = 500}).status().message()),
      HasSubstr("GIF: the animation's first 5 frames have 540 pixels; the limit is 500"));
  EXPECT_THAT(std::string(ParseImageHeader(AsBytes(bytes).first(910),
                                           {.max_animation_bytes = 900, .frame = 0})
                              .status()
                              .message()),
              HasSubstr("GIF: the animation has more than 900 bytes"));
}

TEST(GifTest, CarriesCommentAndProfile) {
  std::mt19937 random = test::FreshRandom();
  const GifFile file{.screen = {2, 2},
                     .frames = {RandomFrame({0, 0, 2, 2}, random)},
                     .comment = "drawn by hand",
                     .icc_profile = "a profile"};
  const auto decoded = test::Decode(WriteGif(file));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->metadata.texts,
              ElementsAre(ImageText{.keyword = "Comment", .text = "drawn by hand"}));
  EXPECT_EQ(decoded->metadata.icc_profile, "a profile");
}

TEST(GifTest, ExtensionsThatAreLeftOutAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const std::string image =
      WriteGif({.screen = {2, 2}, .frames = {RandomFrame({0, 0, 2, 2}, random)}});
  constexpr size_t kFirstBlock = 13 + 3 * kColours;
  std::string bytes = image;
  const std::string late = std::string("\x21\xfe\x04late\0", 8) +
                           std::string("\x21\xff\x0bXMP DataXMP\x01x\0", 17) +
                           std::string("\x21\xff\x0b\1\2\3\4\5\6\7\x08\x09\x0a\x0b\1x\0", 17);
  bytes.insert(bytes.size() - 1, late + late);
  bytes.insert(kFirstBlock, std::string("\x21\xff\x0bMAKERNOTES1\x01x\0", 17));
  const auto header = ParseImageHeader(AsBytes(bytes), {.frame = 0}, /*is_whole=*/true);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_THAT((*header)->warnings, ElementsAre("GIF: extensions are left out: MAKERNOTES1, "
                                               "comments, XMP DataXMP, an application's"));
  EXPECT_EQ((*ParseImageHeader(AsBytes(image), {.frame = 0}, true))->warnings.size(), 0u);
}

TEST(GifTest, CutAndDamagedFilesAreRefusedOrFilled) {
  std::mt19937 random = test::FreshRandom();
  const GifFile file{.screen = {40, 30}, .frames = {RandomFrame({0, 0, 40, 30}, random)}};
  const std::string bytes = WriteGif(file);
  test::ExpectPrefixesAreRefused(bytes);
  test::ExpectDamageIsSurvived(bytes, random, 300);
  const auto filled =
      test::Decode(std::string_view(bytes).substr(0, bytes.size() / 2), {.fill_damage = true});
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_THAT(filled->warnings.at(0), HasSubstr("missing rows are gray"));
  EXPECT_EQ(filled->image.view().row(29)[0], 128);
  const Image expected = Expected(file, 3);
  EXPECT_EQ(filled->image.view().row(0)[0], expected.view().row(0)[0]);
}

TEST(GifTest, RefusesHugeAndEmptyOnesByTheirHeader) {
  const std::string begin("GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\xff\xff\xff", 19);
  const std::string image(",\0\0\0\0\x01\0\x01\0\0\x02", 11);
  EXPECT_THAT(std::string(ParseImageHeader(AsBytes(begin + image), {}).status().message()),
              HasSubstr("GIF: the image has 4294836225 pixels (65535 x 65535); the limit is"));
  EXPECT_THAT(std::string(test::Decode(begin + ";").status().message()), HasSubstr("no image"));
  std::string no_table = begin.substr(0, 13) + image;
  no_table[10] = 0;
  EXPECT_THAT(std::string(test::Decode(no_table).status().message()), HasSubstr("colour table"));
}

}  // namespace
}  // namespace upscaled
