#include "client/video/frame_stream.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/image_io.h"
#include "engine/image/memory_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Film {
  absl::Status status;
  FilmFormat format;
  std::vector<std::string> frames;
};

Film Read(const std::string& bytes, const FrameReaderOptions& options = {}) {
  client::MemorySource source(bytes);
  Film film;
  const auto reader = FrameReader::Open(source, options, {});
  film.status = reader.status();
  if (!reader.ok()) return film;
  film.format = (*reader)->format();
  while (true) {
    auto frame = (*reader)->Next();
    film.status = frame.status();
    if (!frame.ok() || !frame->has_value()) return film;
    film.frames.push_back(**std::move(frame));
  }
}

std::string Y4m(const std::string& tags, size_t frame_bytes, int frames) {
  std::string film = absl::StrCat("YUV4MPEG2 ", tags, "\n");
  for (int i = 0; i < frames; ++i)
    absl::StrAppend(&film, "FRAME\n", std::string(frame_bytes, static_cast<char>('a' + i)));
  return film;
}

TEST(Y4mTest, FramesComeOneByOne) {
  const Film film = Read(Y4m("W3 H3 F24:1 Ip A1:1 C420jpeg XYSCSS=420JPEG", 17, 3));
  ASSERT_TRUE(film.status.ok()) << film.status;
  EXPECT_THAT(film.frames,
              ElementsAre(std::string(17, 'a'), std::string(17, 'b'), std::string(17, 'c')));
  EXPECT_EQ(film.format.yuv.size, (Size{3, 3}));
  EXPECT_EQ(film.format.y4m_tags, " F24:1 Ip A1:1");
}

TEST(Y4mTest, KnowsSamples) {
  struct Case {
    const char* tag;
    Chroma chroma;
    Siting siting;
    int depth;
    size_t bytes;  // of 4x4
  };
  for (const Case& c : {Case{"", Chroma::k420, Siting::kCenter, 8, 24},
                        {" C420", Chroma::k420, Siting::kCenter, 8, 24},
                        {" C420jpeg", Chroma::k420, Siting::kCenter, 8, 24},
                        {" C420mpeg2", Chroma::k420, Siting::kLeft, 8, 24},
                        {" C420paldv", Chroma::k420, Siting::kTopLeft, 8, 24},
                        {" C422", Chroma::k422, Siting::kLeft, 8, 32},
                        {" C444", Chroma::k444, Siting::kLeft, 8, 48},
                        {" Cmono", Chroma::kMono, Siting::kLeft, 8, 16},
                        {" C420p10", Chroma::k420, Siting::kLeft, 10, 48},
                        {" C422p12", Chroma::k422, Siting::kLeft, 12, 64},
                        {" C444p16", Chroma::k444, Siting::kLeft, 16, 96},
                        {" XYSCSS=420PALDV", Chroma::k420, Siting::kTopLeft, 8, 24},
                        {" XYSCSS=444", Chroma::k444, Siting::kLeft, 8, 48},
                        {" XYSCSS=420JPEG C422", Chroma::k422, Siting::kLeft, 8, 32},
                        {" C420p10 XYSCSS=420P10", Chroma::k420, Siting::kLeft, 10, 48},
                        {" Cmono10", Chroma::kMono, Siting::kLeft, 10, 32}}) {
    const Film film = Read(Y4m(absl::StrCat("W4 H4", c.tag), c.bytes, 2));
    ASSERT_TRUE(film.status.ok()) << c.tag << film.status;
    EXPECT_EQ(film.frames.size(), 2u) << c.tag;
    EXPECT_EQ(film.format.yuv.chroma, c.chroma) << c.tag;
    EXPECT_EQ(film.format.yuv.siting, c.siting) << c.tag;
    EXPECT_EQ(film.format.yuv.depth, c.depth) << c.tag;
    // A written header is read as the same.
    const Film again = Read(FilmHeader(film.format));
    EXPECT_EQ(again.format.yuv.chroma, c.chroma) << c.tag;
    EXPECT_EQ(again.format.yuv.siting, c.siting) << c.tag;
    EXPECT_EQ(again.format.yuv.depth, c.depth) << c.tag;
  }
}

