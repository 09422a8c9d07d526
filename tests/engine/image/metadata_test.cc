// Every block of metadata from every format to every format, read back by our own parsers and by
// exiftool where it is installed.
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/image/codec.h"
#include "engine/image/exif.h"
#include "engine/image/metadata.h"
#include "tests/support/colour_profiles.h"
#include "tests/support/odd_files.h"
#include "tests/support/resolution_exif.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr ImageFormat kAllFormats[] = {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp};
constexpr Size kStored = {40, 30}, kResult = {80, 60};

// A TIFF file with a camera, a date, a copyright, dimensions, GPS, and a thumbnail.
std::string CameraExif(bool big_endian) {
  std::string bytes = big_endian ? "MM" : "II";
  const auto append = [&](uint32_t value, int count) {
    for (int i = 0; i < count; ++i)
      bytes.push_back(static_cast<char>(value >> 8 * (big_endian ? count - 1 - i : i)));
  };
  const auto entry = [&](int tag, int type, int count, uint32_t value) {
    append(tag, 2), append(type, 2), append(count, 4);
    const bool in_place = type == 3 && count == 1;
    append(value, in_place ? 2 : 4);
    if (in_place) append(0, 2);
  };
  constexpr int kFirst = 8, kDetails = kFirst + 2 + 6 * 12 + 4, kGps = kDetails + 2 + 3 * 12 + 4;
  constexpr int kText = kGps + 2 + 2 * 12 + 4, kThumbnails = kText + 64;
  append(42, 2), append(kFirst, 4);
  append(6, 2);
  entry(0x010F, 2, 6, kText);        // make
  entry(0x0112, 3, 1, 1);            // orientation
  entry(0x0132, 2, 20, kText + 6);   // date
  entry(0x8298, 2, 12, kText + 26);  // copyright
  entry(0x8769, 4, 1, kDetails);
  entry(0x8825, 4, 1, kGps);
  append(kThumbnails, 4);
  append(3, 2);
  entry(0xA001, 3, 1, 1);  // sRGB
  entry(0xA002, 3, 1, kStored.width);
  entry(0xA003, 3, 1, kStored.height);
  append(0, 4);
  append(2, 2);
  entry(0x0001, 2, 2, big_endian ? 'N' << 24 : 'N');
  entry(0x0002, 5, 3, kText + 38);  // latitude
  append(0, 4);
  bytes += std::string(
      "Maker\0"
      "2026:01:02 03:04:05\0"
      "(c) Someone\0",
      38);
  for (const uint32_t part : {48u, 1u, 12u, 1u, 30u, 1u}) append(part, 4);
  bytes.resize(kThumbnails, '\0');
  append(2, 2);
  entry(0x0201, 4, 1, kThumbnails + 30);
  entry(0x0202, 4, 1, 100);
  append(0, 4);
  bytes += std::string(100, 'T');
  return bytes;
}

constexpr char kXmp[] =
    "<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:RDF "
    "xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><rdf:Description rdf:about='' "
    "xmlns:tiff='http://ns.adobe.com/tiff/1.0/' xmlns:exif='http://ns.adobe.com/exif/1.0/' "
    "xmlns:dc='http://purl.org/dc/elements/1.1/' tiff:Orientation='6' "
    "exif:PixelXDimension=\"40\"><exif:PixelYDimension>30</exif:PixelYDimension>"
    "<dc:source>a film</dc:source></rdf:Description></rdf:RDF></x:xmpmeta>";

std::string IptcSet(int set, std::string_view text) {
  std::string bytes = {'\x1c', '\2', static_cast<char>(set), '\0', static_cast<char>(text.size())};
  return bytes.append(text);
}

constexpr char kComment[] =
    "gr\xC3\xBC\xC3\x9F"
    "e";

enum class Block { kExif, kXmp, kIptc, kDensity, kText, kProfile };
constexpr Block kBlocks[] = {Block::kExif,    Block::kXmp,  Block::kIptc,
                             Block::kDensity, Block::kText, Block::kProfile};

ImageMetadata Only(Block block, ImageFormat format) {
  ImageMetadata metadata;
  switch (block) {
    case Block::kExif:
      metadata.exif = CameraExif(format == ImageFormat::kPng);
      break;
    case Block::kXmp:
      metadata.xmp = kXmp;
      break;
    case Block::kIptc:
      metadata.iptc = IptcSet(120, "a caption") + IptcSet(90, "a city");
      break;
    case Block::kDensity:
      metadata.density = format == ImageFormat::kPng
                             ? PixelDensity{PixelDensity::Unit::kMetre, 11811, 11811}
                             : PixelDensity{PixelDensity::Unit::kInch, 300, 300};
      break;
    case Block::kText:
      metadata.texts = {{.keyword = "Comment", .text = kComment}};
      break;
    case Block::kProfile:
      static const std::string profile = test::SrgbProfile();  // its date is that of now
      metadata.icc_profile = profile;
      break;
  }
  return metadata;
}

bool OrientsItself(ImageFormat format) {
  return format == ImageFormat::kAvif || format == ImageFormat::kHeic ||
         format == ImageFormat::kJxl || format == ImageFormat::kTiff;
}

// The formats written by this build.
std::vector<ImageFormat> WrittenFormats() {
  std::vector<ImageFormat> formats;
  std::ranges::copy_if(kImageFormats, std::back_inserter(formats), CanEncode);
  return formats;
}

// Whether files of the format have the block at all.
bool Holds(ImageFormat format, Block block) {
  const bool has_three_blocks =
      format == ImageFormat::kWebp || format == ImageFormat::kAvif || format == ImageFormat::kJxl;
  return !has_three_blocks ||
         (block != Block::kIptc && block != Block::kText && block != Block::kDensity);
}

// A tag found by exiftool in a result, with its value. "": it sees nothing of the block.
std::string ExiftoolLine(Block block, ImageFormat from, ImageFormat to) {
  switch (block) {
    case Block::kExif:
      return "EXIF:Make: Maker";
    case Block::kXmp:
      return "XMP:Source: a film";
    case Block::kIptc:
      return "IPTC:Caption-Abstract: a caption";
    case Block::kDensity:
      return to == ImageFormat::kPng                                 ? "PNG:PixelsPerUnitX: 11811"
             : to == ImageFormat::kJpeg                              ? "JFIF:XResolution: 300"
             : to == ImageFormat::kTiff && from == ImageFormat::kPng ? "EXIF:XResolution: 118.11"
                                                                     : "EXIF:XResolution: 300";
    case Block::kText: {
      // TIFF has it as a tag, which EXIF has elsewhere.
      const bool is_tag = from == ImageFormat::kTiff || to == ImageFormat::kTiff;
      const char* const tag = is_tag                    ? "EXIF:ImageDescription: "
                              : to == ImageFormat::kPng ? "PNG:Comment: "
                                                        : "File:Comment: ";
      return std::string(tag) + kComment;
    }
    case Block::kProfile:
      return from == ImageFormat::kJxl || to == ImageFormat::kJxl
                 ? ""
                 : "ICC_Profile:ProfileClass: Display Device Profile";
  }
  return "";
}

