#include "engine/image/file_end.h"

#include <gmock/gmock.h>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using testing::HasSubstr;

struct EndedFile {
  std::string name;
  EncodeOptions options;
};

const std::vector<EndedFile> kSamples = {
    {"PNG", {.format = ImageFormat::kPng}},
    {"JPEG", {.format = ImageFormat::kJpeg}},
    {"WebP", {.format = ImageFormat::kWebp}},
};

std::string FileOf(const EndedFile& sample) {
  std::mt19937 random = test::FreshRandom();
  const ImageSpec spec{test::RandomInt(random, 1, 90), test::RandomInt(random, 1, 90), 3,
                       SampleType::kU8};
  return *test::Encode(test::RandomImage(spec, random).view(), sample.options);
}

FileEnd EndOf(const std::string& bytes, size_t portion) {
  FileEnd end;
  for (size_t at = 0; at < bytes.size(); at += portion) {
    end.Pass(AsBytes(std::string_view(bytes).substr(at, portion)));
  }
  return end;
}

TEST(FileEndTest, CountsBytesBehindTheImage) {
  for (const EndedFile& sample : kSamples) {
    const std::string file = FileOf(sample);
    for (const size_t portion : {size_t{1}, size_t{7}, size_t{1} << 20}) {
      EXPECT_EQ(EndOf(file, portion).Warning(), "") << sample.name;
      for (const int count : {1, 2, 3000}) {
        const FileEnd end = EndOf(file + std::string(count, '\0'), portion);
        EXPECT_EQ(end.bytes_behind(), count) << sample.name;
        EXPECT_THAT(end.Warning(), HasSubstr("behind the " + sample.name + "'s end"));
      }
    }
  }
}

TEST(FileEndTest, NamesAnImageThatFollows) {
  const std::string png = FileOf(kSamples[0]);
  for (const EndedFile& sample : kSamples) {
    const FileEnd end = EndOf(FileOf(sample) + png, 1000);
    EXPECT_EQ(end.bytes_behind(), std::ssize(png));
    EXPECT_THAT(end.Warning(), HasSubstr("PNG begins there"));
  }
}

// Thumbnails and profiles hold markers within segments.
TEST(FileEndTest, LeavesOutMarkersInSegments) {
  const std::string jpeg = FileOf(kSamples[1]);
  const std::string segment = std::string("\xFF\xE1\x00\x08", 4) + "\xFF\xD8\xFF\xD9" + "ab";
  const std::string file = jpeg.substr(0, 2) + segment + jpeg.substr(2);
  EXPECT_EQ(EndOf(file, 3).bytes_behind(), 0);
  EXPECT_EQ(EndOf(file + "x", 3).bytes_behind(), 1);
}

TEST(FileEndTest, KnowsTheEndOfGifs) {
  const std::string screen("GIF89a\x02\0\x02\0\x80\0\0", 13), table(6, '\x3b');
  const std::string comment("!\xfe\x03;,!\0", 7), control("!\xf9\x04\0\0\0\0\0", 8);
  const std::string place(",\0\0\0\0\x02\0\x02\0", 9), data("\x02\x02\x3b\x3b\x01\x3b\0", 7);
  const std::string plain = place + std::string(1, '\0') + data;
  const std::string local = place + '\x80' + table + data;
  const std::string file = screen + table + comment + control + plain + local + ";";
  for (const size_t portion : {1, 2, 7, 1000}) {
    EXPECT_EQ(EndOf(file, portion).Warning(), "");
    const FileEnd end = EndOf(file + "GIF89a and so on", portion);
    EXPECT_EQ(end.bytes_behind(), 16);
    EXPECT_THAT(end.Warning(), HasSubstr("behind the GIF's end 16 bytes"));
  }
  for (size_t cut = 0; cut < file.size(); ++cut)
    EXPECT_EQ(EndOf(file.substr(0, cut), 3).bytes_behind(), 0) << cut;
}