TEST(Y4mTest, RefusesByName) {
  for (const char* tag : {"It", "Ib", "Im"}) {
    const Film film = Read(Y4m(absl::StrCat("W4 H4 ", tag), 24, 1));
    EXPECT_TRUE(absl::IsUnimplemented(film.status)) << tag;
    EXPECT_THAT(std::string(film.status.message()), HasSubstr("interlaced"));
  }
  for (const char* tag :
       {"XYSCSS=411", "C411", "C440", "C444alpha", "C420p8", "C420p17", "Cmono7", "C", "C420x"}) {
    const Film film = Read(Y4m(absl::StrCat("W4 H4 ", tag), 24, 1));
    EXPECT_TRUE(absl::IsUnimplemented(film.status)) << tag;
    EXPECT_THAT(std::string(film.status.message()), HasSubstr(tag[0] == 'X' ? "411" : tag));
  }
  for (const char* tags :
       {"W4", "H4", "W0 H4", "W4 H-1", "W4 H65536", "Wx H4", "W65535 H65535 C444p16"})
    EXPECT_TRUE(absl::IsInvalidArgument(Read(Y4m(tags, 24, 1)).status)) << tags;
}

TEST(Y4mTest, RangeAndMatrix) {
  EXPECT_FALSE(Read(Y4m("W4 H4", 24, 1)).format.yuv.full_range);
  EXPECT_TRUE(Read(Y4m("W4 H4 XCOLORRANGE=FULL", 24, 1)).format.yuv.full_range);
  EXPECT_FALSE(
      Read(Y4m("W4 H4 XCOLORRANGE=FULL", 24, 1), {.full_range = false}).format.yuv.full_range);
  EXPECT_EQ(Read(Y4m("W2 H576", 1728, 1)).format.yuv.matrix, Matrix::kBt601);
  EXPECT_EQ(Read(Y4m("W2 H578", 1734, 1)).format.yuv.matrix, Matrix::kBt709);
  EXPECT_EQ(Read(Y4m("W2 H2", 6, 1), {.matrix = Matrix::kBt2020}).format.yuv.matrix,
            Matrix::kBt2020);
}

TEST(Y4mTest, FramesMayHaveParameters) {
  const std::string plain = "YUV4MPEG2 W2 H2 C444\nFRAME\n" + std::string(12, 'a');
  for (const char* line : {"FRAME Ippp", "FRAME Xname=value", "FRAME "}) {
    const Film film = Read(absl::StrReplaceAll(plain, {{"FRAME", line}}));
    ASSERT_TRUE(film.status.ok()) << film.status;
    EXPECT_THAT(film.frames, ElementsAre(std::string(12, 'a')));
  }
  for (const char* line : {"FRAMES", "FRAME\r", "FRAM"})
    EXPECT_FALSE(Read(absl::StrReplaceAll(plain, {{"FRAME", line}})).status.ok()) << line;
}

TEST(Y4mTest, EveryCutIsAnErrorOrAnEnd) {
  const std::string film = Y4m("W2 H2 C444", 12, 2);
  const size_t header = film.find('\n') + 1, frame = sizeof "FRAME" + 12;
  for (size_t length = 1; length < film.size(); ++length) {
    const Film cut = Read(film.substr(0, length));
    const bool between = length > header && (length - header) % frame == 0;
    EXPECT_EQ(cut.status.ok(), between) << length;
    EXPECT_EQ(cut.frames.size(), length < header ? 0 : (length - header) / frame) << length;
  }
}

std::string Png(int side, uint8_t value) {
  FilmFormat ppm{.kind = FrameKind::kPpm};
  return *FrameToPng(
      absl::StrCat("P5 ", side, " ", side, " 255\n",
                   std::string(static_cast<size_t>(side * side), static_cast<char>(value))),
      ppm);
}

TEST(PngStreamTest, FilesArePartedAtTheirEnds) {
  const std::vector<std::string> files = {Png(1, 0), Png(200, 50), Png(7, 255)};
  const std::string stream = files[0] + files[1] + files[2];
  const Film film = Read(stream);
  ASSERT_TRUE(film.status.ok()) << film.status;
  EXPECT_EQ(film.frames, files);
  for (const size_t length : {size_t{9}, size_t{40}, files[0].size() + 30, stream.size() - 1}) {
    const Film cut = Read(stream.substr(0, length));
    EXPECT_TRUE(absl::IsInvalidArgument(cut.status)) << length;
    EXPECT_THAT(std::string(cut.status.message()), HasSubstr("the stream ends within frame"));
  }
  const Film other = Read(files[0] + "P6 1 1 255\nabc");
  EXPECT_THAT(std::string(other.status.message()), HasSubstr("frame 1 is no PNG"));
}