// Lines of "group:tag: value"; empty: exiftool is not installed.
std::string Exiftool(const std::string& file) {
  if (std::system("command -v exiftool >/dev/null 2>&1") != 0) return "";
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("metadata_test_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << file;
  const std::string command = "exiftool -G -s -a '" + path.string() + "'";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text, line;
  char piece[4096];
  while (fgets(piece, sizeof(piece), pipe) != nullptr) text += piece;
  pclose(pipe);
  std::filesystem::remove(path);
  // "[EXIF]          Make                            : Maker"
  std::string result;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    const size_t close = line.find(']'), colon = line.find(": ");
    if (close == line.npos || colon == line.npos) continue;
    std::string tag = line.substr(close + 1, colon - close - 1);
    std::erase(tag, ' ');
    result += line.substr(1, close - 1) + ":" + tag + line.substr(colon) + "\n";
  }
  return result;
}

struct Carried {
  test::Decoded decoded;
  std::string file;
  std::vector<std::string> warnings;
};

// A file of `from` with this metadata, as a result in `to`.
Carried Carry(const ImageMetadata& metadata, ImageFormat from, ImageFormat to,
              MetadataPolicy policy, std::mt19937& random) {
  Carried carried;
  const Image image = test::PhotoImage({kStored.width, kStored.height, 3, SampleType::kU8}, random);
  const auto source = test::Decode(*test::Encode(image.view(), {.format = from}, metadata));
  EXPECT_TRUE(source.ok()) << source.status();
  const Image result =
      test::PhotoImage({kResult.width, kResult.height, 3, SampleType::kU8}, random);
  const ImageMetadata kept = MetadataForResult(source->metadata, policy, to, result.spec(),
                                               /*too_late=*/false, carried.warnings);
  carried.file = *test::Encode(result.view(), {.format = to}, kept);
  auto decoded = test::Decode(carried.file);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  carried.decoded = *std::move(decoded);
  return carried;
}

class MetadataTest : public ::testing::TestWithParam<std::tuple<Block, ImageFormat, ImageFormat>> {
};

TEST_P(MetadataTest, SurvivesOrIsNamed) {
  const auto [block, from, to] = GetParam();
  std::mt19937 random = test::FreshRandom();
  if (!Holds(from, block)) GTEST_SKIP() << "the format has no such block";
  const Carried carried = Carry(Only(block, from), from, to, MetadataPolicy::kKeep, random);
  const ImageMetadata& result = carried.decoded.metadata;
  const bool is_tag = block == Block::kText && from == ImageFormat::kTiff;
  const bool lost = !Holds(to, block) && block != Block::kDensity && !is_tag;
  EXPECT_EQ(carried.warnings.size(), lost ? 1u : 0u);
  if (lost) {
    EXPECT_EQ(BytesOf(result), 0u);
    return;
  }
  switch (block) {
    case Block::kExif:
      EXPECT_THAT(result.exif, AllOf(HasSubstr("Maker"), HasSubstr("2026:01:02 03:04:05")));
      EXPECT_THAT(result.exif, Not(HasSubstr("TTTT")));  // the thumbnail
      break;
    case Block::kXmp:
      EXPECT_THAT(result.xmp, HasSubstr("<dc:source>a film</dc:source>"));
      // Where the container says how pixels lie, and they were turned by that, XMP repeats it. Else
      // only EXIF turns an image, and what XMP says still holds.
      EXPECT_THAT(result.xmp,
                  HasSubstr(OrientsItself(from) || OrientsItself(to) ? "tiff:Orientation='1'"
                                                                     : "tiff:Orientation='6'"));
      EXPECT_THAT(result.xmp, HasSubstr("exif:PixelXDimension=\"80\""));
      EXPECT_THAT(result.xmp, HasSubstr("<exif:PixelYDimension>60<"));
      break;
    case Block::kIptc:
      EXPECT_EQ(result.iptc, Only(block, from).iptc);
      break;
    case Block::kDensity:
      if (Holds(to, block)) {
        // TIFF has it by the centimetre where the source has it by the metre.
        const bool stays = to == ImageFormat::kTiff && from == ImageFormat::kPng;
        EXPECT_EQ(result.density, Only(block, stays ? from : to).density);
      }
      break;
    case Block::kText:
      if (is_tag || to == ImageFormat::kTiff) {
        EXPECT_THAT(result.exif, HasSubstr(kComment));
      } else {
        EXPECT_EQ(result.texts, Only(block, from).texts);
      }
      break;
    case Block::kProfile:
      // The profile is sRGB's, to which a lossy JPEG XL's colours are turned.
      if (from == ImageFormat::kJxl || to == ImageFormat::kJxl) break;
      EXPECT_EQ(result.icc_profile, Only(block, from).icc_profile);
      break;
  }
  const std::string tags = Exiftool(carried.file);
  if (tags.empty()) GTEST_SKIP() << "exiftool is not installed";
  EXPECT_THAT(tags, HasSubstr(ExiftoolLine(block, from, to)));
  if (block == Block::kExif) {
    EXPECT_THAT(tags, HasSubstr("EXIF:ExifImageWidth: 80"));
    EXPECT_THAT(tags, HasSubstr("EXIF:ExifImageHeight: 60"));
    EXPECT_THAT(tags, HasSubstr("EXIF:GPSLatitude: 48 deg 12' 30.00\""));
    EXPECT_THAT(tags, Not(HasSubstr("Thumbnail")));
  }
  EXPECT_THAT(tags, Not(HasSubstr("Warning"))) << tags;
}

INSTANTIATE_TEST_SUITE_P(Table, MetadataTest,
                         ::testing::Combine(::testing::ValuesIn(kBlocks),
                                            ::testing::ValuesIn(WrittenFormats()),
                                            ::testing::ValuesIn(WrittenFormats())));