TEST(FileEndTest, NamesBoxesThatHoldNoPicture) {
  const std::string ftyp(
      "\0\0\0\x14"
      "ftypheic\0\0\0\0mif1",
      20),
      meta("\0\0\0\x0cmetaabcd", 12);
  const std::string data(
      "\0\0\0\1mdat\0\0\0\0\0\0\0\x12"
      "xx",
      18);  // its size in 64 bits
  const std::string film("\0\0\0\x0ampvdxx", 10), own("\0\0\0\x08uuid", 8);
  const std::string last("\0\0\0\0mdat and all the rest", 25);
  for (const size_t portion : {1, 2, 7, 1000}) {
    EXPECT_EQ(EndOf(ftyp + meta + data + data, portion).Warning(), "");
    EXPECT_EQ(EndOf(ftyp + meta + last, portion).Warning(), "");
    EXPECT_EQ(EndOf(ftyp + meta + film + data + own + own, portion).Warning(),
              "boxes of the file are left out: mpvd, uuid");
    const FileEnd end = EndOf(ftyp + meta + film + std::string(20, '\0'), portion);
    EXPECT_EQ(end.Warning(),
              "boxes of the file are left out: mpvd; behind the file's end 20 bytes were left out "
              "(a file of zeros begins there)");
  }
  const FileEnd end = EndOf(ftyp + meta + data + std::string("\0\0\0\3more and more", 17), 5);
  EXPECT_EQ(end.Warning(), "behind the file's end 17 bytes were left out");
}

TEST(FileEndTest, ReadsProgressiveAndRestartedScans) {
  const std::string jpeg = FileOf(kSamples[1]);
  // A second scan, with stuffed bytes, restarts and fill bytes in its data.
  const std::string scan = std::string("\xFF\xDA\x00\x02", 4) + std::string("a\xFF\x00", 3) +
                           "\xFF\xD3" + "b\xFF\xFF\xD0";
  const std::string file = jpeg.substr(0, jpeg.size() - 2) + scan + jpeg.substr(jpeg.size() - 2);
  for (const size_t portion : {1, 2, 3, 1000}) {
    EXPECT_EQ(EndOf(file, portion).bytes_behind(), 0) << portion;
    EXPECT_EQ(EndOf(file + "\xFF\xD9!", portion).bytes_behind(), 3) << portion;
  }
}

TEST(FileEndTest, KnowsNoEndOfOtherAndBrokenFiles) {
  const std::string others[] = {"",
                                "short",
                                "GIF89a and more",
                                "BM and a bitmap that goes on",
                                std::string("RIFF\0\0\0\0WEBPVP8 ", 16),
                                "\xFF\xD8 no marker follows"};
  for (const std::string& bytes : others) EXPECT_EQ(EndOf(bytes, 5).bytes_behind(), 0);
  for (const EndedFile& sample : kSamples) {
    const std::string file = FileOf(sample);
    for (size_t cut = 0; cut < file.size(); cut += 1 + cut / 9) {
      EXPECT_EQ(EndOf(file.substr(0, cut), 64).bytes_behind(), 0) << sample.name << " " << cut;
    }
  }
}

// Damaged bytes pass, too, and count once.
TEST(FileEndTest, PassesAnyBytes) {
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = FileOf(kSamples[test::RandomInt(random, 0, 2)]);
    for (int n = test::RandomInt(random, 0, 8); n > 0; --n) {
      bytes[test::RandomInt(random, 0, static_cast<int>(bytes.size()) - 1)] =
          static_cast<char>(test::RandomInt(random, 0, 255));
    }
    const size_t portion = test::RandomInt(random, 1, 100);
    const FileEnd end = EndOf(bytes, portion);
    EXPECT_LT(end.bytes_behind(), std::ssize(bytes));
    EXPECT_EQ(end.bytes_behind(), EndOf(bytes, bytes.size()).bytes_behind());
  }
}

}  // namespace
}  // namespace upscaled