TEST(PpmStreamTest, FilesArePartedAtTheirEnds) {
  const std::string a = "P6\n# a comment\n2 1\n255\nabcdef", b = "P5 1 2 255\nxy",
                    c = std::string("P6 1 1 65535\n\0\1\0\2\0\3", 19);
  const Film film = Read(a + b + c);
  ASSERT_TRUE(film.status.ok()) << film.status;
  EXPECT_THAT(film.frames, ElementsAre(a, b, c));
  for (const char* wrong : {"P6 0 1 255\n", "P6 x 1 255\n", "P6 1 1 65536\nabc", "P6 1 1 255abc",
                            "P6 1 1 255\nabcP7 1 1"})
    EXPECT_TRUE(absl::IsInvalidArgument(Read(wrong).status)) << wrong;
}

TEST(PpmStreamTest, ComesBackThroughPng) {
  const FilmFormat ppm{.kind = FrameKind::kPpm};
  for (const std::string& frame :
       {std::string("P6\n2 1\n255\nabcdef"), std::string("P5\n1 2\n255\nxy"),
        std::string("P6\n1 1\n65535\n\0\1\2\3\4\5", 19)}) {
    const auto result = FrameFromPng(*FrameToPng(frame, ppm), frame, ppm);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->bytes, frame);
  }
  // Samples of 0..most fill the range.
  const std::string hundred = "P5 3 1 100\n" + std::string("\0\62\144", 3);
  const auto scaled = FrameFromPng(*FrameToPng(hundred, ppm), hundred, ppm);
  EXPECT_EQ(scaled->bytes, "P5\n3 1\n255\n" + std::string("\0\200\377", 3));
}

TEST(RawTest, FramesHaveTheSizeOfTheirFormat) {
  struct Case {
    const char* name;
    size_t bytes;  // of 5x3
  };
  for (const Case& c : {Case{"yuv420p", 27},
                        {"yuv422p", 33},
                        {"yuv444p", 45},
                        {"gray", 15},
                        {"yuvj420p", 27},
                        {"yuv420p10le", 54},
                        {"yuv422p12le", 66},
                        {"yuv444p16le", 90},
                        {"gray10le", 30},
                        {"rgb24", 45},
                        {"rgb48le", 90}}) {
    const auto format = RawFormat({5, 3}, c.name);
    ASSERT_TRUE(format.ok()) << c.name << format.status();
    std::string stream;
    for (const char value : {'a', 'b', 'c'}) stream += std::string(c.bytes, value);
    const Film film = Read(stream, {.raw = *format});
    ASSERT_TRUE(film.status.ok()) << c.name << film.status;
    EXPECT_THAT(film.frames, ElementsAre(std::string(c.bytes, 'a'), std::string(c.bytes, 'b'),
                                         std::string(c.bytes, 'c')))
        << c.name;
    EXPECT_EQ(FilmHeader(film.format), "") << c.name;
    const auto back =
        FrameFromPng(*FrameToPng(film.frames[0], film.format), film.frames[0], film.format);
    ASSERT_TRUE(back.ok()) << c.name << back.status();
    EXPECT_EQ(back->bytes.size(), c.bytes) << c.name;
    EXPECT_EQ(back->size, (Size{5, 3})) << c.name;
    if (absl::StartsWith(c.name, "rgb")) {
      EXPECT_EQ(back->bytes, film.frames[0]) << c.name;
    }
    const Film cut = Read(stream.substr(0, stream.size() - 1), {.raw = *format});
    EXPECT_THAT(std::string(cut.status.message()), HasSubstr("within frame 2")) << c.name;
  }
  EXPECT_TRUE(RawFormat({5, 3}, "yuvj444p")->yuv.full_range);
  EXPECT_FALSE(RawFormat({5, 3}, "yuv444p")->yuv.full_range);
}