TEST(MetadataPolicyTest, StripsWhatItSays) {
  std::mt19937 random = test::FreshRandom();
  ImageMetadata all = Only(Block::kExif, ImageFormat::kJpeg);
  for (const Block block : kBlocks) {
    const ImageMetadata one = Only(block, ImageFormat::kJpeg);
    if (block == Block::kXmp) all.xmp = one.xmp;
    if (block == Block::kIptc) all.iptc = one.iptc;
    if (block == Block::kDensity) all.density = one.density;
    if (block == Block::kText) all.texts = one.texts;
    if (block == Block::kProfile) all.icc_profile = one.icc_profile;
  }
  for (const ImageFormat to : kAllFormats) {
    SCOPED_TRACE(FormatName(to));
    const auto carry = [&](MetadataPolicy policy) {
      return Carry(all, ImageFormat::kJpeg, to, policy, random);
    };
    const Carried stripped = carry(MetadataPolicy::kStrip);
    EXPECT_EQ(stripped.decoded.metadata, ImageMetadata());
    EXPECT_THAT(stripped.warnings, Contains(HasSubstr("colour profile")));

    const Carried icc = carry(MetadataPolicy::kIcc);
    EXPECT_EQ(icc.decoded.metadata, ImageMetadata{.icc_profile = all.icc_profile});
    EXPECT_THAT(icc.warnings, IsEmpty());

    const Carried no_place = carry(MetadataPolicy::kStripLocation);
    EXPECT_THAT(no_place.decoded.metadata.exif, HasSubstr("Maker"));
    EXPECT_THAT(no_place.file, Not(HasSubstr("a city")));
    if (to == ImageFormat::kJpeg) {
      EXPECT_THAT(no_place.file, HasSubstr("a caption"));
    }
    EXPECT_THAT(no_place.decoded.metadata.xmp, HasSubstr("a film"));
    const std::string tags = Exiftool(no_place.file);
    EXPECT_THAT(tags, Not(HasSubstr("GPS")));
    EXPECT_EQ(no_place.decoded.metadata.icc_profile, all.icc_profile);
  }
}

// Blocks that are not read through may tell of a place.
TEST(MetadataPolicyTest, DirectoriesOfTooManyEntriesAndRawProfilesDoNotStay) {
  const auto exif_of = [](int entries) {
    std::string exif("II\x2a\0\x08\0\0\0", 8);
    const auto append = [&exif](uint32_t value, int bytes) {
      for (int i = 0; i < bytes; ++i) exif.push_back(static_cast<char>(value >> 8 * i));
    };
    append(entries, 2);
    const uint32_t gps = 8 + 2 + 12 * entries + 4;
    for (int i = 0; i < entries; ++i) {
      append(i == 0 ? 0x8825 : 0xC000 + i, 2);
      append(i == 0 ? 4 : 3, 2);  // a directory, or a number
      append(1, 4);
      append(i == 0 ? gps : 7, 4);
    }
    append(0, 4);
    return exif + std::string("\x01\0\x01\0\x02\0\x02\0\0\0N\0\0\0\0\0\0\0", 18);
  };
  std::string few = exif_of(1000), many = exif_of(1025);
  EXPECT_TRUE(StripExifLocation(few));
  EXPECT_TRUE(CorrectExif(few, {8, 8}, false));
  std::string other = many;
  EXPECT_FALSE(StripExifLocation(many));
  EXPECT_FALSE(CorrectExif(other, {8, 8}, false));

  const ImageMetadata source = {.texts = {{.keyword = "Raw profile type APP1", .text = "a place"},
                                          {.keyword = "Comment", .text = "a comment"}}};
  std::vector<std::string> warnings;
  const ImageMetadata kept =
      MetadataForResult(source, MetadataPolicy::kStripLocation, ImageFormat::kPng,
                        {8, 8, 3, SampleType::kU8}, /*too_late=*/false, warnings);
  ASSERT_EQ(kept.texts.size(), 1u);
  EXPECT_EQ(kept.texts[0].keyword, "Comment");
  EXPECT_THAT(warnings, Contains(HasSubstr("raw profiles in texts are left out")));
}

TEST(MetadataPolicyTest, ProfilesOfOtherColoursAreLeftOut) {
  const std::string gray = test::TestProfile(true, 200), rgb = test::TestProfile(false, 200);
  const auto result = [](const std::string& profile, ImageFormat format, int channels) {
    std::vector<std::string> warnings;
    const ImageMetadata kept =
        MetadataForResult({.icc_profile = profile}, MetadataPolicy::kKeep, format,
                          {8, 8, channels, SampleType::kU8}, /*too_late=*/false, warnings);
    EXPECT_EQ(kept.icc_profile, warnings.empty() ? profile : "");
    return absl::StrJoin(warnings, "; ");
  };
  const std::string left_out = "the colour profile is left out: it describes ";
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp,
                                   ImageFormat::kAvif, ImageFormat::kTiff}) {
    EXPECT_EQ(result(rgb, format, 4), "");
    EXPECT_EQ(result(gray, format, 2), "");
    EXPECT_EQ(result(gray, format, 3), left_out + "GRAY, the result is RGB");
    EXPECT_EQ(result(rgb, format, 1),
              format == ImageFormat::kPng ? left_out + "RGB, the result is gray" : "");
    for (const int channels : {1, 3})
      EXPECT_EQ(result(test::CmykProfile(), format, channels),
                left_out + "CMYK, the result is " + (channels == 1 ? "gray" : "RGB"));
    EXPECT_EQ(result("no profile", format, 3), "");
  }
}

TEST(MetadataPolicyTest, XmpThatTellsOfAPlaceGoesAsAWhole) {
  std::mt19937 random = test::FreshRandom();
  const ImageMetadata metadata{.xmp = "<x exif:GPSLatitude='48,12.5N' dc:title='t'/>"};
  const Carried carried = Carry(metadata, ImageFormat::kPng, ImageFormat::kWebp,
                                MetadataPolicy::kStripLocation, random);
  EXPECT_EQ(carried.decoded.metadata.xmp, "");
  EXPECT_THAT(carried.warnings, Contains(HasSubstr("XMP tells of a location")));
}