TEST(RawTest, AHeaderIsNoSamples) {
  const Film film = Read(Y4m("W4 H4", 24, 4), {.raw = *RawFormat({4, 4}, "gray")});
  EXPECT_TRUE(absl::IsInvalidArgument(film.status));
  EXPECT_THAT(std::string(film.status.message()), HasSubstr("has a header of YUV4MPEG2"));
}

// FFmpeg gives gray of full range, so each of its values must come back.
TEST(RawTest, GrayHasFullRange) {
  std::string frame(256, '\0');
  for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<char>(i);
  const auto format = RawFormat({16, 16}, "gray");
  ASSERT_TRUE(format.ok()) << format.status();
  EXPECT_EQ(FrameFromPng(*FrameToPng(frame, *format), frame, *format)->bytes, frame);
  EXPECT_TRUE(RawFormat({16, 16}, "gray12le")->yuv.full_range);
}

TEST(RawTest, RefusesByName) {
  for (const char* name : {"", "nv12", "yuv411p", "yuv420p8le", "yuv420p17le", "yuv420p10be",
                           "yuv420p10", "yuv420p+10le", "yuv420p 10le", "yuv420p010le",
                           "yuvj420p10le", "gray8", "bgr24", "rgb24le", "420p"}) {
    const auto format = RawFormat({4, 4}, name);
    EXPECT_TRUE(absl::IsUnimplemented(format.status())) << name;
    EXPECT_THAT(std::string(format.status().message()), HasSubstr(name));
  }
  for (const Size size : {Size{0, 4}, Size{4, 0}, Size{65536, 4}, Size{-4, 4}})
    EXPECT_TRUE(absl::IsInvalidArgument(RawFormat(size, "gray").status()));
}

TEST(RawTest, RunsOfFramesComeBack) {
  for (const char* name : {"gray", "gray16le", "rgb24", "rgb48le"}) {
    const FilmFormat format = *RawFormat({16, 16}, name);
    const size_t bytes = absl::StartsWith(name, "gray") ? 256 : 768;
    const size_t sample_bytes = absl::EndsWith(name, "le") ? 2 : 1;
    std::vector<std::string> frames;
    for (int i = 0; i < 5; ++i) {
      frames.push_back(std::string(bytes * sample_bytes, 'x'));
      frames.back()[static_cast<size_t>(20 * i)] = 'y';
    }
    FilmFormat full = format;
    full.yuv.full_range = true;
    const auto png = FramesToPng(frames, full);
    ASSERT_TRUE(png.ok()) << png.status();
    const auto results = FramesFromPng(*png, frames, full);
    ASSERT_TRUE(results.ok()) << results.status();
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ((*results)[i].bytes, frames[i]) << name;
    EXPECT_FALSE(FramesFromPng(*png, std::span(frames).first(4), full).ok());
  }
}

TEST(FrameStreamTest, ChangedShareCountsBlocks) {
  const FilmFormat gray = *RawFormat({64, 10}, "gray");
  const std::string a(640, 'a');
  std::string b = a;
  EXPECT_EQ(ChangedShare(gray, a, b), 0);
  b[0] = b[639] = 'b';
  EXPECT_EQ(ChangedShare(gray, a, b), 0.2);
  EXPECT_EQ(ChangedShare(gray, a, std::string(640, 'b')), 1);
  EXPECT_EQ(ChangedShare(gray, a, a + "a"), 1);
  // As many bytes, and another shape.
  const FilmFormat ppm{.kind = FrameKind::kPpm};
  const std::string pixels(200, 'a');
  EXPECT_EQ(ChangedShare(ppm, "P5 10 20 255\n" + pixels, "P5 20 10 255\n" + pixels), 1);
  EXPECT_EQ(ChangedShare(ppm, "P5 10 20 255\n" + pixels, "P5 10 20 255\n" + pixels), 0);
}

TEST(FrameStreamTest, SaysWhatToPipe) {
  EXPECT_THAT(std::string(Read("").status.message()), HasSubstr("no frames"));
  for (const char* other : {"RIFF1234AVI ", "\x1A\x45\xDF\xA3matroska", "YUV4MPEG"})
    EXPECT_THAT(std::string(Read(other).status.message()), HasSubstr("ffmpeg")) << other;
}

}  // namespace
}  // namespace upscaled::client