// The source has EXIF that lacks it, and the format has no other place for it.
TEST(MetadataPolicyTest, DensityGoesIntoExif) {
  using Unit = PixelDensity::Unit;
  std::mt19937 random = test::FreshRandom();
  struct Case {
    PixelDensity density;
    const char *x, *y, *unit;
  };
  const Case cases[] = {{{Unit::kInch, 300, 150}, "300", "150", "inches"},
                        {{Unit::kCentimetre, 118, 59}, "118", "59", "cm"},
                        {{Unit::kMetre, 11811, 5906}, "300", "150", "inches"},
                        {{Unit::kAspect, 2, 1}, "2", "1", "None"}};
  for (const ImageFormat to : WrittenFormats()) {
    if (Holds(to, Block::kDensity)) continue;
    for (const bool big_endian : {false, true})
      for (const Case& c : cases) {
        SCOPED_TRACE(::testing::Message() << FormatName(to) << ", " << c.unit);
        ImageMetadata metadata{.exif = CameraExif(big_endian), .density = c.density};
        std::vector<std::string> warnings;
        const ImageSpec spec{kResult.width, kResult.height, 3, SampleType::kU8};
        const ImageMetadata kept =
            MetadataForResult(metadata, MetadataPolicy::kKeep, to, spec, false, warnings);
        EXPECT_THAT(warnings, IsEmpty());
        const Image image = test::PhotoImage(spec, random);
        const std::string tags = Exiftool(*test::Encode(image.view(), {.format = to}, kept));
        if (tags.empty()) GTEST_SKIP() << "exiftool is not installed";
        for (const std::string& line :
             {absl::StrCat("EXIF:XResolution: ", c.x), absl::StrCat("EXIF:YResolution: ", c.y),
              absl::StrCat("EXIF:ResolutionUnit: ", c.unit), std::string("EXIF:Make: Maker"),
              std::string("EXIF:Copyright: (c) Someone"), std::string("EXIF:ExifImageWidth: 80"),
              std::string("EXIF:GPSLatitude: 48 deg 12' 30.00\"")})
          EXPECT_THAT(tags, HasSubstr(line + "\n"));
        EXPECT_THAT(tags, Not(HasSubstr("Warning")));
        // Once it is there, an equal one changes nothing and another one is named.
        metadata.exif = kept.exif;
        const auto again = [&](PixelDensity density) {
          metadata.density = density;
          warnings.clear();
          const ImageMetadata result =
              MetadataForResult(metadata, MetadataPolicy::kKeep, to, spec, false, warnings);
          EXPECT_EQ(result.exif, kept.exif);
          return absl::StrJoin(warnings, "; ");
        };
        EXPECT_EQ(again(c.density), "");
        EXPECT_EQ(again({c.density.unit, 7, 9}),
                  "the resolution of 7 x 9 is left out: EXIF states another, or is damaged");
      }
  }
}

TEST(MetadataPolicyTest, TextOfEveryKindStaysInPng) {
  std::mt19937 random = test::FreshRandom();
  const ImageMetadata metadata{
      .texts = {{.keyword = "Title", .text = "plain"},
                {.keyword = "parameters", .text = std::string(5000, 'p')},
                {.keyword = "Author", .text = "\xE6\xBC\xA2\xE5\xAD\x97"},
                {.keyword = "Comment", .text = "x", .language = "en", .translated_keyword = "y"}}};
  const Carried png =
      Carry(metadata, ImageFormat::kPng, ImageFormat::kPng, MetadataPolicy::kKeep, random);
  EXPECT_EQ(png.decoded.metadata.texts, metadata.texts);
  const Carried jpeg =
      Carry(metadata, ImageFormat::kPng, ImageFormat::kJpeg, MetadataPolicy::kKeep, random);
  EXPECT_EQ(jpeg.decoded.metadata.texts[0].text, "Title: plain");
  const Carried webp =
      Carry(metadata, ImageFormat::kPng, ImageFormat::kWebp, MetadataPolicy::kKeep, random);
  EXPECT_THAT(webp.warnings, Contains(HasSubstr("Title, parameters, Author, Comment")));
}

TEST(MetadataPolicyTest, BlocksBehindThePixelsAreKeptWhereTheyFit) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({8, 8, 3, SampleType::kU8}, random);
  std::string png = *test::Encode(image.view(), {});
  png.insert(png.size() - 12, test::PngChunk("tEXt", std::string("Title\0late", 10)));
  png.insert(png.size() - 12, test::PngChunk("tEXt", "Large" + std::string(100'000, '\0')));
  const auto decoded = test::Decode(png);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->metadata.texts, IsEmpty());
  ASSERT_EQ(decoded->late_metadata.texts.size(), 1u);
  EXPECT_EQ(decoded->late_metadata.texts[0].text, "late");
  EXPECT_THAT(decoded->warnings, Contains(HasSubstr("tEXt")));
  for (const ImageFormat to : kAllFormats) {
    std::vector<std::string> warnings;
    const ImageMetadata late =
        MetadataForResult(decoded->late_metadata, MetadataPolicy::kKeep, to, image.spec(),
                          /*too_late=*/!HoldsLateMetadata({.format = to}), warnings);
    EXPECT_EQ(warnings.size(), to == ImageFormat::kPng ? 0u : 1u);
    StringSink sink;
    const auto encoder = CreateImageEncoder({.format = to}, image.spec(), {}, sink);
    ASSERT_TRUE((*encoder)->WriteRows(image.view()).ok());
    (*encoder)->AddLateMetadata(late);
    ASSERT_TRUE((*encoder)->Finish().ok());
    const auto again = test::Decode(sink.bytes());
    ASSERT_TRUE(again.ok()) << again.status();
    if (to == ImageFormat::kPng) {
      EXPECT_EQ(again->late_metadata.texts, decoded->late_metadata.texts);
    }
  }
}

// A tag of TIFF has one text: of EXIF, of the texts before the pixels, or of those after them.
TEST(MetadataPolicyTest, TextsBehindThePixelsGoIntoTiffOrAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({8, 8, 3, SampleType::kU8}, random);
  const auto result = [&](const ImageMetadata& first, const ImageMetadata& late,
                          std::vector<std::string>& warnings) {
    const auto fit = [&](const ImageMetadata& metadata, const ImageMetadata* earlier) {
      return MetadataForResult(metadata, MetadataPolicy::kKeep, ImageFormat::kTiff, image.spec(),
                               /*too_late=*/false, warnings, earlier);
    };
    StringSink sink;
    const auto encoder =
        CreateImageEncoder({.format = ImageFormat::kTiff}, image.spec(), fit(first, nullptr), sink);
    EXPECT_TRUE((*encoder)->WriteRows(image.view()).ok());
    (*encoder)->AddLateMetadata(fit(late, &first));
    EXPECT_TRUE((*encoder)->Finish().ok());
    return test::Decode(sink.bytes())->metadata.exif;
  };
  std::vector<std::string> warnings;
  const ImageMetadata software = {.texts = {{.keyword = "Software", .text = "a brush"}}};
  const ImageMetadata author = {.texts = {{.keyword = "Author", .text = "a painter"}}};
  EXPECT_THAT(result(software, author, warnings),
              AllOf(HasSubstr("a brush"), HasSubstr("a painter")));
  EXPECT_THAT(result(software, software, warnings), HasSubstr("a brush"));
  EXPECT_THAT(warnings, IsEmpty());

  const ImageMetadata other = {.texts = {{.keyword = "Software", .text = "a pen"}}};
  EXPECT_THAT(result(software, other, warnings), Not(HasSubstr("a pen")));
  EXPECT_THAT(warnings, Contains(HasSubstr("the text of Software is left out")));
  warnings.clear();
  const ImageMetadata copyright = {.texts = {{.keyword = "Copyright", .text = "(c) Another"}}};
  ImageMetadata camera = {.exif = CameraExif(false)};
  EXPECT_THAT(result(camera, copyright, warnings), HasSubstr("(c) Someone"));
  EXPECT_EQ(warnings.size(), 1u);
  camera.texts = copyright.texts;
  EXPECT_THAT(result(camera, {}, warnings), HasSubstr("(c) Someone"));
  EXPECT_EQ(warnings.size(), 2u);
}

TEST(MetadataPolicyTest, ASecondBlockBehindThePixelsIsNamed) {
  const ImageMetadata first = {.exif = CameraExif(false), .xmp = kXmp, .iptc = IptcSet(120, "a")};
  for (const ImageFormat to : {ImageFormat::kPng, ImageFormat::kTiff}) {
    std::vector<std::string> warnings;
    const ImageMetadata late =
        MetadataForResult(first, MetadataPolicy::kKeep, to, {8, 8, 3, SampleType::kU8},
                          /*too_late=*/false, warnings, &first);
    EXPECT_EQ(BytesOf(late), 0u);
    EXPECT_EQ(warnings.size(), 3u);
  }
}

// Formats without a place for resolutions have them in EXIF, which may come after the pixels.
TEST(MetadataPolicyTest, ExifBehindThePixelsGetsTheResolutionBeforeThem) {
  const PixelDensity density = {PixelDensity::Unit::kInch, 300, 200};
  for (const ImageFormat to : {ImageFormat::kWebp, ImageFormat::kAvif, ImageFormat::kJxl}) {
    std::vector<std::string> warnings;
    const ImageMetadata first = {.density = density};
    const auto fit = [&](const ImageMetadata& metadata, const ImageMetadata* earlier) {
      return MetadataForResult(metadata, MetadataPolicy::kKeep, to, {8, 8, 3, SampleType::kU8},
                               /*too_late=*/false, warnings, earlier);
    };
    ImageMetadata result = fit(first, nullptr);
    AddMissing(fit({.exif = CameraExif(false)}, &first), result);
    EXPECT_THAT(warnings, IsEmpty());
    EXPECT_THAT(result.exif, HasSubstr("Maker"));
    std::string exif = result.exif;
    EXPECT_TRUE(SetExifDensity(density, exif));
    EXPECT_EQ(exif, result.exif) << "it states the resolution already";
    EXPECT_FALSE(SetExifDensity({PixelDensity::Unit::kInch, 7, 9}, exif));

    AddMissing(fit({.density = PixelDensity{PixelDensity::Unit::kInch, 7, 9}}, &first), result);
    EXPECT_EQ(exif, result.exif);
    EXPECT_THAT(warnings, ElementsAre("the resolution after the pixels is left out"));
  }
}

// Fewer than ten pixels an inch would lose much by whole numbers.
TEST(MetadataPolicyTest, LowResolutionsAreKept) {
  for (const uint32_t per_metre : {10u, 25u, 393u}) {
    std::string exif;
    const PixelDensity density = {PixelDensity::Unit::kMetre, per_metre, per_metre};
    EXPECT_TRUE(SetExifDensity(density, exif));
    const std::string once = exif;
    EXPECT_TRUE(SetExifDensity(density, exif)) << per_metre;
    EXPECT_FALSE(SetExifDensity({density.unit, 2 * per_metre, per_metre}, exif)) << per_metre;
    EXPECT_EQ(exif, once);
  }
}

TEST(ResolutionTest, IsTurnedWithTheImage) {
  const test::ExifResolutions values;
  const std::string xmp =
      "<x tiff:XResolution='300/1' tiff:YResolution=\"150/1\"><exif:FocalPlaneXResolution>7000/3"
      "</exif:FocalPlaneXResolution><exif:FocalPlaneYResolution>2000/1"
      "</exif:FocalPlaneYResolution></x>";
  const std::string turned_xmp =
      "<x tiff:XResolution='150/1' tiff:YResolution=\"300/1\"><exif:FocalPlaneXResolution>2000/1"
      "</exif:FocalPlaneXResolution><exif:FocalPlaneYResolution>7000/3"
      "</exif:FocalPlaneYResolution></x>";
  const std::string one_side = "<x tiff:XResolution='300/1' exif:FocalPlaneYResolution='9.5'/>";
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big_endian : {false, true}) {
      const bool swaps = orientation >= 5;
      ImageMetadata metadata = {.exif = test::ResolutionExif(values, 0, big_endian), .xmp = xmp};
      metadata.density = PixelDensity{PixelDensity::Unit::kInch, 300, 150};
      TurnDensity(static_cast<Orientation>(orientation), metadata);
      EXPECT_EQ(metadata.density->x, swaps ? 150u : 300u);
      EXPECT_TRUE(test::ResolutionsIn(metadata.exif) == (swaps ? test::Turned(values) : values));
      EXPECT_EQ(metadata.xmp, swaps ? turned_xmp : xmp);
      metadata = {.xmp = one_side};
      TurnDensity(static_cast<Orientation>(orientation), metadata);
      EXPECT_EQ(metadata.xmp, one_side);
    }
}

// EXIF turns the pictures of these formats.
TEST(ResolutionTest, OfAFileIsOfItsUprightPicture) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({40, 30, 3, SampleType::kU8}, random);
  const test::ExifResolutions values;
  for (const ImageFormat format : WrittenFormats()) {
    if (OrientsItself(format)) continue;
    for (int orientation = 1; orientation <= 8; ++orientation)
      for (const bool big_endian : {false, true}) {
        SCOPED_TRACE(::testing::Message() << FormatName(format) << orientation << big_endian);
        ImageMetadata metadata = {.exif = test::ResolutionExif(values, orientation, big_endian),
                                  .xmp = "<x tiff:XResolution='300/1' tiff:YResolution='150/1'/>"};
        if (Holds(format, Block::kDensity))
          metadata.density = PixelDensity{
              format == ImageFormat::kPng ? PixelDensity::Unit::kMetre : PixelDensity::Unit::kInch,
              300, 150};
        const auto decoded =
            test::Decode(*test::Encode(image.view(), {.format = format}, metadata));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        const bool swaps = orientation >= 5;
        EXPECT_EQ(decoded->header.spec.width_px, swaps ? 30 : 40);
        EXPECT_TRUE(test::ResolutionsIn(decoded->metadata.exif) ==
                    (swaps ? test::Turned(values) : values));
        EXPECT_EQ(decoded->metadata.xmp,
                  swaps ? "<x tiff:XResolution='150/1' tiff:YResolution='300/1'/>" : metadata.xmp);
        if (Holds(format, Block::kDensity)) {
          EXPECT_EQ(decoded->metadata.density->x, swaps ? 150u : 300u);
          EXPECT_EQ(decoded->metadata.density->y, swaps ? 300u : 150u);
        }
      }
  }
}

TEST(ResolutionTest, OfBlocksBehindThePixelsIsTurned) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({8, 6, 3, SampleType::kU8}, random);
  for (const int orientation : {1, 6}) {
    std::string png =
        *test::Encode(image.view(), {}, {.exif = test::ResolutionExif({}, orientation)});
    const std::string head("XML:com.adobe.xmp\0\0\0\0\0", 22);
    png.insert(png.size() - 12,
               test::PngChunk("iTXt", head + "<x tiff:XResolution='3' tiff:YResolution='2/1'/>"));
    const auto decoded = test::Decode(png);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->late_metadata.xmp, orientation == 6
                                              ? "<x tiff:XResolution='2/1' tiff:YResolution='3'/>"
                                              : "<x tiff:XResolution='3' tiff:YResolution='2/1'/>");
  }
}

TEST(ResolutionTest, OfTheSensorGrowsWithTheImage) {
  using Fraction = std::array<uint32_t, 2>;
  struct Case {
    Fraction before;
    double factor;
    Fraction after;
    std::string text, after_text;
  };
  const Case cases[] = {
      {{7000, 3}, 2, {14000, 3}, "7000/3", "14000/3"},
      {{7000, 3}, 1, {7000, 3}, "7000/3", "7000/3"},
      {{7000, 3}, 0.5, {3500, 3}, "7000/3", "3500/3"},
      {{1, 3}, 1.5, {500000, 1000000}, "1/3", "500000/1000000"},
      {{5, 1}, 1.5, {7500000, 1000000}, "5", "7500000/1000000"},
      {{4'000'000'000, 1000}, 2, {8'000'000, 1}, "4000000000/1000", "8000000/1"},
      {{4'000'000'000, 1}, 2, {4'000'000'000, 1}, "4000000000/1", "4000000000/1"},
      {{0, 0}, 2, {0, 0}, "0/0", "0/0"},
      {{5, 0}, 2, {5, 0}, "", ""},
      {{5, 1}, 2, {10, 1}, "5.5", "5.5"},
  };
  for (const Case& c : cases)
    for (const bool big_endian : {false, true}) {
      SCOPED_TRACE(::testing::Message() << c.before[0] << '/' << c.before[1] << ' ' << c.factor);
      const auto xmp = [&](const std::string& text) {
        return absl::StrCat("<x exif:FocalPlaneXResolution='", text,
                            "'><exif:FocalPlaneYResolution>", text,
                            "</exif:FocalPlaneYResolution></x>");
      };
      test::ExifResolutions values;
      values.sensor_x = values.sensor_y = c.before;
      ImageMetadata metadata = {.exif = test::ResolutionExif(values, 0, big_endian),
                                .xmp = xmp(c.text)};
      ScaleSensorDensity(c.factor, c.factor, metadata);
      values.sensor_x = values.sensor_y = c.after;
      EXPECT_TRUE(test::ResolutionsIn(metadata.exif) == values);
      EXPECT_EQ(metadata.xmp, xmp(c.after_text));
    }
  // Each side by its own factor. Two entries may share a value.
  ImageMetadata metadata = {.exif = test::ResolutionExif({})};
  ScaleSensorDensity(2, 3, metadata);
  EXPECT_EQ(test::ResolutionsIn(metadata.exif).sensor_x, (Fraction{14000, 3}));
  EXPECT_EQ(test::ResolutionsIn(metadata.exif).sensor_y, (Fraction{6000, 1}));
  std::string shared = test::ResolutionExif({});
  const size_t details = 8 + 2 + 4 * 12 + 4, value = 8;
  shared.replace(details + 2 + 12 + value, 4, shared.substr(details + 2 + value, 4));
  metadata = {.exif = shared};
  ScaleSensorDensity(2, 2, metadata);
  EXPECT_EQ(test::ResolutionsIn(metadata.exif).sensor_x, (Fraction{14000, 3}));
  EXPECT_EQ(test::ResolutionsIn(metadata.exif).sensor_y, (Fraction{14000, 3}));
}

// Any change of any byte: nothing outside the block is touched (a sanitizer looks), in no time.
TEST(HostileExifTest, IsEditedSafely) {
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 20000; ++i) {
    std::string exif = CameraExif(i % 2 == 0);
    for (int changes = test::RandomInt(random, 1, 6); changes > 0; --changes)
      exif[test::RandomInt(random, 0, static_cast<int>(exif.size()) - 1)] =
          static_cast<char>(test::RandomInt(random, 0, 255));
    exif.resize(test::RandomInt(random, 0, static_cast<int>(exif.size())));
    exif.shrink_to_fit();
    const size_t before = exif.size();
    (void)StripExifLocation(exif);
    (void)CorrectExif(exif, {80, 60}, false);
    EXPECT_LE(exif.size(), before);
    if (i % 4 < 2) exif = test::ResolutionExif({}, 0, i % 2 == 0) + exif;
    if (i % 4 < 2)
      exif[test::RandomInt(random, 0, 139)] = static_cast<char>(test::RandomInt(random, 0, 255));
    ImageMetadata metadata = {.exif = exif};
    TurnDensity(Orientation::kRotate90, metadata);
    ScaleSensorDensity(2, 1.7, metadata);
    EXPECT_EQ(metadata.exif.size(), exif.size());
    (void)SetExifDensity({PixelDensity::Unit::kInch, 300, 200}, exif);
  }
}

// A thousand values, each as long as the whole block: the eraser must give up.
TEST(HostileExifTest, ManyLargeValuesAreGivenUp) {
  constexpr int kEntries = 1000, kDirectory = 2 + 12 * kEntries + 4;
  std::string exif("II\x2a\0\x08\0\0\0", 8);
  const auto append = [&exif](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) exif.push_back(static_cast<char>(value >> 8 * i));
  };
  for (const uint32_t tag : {0x8825u, 1u}) {  // GPS, and the values of its directory
    append(kEntries, 2);
    for (int i = 0; i < kEntries; ++i) {
      append(tag, 2), append(4, 2), append(1 << 28, 4);
      append(tag == 1 ? 8 + 2 * kDirectory : 8 + kDirectory, 4);
    }
    append(0, 4);
  }
  exif.resize(4 << 20, 'x');
  EXPECT_FALSE(StripExifLocation(exif));
}

TEST(MetadataPolicyTest, OnlyOrientationsThatWereAppliedAreReset) {
  const ImageSpec encoded{80, 60, 3, SampleType::kU8};
  const auto result = [&](ImageMetadata metadata) {
    std::vector<std::string> warnings;
    ImageMetadata kept = MetadataForResult(std::move(metadata), MetadataPolicy::kKeep,
                                           ImageFormat::kPng, encoded, false, warnings);
    EXPECT_TRUE(warnings.empty());
    return kept;
  };
  const std::string xmp = "<x tiff:Orientation='6'/>";
  EXPECT_EQ(result({.xmp = xmp}).xmp, xmp);
  // EXIF of one entry: the orientation, of a type and a value.
  const auto exif_of = [](char type, char value) {
    return std::string("II*\0\x08\0\0\0\1\0\x12\1", 12) + std::string({type, '\0', '\1', '\0'}) +
           std::string({'\0', '\0', value, '\0'}) + std::string(6, '\0');
  };
  const ImageMetadata turned = result({.exif = exif_of(3, 6), .xmp = xmp});
  EXPECT_EQ(turned.exif, exif_of(3, 1));
  EXPECT_EQ(turned.xmp, "<x tiff:Orientation='1'/>");
  for (const auto& [type, value] : {std::pair<char, char>(1, 6), {3, 9}, {3, 0}}) {
    const ImageMetadata kept = result({.exif = exif_of(type, value), .xmp = xmp});
    EXPECT_EQ(kept.exif, exif_of(type, value));
    EXPECT_EQ(kept.xmp, xmp);
  }
}

TEST(MetadataPolicyTest, OrientationsBehindThePixelsStay) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({8, 6, 3, SampleType::kU8}, random);
  const std::string png = *test::Encode(image.view(), {});
  for (const char value : {1, 6}) {
    const std::string exif = std::string("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0", 18) +
                             std::string({value, '\0'}) + std::string(6, '\0');
    std::string file = png;
    file.insert(file.size() - 12, test::PngChunk("eXIf", exif));
    const auto decoded = test::Decode(file);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->header.spec, image.spec());
    EXPECT_EQ(decoded->warnings.size(), value == 6 ? 1u : 0u);
    std::vector<std::string> warnings;
    EXPECT_EQ(MetadataForResult(decoded->late_metadata, MetadataPolicy::kKeep, ImageFormat::kPng,
                                image.spec(), false, warnings)
                  .exif,
              exif);
    ImageMetadata all;
    AddMissing(decoded->late_metadata, all);
    EXPECT_EQ(MetadataForResult(all, MetadataPolicy::kKeep, ImageFormat::kWebp, image.spec(), false,
                                warnings)
                  .exif,
              exif);
  }
}

TEST(MetadataPolicyTest, ColoursThatAreLostAreNamed) {
  struct Case {
    std::string cicp;
    std::vector<ImageFormat> losing;  // formats whose results are named
    bool has_profile;                 // of those without cICP
  };
  using enum ImageFormat;
  const std::vector<ImageFormat> profiled = {kJpeg, kWebp, kTiff};
  const Case cases[] = {
      {{1, 13, 0, 1}, {}, false},
      {{12, 13, 0, 1}, {}, true},
      {{12, 2, 0, 1}, {}, true},  // the transfer is not specified: sRGB's
      {{2, 8, 0, 1}, {}, true},   // the primaries are not specified: sRGB's
      {{9, 7, 0, 1}, {}, true},   // SMPTE 240M
      {{9, 11, 0, 1}, {}, true},  // xvYCC
      {{9, 12, 0, 1}, {}, true},  // BT.1361
      {{10, 13, 0, 1}, {kJpeg, kWebp, kTiff, kJxl}, false},  // XYZ
      {{9, 9, 0, 1}, {kJpeg, kWebp, kTiff, kJxl}, false},    // logarithmic
      {{9, 16, 0, 1}, profiled, false},
      {{5, 16, 0, 1}, {kJpeg, kWebp, kTiff, kJxl}, false},
      {{12, 13, 0, 0}, {kJpeg, kWebp, kTiff, kJxl, kAvif}, false},  // of narrow range
  };
  for (const Case& one : cases)
    for (const ImageFormat format : {kPng, kJpeg, kWebp, kTiff, kJxl, kAvif}) {
      SCOPED_TRACE(::testing::Message() << int{one.cicp[0]} << " " << int{one.cicp[1]} << " "
                                        << static_cast<int>(format));
      std::vector<std::string> warnings;
      const ImageMetadata result =
          MetadataForResult({.colour_chunks = {{"cICP", one.cicp}}}, MetadataPolicy::kKeep, format,
                            {4, 4, 3, SampleType::kU8}, false, warnings);
      EXPECT_EQ(!warnings.empty(), std::ranges::count(one.losing, format) > 0);
      if (std::ranges::count(profiled, format) > 0) {
        EXPECT_EQ(!result.icc_profile.empty(), one.has_profile);
      }
    }
  for (const ImageFormat format : {kPng, kJpeg, kAvif, kJxl}) {
    std::vector<std::string> warnings;
    MetadataForResult({.colour_chunks = {{"cICP", {12, 13, 0, 1}},
                                         {"mDCV", std::string(24, '\1')},
                                         {"cLLI", std::string(8, '\1')}}},
                      MetadataPolicy::kKeep, format, {4, 4, 3, SampleType::kU8}, false, warnings);
    EXPECT_EQ(warnings.size(), format == kPng ? 0u : 2u);
  }
}

// Chunks that would count, and that no profile can state. PNG carries them as they are.
TEST(MetadataPolicyTest, ColourChunksWithoutAMeaningAreNamed) {
  const auto chrm = [](std::array<uint32_t, 8> values) {
    std::string bytes;
    for (const uint32_t value : values)
      for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return ColourChunk{"cHRM", bytes};
  };
  const ColourChunk point = chrm({31270, 32900, 30000, 30000, 30000, 30000, 30000, 30000}),
                    line = chrm({31270, 32900, 10000, 20000, 20000, 30000, 40000, 50000}),
                    below = chrm({31270, 32900, 64000, 33000, 30000, 60000, 15000, 0}),
                    far = chrm({31270, 32900, 640000, 33000, 30000, 60000, 15000, 6000}),
                    good = chrm({31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000}),
                    power = {"gAMA", std::string("\0\1\x86\xa0", 4)},
                    no_power = {"gAMA", std::string(4, '\0')},
                    srgb = {"sRGB", std::string(1, '\0')}, p3 = {"cICP", {12, 13, 0, 1}};
  struct Case {
    std::vector<ColourChunk> chunks;
    std::string lost;
  };
  const Case cases[] = {{{point}, "cHRM"},          {{line}, "cHRM"},
                        {{below}, "cHRM"},          {{far}, "cHRM"},
                        {{power, line}, "cHRM"},    {{no_power}, "gAMA"},
                        {{no_power, good}, "gAMA"}, {{no_power, point}, "gAMA, cHRM"},
                        {{power, good}, ""},        {{srgb, no_power, line}, ""},
                        {{p3, no_power, line}, ""}};
  using enum ImageFormat;
  for (const Case& c : cases)
    for (const ImageFormat format : {kPng, kJpeg, kWebp, kTiff, kJxl, kAvif}) {
      std::vector<std::string> warnings;
      const ImageMetadata result =
          MetadataForResult({.colour_chunks = c.chunks}, MetadataPolicy::kKeep, format,
                            {4, 4, 3, SampleType::kU8}, false, warnings);
      if (format == kPng || c.lost.empty()) {
        EXPECT_THAT(warnings, IsEmpty()) << FormatName(format);
      } else {
        EXPECT_THAT(warnings, ElementsAre("colours by " + c.lost +
                                          " are left out: the values describe no colours"));
      }
      if (format == kPng) {
        EXPECT_EQ(result.colour_chunks, c.chunks);
      }
    }
}

TEST(MetadataPolicyTest, EveryOtherOrientationOfPngStays) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({8, 6, 3, SampleType::kU8}, random);
  const std::string exif("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 26);
  std::string file = *test::Encode(image.view(), {});
  constexpr size_t kIhdrEnd = 33;
  file.insert(kIhdrEnd,
              test::PngChunk(
                  "tEXt", absl::StrCat("Raw profile type exif", std::string(1, '\0'),
                                       "\nexif\n      26\n", absl::BytesToHexString(exif), "\n")));
  const auto decoded = test::Decode(file);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.spec, image.spec());
  EXPECT_EQ(decoded->warnings.size(), 1u);
  std::vector<std::string> warnings;
  EXPECT_EQ(MetadataForResult(decoded->metadata, MetadataPolicy::kKeep, ImageFormat::kPng,
                              image.spec(), false, warnings)
                .exif,
            exif);
}

TEST(MetadataPolicyTest, SizesInXmpAreThoseOfTheResult) {
  const ImageSpec encoded{194, 122, 3, SampleType::kU8};
  std::vector<std::string> warnings;
  const auto result = [&](const std::string& xmp) {
    return MetadataForResult({.xmp = xmp}, MetadataPolicy::kKeep, ImageFormat::kJpeg, encoded,
                             false, warnings)
        .xmp;
  };
  // A part of a panorama of which each side grows by another factor.
  EXPECT_EQ(result("<x GPano:FullPanoWidthPixels='400' GPano:FullPanoHeightPixels=\"200\" "
                   "GPano:CroppedAreaLeftPixels='3' GPano:CroppedAreaTopPixels='5' "
                   "GPano:CroppedAreaImageWidthPixels='97'>"
                   "<GPano:CroppedAreaImageHeightPixels>41</GPano:CroppedAreaImageHeightPixels>"),
            "<x GPano:FullPanoWidthPixels='800' GPano:FullPanoHeightPixels=\"595\" "
            "GPano:CroppedAreaLeftPixels='6' GPano:CroppedAreaTopPixels='15' "
            "GPano:CroppedAreaImageWidthPixels='194'>"
            "<GPano:CroppedAreaImageHeightPixels>122</GPano:CroppedAreaImageHeightPixels>");
  for (const char* const odd :
       {"<x GPano:FullPanoHeightPixels='0'/>", "<x GPano:CroppedAreaImageWidthPixels='0'/>",
        "<x GPano:CroppedAreaImageWidthPixels='99999999999999999999'/>"})
    EXPECT_EQ(result(odd), odd);
  EXPECT_EQ(result("<x GPano:FullPanoWidthPixels='97'/>"), "<x GPano:FullPanoWidthPixels='194'/>");
  const std::string before = "<a stDim:w='1'/><mwg-rs:AppliedToDimensions ",
                    after = "/><b stDim:w='1'/>";
  EXPECT_EQ(result(before + "stDim:w='97' stDim:h='61' stDim:unit='pixel'" + after),
            before + "stDim:w='194' stDim:h='122' stDim:unit='pixel'" + after);
  EXPECT_EQ(
      result("<mwg-rs:AppliedToDimensions rdf:parseType=\"Resource\"><stDim:w>97</stDim:w>"
             "<stDim:h>61</stDim:h><stDim:unit>pixel</stDim:unit></mwg-rs:AppliedToDimensions>"),
      "<mwg-rs:AppliedToDimensions rdf:parseType=\"Resource\"><stDim:w>194</stDim:w>"
      "<stDim:h>122</stDim:h><stDim:unit>pixel</stDim:unit></mwg-rs:AppliedToDimensions>");
  EXPECT_EQ(result(before + "stDim:h='61'" + after), before + "stDim:h='122'" + after);
  const std::string inches = before + "stDim:w='97' stDim:h='61' stDim:unit='inch'" + after;
  EXPECT_EQ(result(inches), inches);
  EXPECT_EQ(result("<mwg-rs:AppliedToDimensions pixel"), "<mwg-rs:AppliedToDimensions pixel");
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace upscaled
