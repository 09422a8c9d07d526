// HEIC: pictures of x265 (tests/fuzz/corpus/codecs), and files made around them here: turned,
// cropped, in tiles, with alpha, profiles and metadata, damaged.
#include <bit>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/image/codec.h"
#include "engine/image/heif_items.h"
#include "engine/image/memory_io.h"
#include "tests/support/odd_files.h"
#include "tests/support/prefixes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const DecodeLimits kCaged = {.is_caged = true};
constexpr int kSide = 64;

std::string ReadSeed(std::string_view name) {
  std::ifstream file(absl::StrCat(UPSCALED_CODEC_SEEDS, "/", ToAbsl(name)), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The image of all seeds: blocks of 8 px.
Image Pattern(const ImageSpec& spec) {
  Image image(spec);
  for (int y = 0; y < spec.height_px; ++y)
    for (int x = 0; x < spec.width_px; ++x)
      for (int c = 0; c < spec.channels; ++c) {
        const int value = (x / 8 * 29 + y / 8 * 53 + 60 * c) % 256;
        const int i = x * spec.channels + c;
        if (spec.type == SampleType::kU8)
          image.mutable_view().row(y)[i] = static_cast<uint8_t>(value);
        else
          image.mutable_view().row_as<uint16_t>(y)[i] = static_cast<uint16_t>(value * 257);
      }
  return image;
}

std::string Be(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i)
    text.push_back(i < 8 ? static_cast<char>(value >> 8 * i) : '\0');
  return text;
}
std::string Box(std::string_view type, std::string_view payload) {
  return absl::StrCat(Be(8 + payload.size(), 4), ToAbsl(type), ToAbsl(payload));
}
std::string FullBox(std::string_view type, int version, std::string_view payload) {
  return Box(type, absl::StrCat(Be(static_cast<uint64_t>(version) << 24, 4), ToAbsl(payload)));
}

// Properties of items.
std::string SizeBox(int width, int height) {
  return FullBox("ispe", 0, Be(width, 4) + Be(height, 4));
}
std::string TurnBox(int quarters) { return Box("irot", Be(quarters, 1)); }
std::string MirrorBox(int axis) { return Box("imir", Be(axis, 1)); }
std::string CropBox(int width, int height, int twice_right, int twice_down) {
  return Box("clap", absl::StrCat(Be(width, 4), Be(1, 4), Be(height, 4), Be(1, 4),
                                  Be(twice_right, 4), Be(2, 4), Be(twice_down, 4), Be(2, 4)));
}
std::string NumbersBox(int primaries, int transfer, int matrix, bool full_range) {
  return Box("colr", absl::StrCat("nclx", Be(primaries, 2), Be(transfer, 2), Be(matrix, 2),
                                  Be(full_range ? 0x80 : 0, 1)));
}
std::string AuxiliaryBox(std::string_view urn) {
  return FullBox("auxC", 0, std::string(urn) + '\0');
}

constexpr char kAlphaUrn[] = "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha";

struct Item {
  std::string type, data;
  std::vector<std::string> properties;  // whole boxes
  bool in_meta = false, is_hidden = false;
  std::string content_type;
};
struct Link {
  std::string type;
  int from;
  std::vector<int> to;
};

// A file with items numbered from 1, the first being primary.
std::string WriteHeif(const std::vector<Item>& items, const std::vector<Link>& links = {},
                      std::string_view brand = "heic") {
  const std::string ftyp = Box("ftyp", absl::StrCat(ToAbsl(brand), Be(0, 4), "mif1heic"));
  std::string infos, properties, associations, idat;
  int property_count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    infos += Box("infe", absl::StrCat(Be(2, 1), Be(item.is_hidden ? 1 : 0, 3), Be(i + 1, 2),
                                      Be(0, 2), item.type, std::string(1, '\0'),
                                      item.content_type.empty() ? "" : item.content_type + '\0'));
    associations += Be(i + 1, 2) + Be(item.properties.size(), 1);
    for (const std::string& property : item.properties) {
      properties += property;
      associations += Be(++property_count, 1);
    }
  }
  std::string references;
  for (const Link& link : links) {
    std::string ids = Be(link.from, 2) + Be(link.to.size(), 2);
    for (const int to : link.to) ids += Be(to, 2);
    references += Box(link.type, ids);
  }
  // Twice: places are known once the size of the boxes before them is.
  std::string meta;
  size_t data_begin = 0;
  for (int pass = 0; pass < 2; ++pass) {
    std::string places = Be(0x4400, 2) + Be(items.size(), 2);
    size_t position = data_begin;
    idat.clear();
    for (size_t i = 0; i < items.size(); ++i) {
      const Item& item = items[i];
      places += Be(i + 1, 2) + Be(item.in_meta ? 1 : 0, 2) + Be(0, 2) + Be(1, 2) +
                Be(item.in_meta ? idat.size() : position, 4) + Be(item.data.size(), 4);
      if (item.in_meta)
        idat += item.data;
      else
        position += item.data.size();
    }
    meta = FullBox(
        "meta", 0,
        absl::StrCat(FullBox("hdlr", 0, absl::StrCat(Be(0, 4), "pict", Be(0, 13))),
                     FullBox("pitm", 0, Be(1, 2)), FullBox("iloc", 1, places),
                     FullBox("iinf", 0, Be(items.size(), 2) + infos),
                     references.empty() ? "" : FullBox("iref", 0, references),
                     Box("iprp", Box("ipco", properties) +
                                     FullBox("ipma", 0, Be(items.size(), 4) + associations)),
                     idat.empty() ? "" : Box("idat", idat)));
    data_begin = ftyp.size() + meta.size() + 8;
  }
  std::string data;
  for (const Item& item : items)
    if (!item.in_meta) data += item.data;
  return ftyp + meta + Box("mdat", data);
}

// The item `id` of a seed, or its primary one, with the parameters of its pictures and its size.
Item ItemOf(std::string_view seed, uint32_t id = 0) {
  const std::string file = ReadSeed(seed);
  BoxReader boxes(AsBytes(file));
  while (const auto box = boxes.TakeBox()) {
    if (box->type != BoxType("meta")) continue;
    const absl::StatusOr<HeifItems> items = HeifItems::Parse("test", box->payload);
    EXPECT_TRUE(items.ok()) << items.status();
    if (id == 0) id = items->primary();
    const auto data = items->BytesOf(id, AsBytes(file), file.size());
    EXPECT_TRUE(data.ok()) << data.status();
    Item item{.type = BoxName(items->At(id).type), .data = std::string(data->begin(), data->end())};
    for (const HeifItems::Property& property : items->PropertiesOf(id))
      if (property.type == BoxType("hvcC") || property.type == BoxType("colr") ||
          property.type == BoxType("ispe"))
        item.properties.push_back(
            Box(BoxName(property.type),
                {reinterpret_cast<const char*>(property.payload.data()), property.payload.size()}));
    return item;
  }
  ADD_FAILURE() << seed << " has no items";
  return {};
}

// `item` with more properties.
Item With(Item item, const std::vector<std::string>& properties) {
  item.properties.insert(item.properties.end(), properties.begin(), properties.end());
  return item;
}

// `image` after each of `properties`, as HEIF says to apply them: one after the other.
Image Applied(Image image, const std::vector<std::string>& properties) {
  for (const std::string& property : properties) {
    const std::string type = property.substr(4, 4);
    const int value = static_cast<uint8_t>(property[8]);
    constexpr int kTurns[] = {1, 8, 3, 6}, kMirrors[] = {4, 2};
    if (type == "irot") image = test::TurnUpright(image.view(), kTurns[value]);
    if (type == "imir") image = test::TurnUpright(image.view(), kMirrors[value]);
    if (type != "clap") continue;
    const auto number = [&](int i) {
      return static_cast<int>(LoadBe32(AsBytes(property).data() + 8 + 4 * i));
    };
    const Size size = {number(0), number(2)};
    const Rect part = {(image.spec().width_px - size.width + number(4)) / 2,
                       (image.spec().height_px - size.height + number(6)) / 2, size.width,
                       size.height};
    Image cut({size.width, size.height, image.spec().channels, image.spec().type});
    for (int y = 0; y < size.height; ++y)
      std::memcpy(cut.mutable_view().row(y), image.view().Crop(part).row(y),
                  cut.spec().row_bytes());
    image = std::move(cut);
  }
  return image;
}

// The encoder's input samples; the encoder made YCbCr of them.
void ExpectImage(const absl::StatusOr<test::Decoded>& decoded, const Image& expected) {
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->header.spec, expected.spec());
  EXPECT_LE(test::LargestDifference(decoded->image.view(), expected.view()), 2);
}

TEST(HeicTest, IsReadOnlyInTheCage) {
  const std::string file = ReadSeed("heic-444.heic");
  EXPECT_TRUE(CanDecode(ImageFormat::kHeic));
  EXPECT_TRUE(NeedsCage(ImageFormat::kHeic));
  const absl::Status status = test::Decode(file, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("HEIC is read only where images are decoded in a sandbox"));
}

TEST(HeicTest, GivesTheSamplesThatWereEncoded) {
  ExpectImage(test::Decode(ReadSeed("heic-444.heic"), kCaged),
              Pattern({kSide, kSide, 3, SampleType::kU8}));
  ExpectImage(test::Decode(ReadSeed("heic-gray.heic"), kCaged),
              Pattern({kSide, kSide, 1, SampleType::kU8}));
  ExpectImage(test::Decode(ReadSeed("heic-alpha.heic"), kCaged),
              Pattern({kSide, kSide, 4, SampleType::kU8}));
}

TEST(HeicTest, KeepsTenAndTwelveBits) {
  const Image expected = Pattern({kSide, kSide, 3, SampleType::kU16});
  for (const auto& [seed, most] : {std::pair("heic-10.heic", 200), std::pair("heic-12.heic", 50)}) {
    const auto decoded = test::Decode(ReadSeed(seed), kCaged);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->header.spec, expected.spec()) << seed;
    int worst = 0;
    for (int y = 0; y < kSide; ++y)
      for (int i = 0; i < 3 * kSide; ++i)
        worst = std::max(worst, std::abs(decoded->image.view().row_as<uint16_t>(y)[i] -
                                         expected.view().row_as<uint16_t>(y)[i]));
    EXPECT_LE(worst, most) << seed;
  }
}

TEST(HeicTest, ReadsFewerColoursAndOddSizes) {
  for (const auto& [seed, size] :
       {std::pair("heic-422.heic", Size{kSide, kSide}), std::pair("heic-odd.heic", Size{67, 45})}) {
    const auto decoded = test::Decode(ReadSeed(seed), kCaged);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const Image expected = Pattern({size.width, size.height, 3, SampleType::kU8});
    ASSERT_EQ(decoded->header.spec, expected.spec()) << seed;
    // In the middle of blocks nothing but the quantisation differs.
    int worst = 0;
    for (int y = 4; y < size.height; y += 8)
      for (int x = 4; x < size.width; x += 8)
        for (int c = 0; c < 3; ++c)
          worst = std::max(worst, std::abs(decoded->image.view().row(y)[3 * x + c] -
                                           expected.view().row(y)[3 * x + c]));
    EXPECT_LE(worst, 24) << seed;
  }
}

TEST(HeicTest, TurnsMirrorsAndCropsInTheirOrder) {
  const Image pattern = Pattern({kSide, kSide, 3, SampleType::kU8});
  std::vector<std::vector<std::string>> cases;
  for (int quarters = 0; quarters < 4; ++quarters)
    for (int axis = 0; axis < 2; ++axis)
      for (const std::string& crop : {CropBox(31, 17, -5, 7), CropBox(64, 63, 0, -1)}) {
        const std::string turn = TurnBox(quarters), mirror = MirrorBox(axis);
        cases.insert(cases.end(), {{turn},
                                   {mirror},
                                   {crop},
                                   {turn, mirror},
                                   {mirror, turn},
                                   {crop, turn, mirror},
                                   {turn, crop, mirror},
                                   {mirror, turn, crop},
                                   {turn, mirror, turn, crop}});
      }
  for (const std::vector<std::string>& properties : cases) {
    std::string names;
    for (const std::string& property : properties) names += property.substr(4) + " ";
    SCOPED_TRACE(absl::CEscape(names));
    ExpectImage(test::Decode(WriteHeif({With(ItemOf("heic-444.heic"), properties)}), kCaged),
                Applied(Pattern(pattern.spec()), properties));
  }
  for (const std::string& crop :
       {CropBox(65, 64, 0, 0), CropBox(0, 1, 0, 0), CropBox(10, 10, 200, 0),
        CropBox(10, 10, 0, -200), Box("clap", std::string(32, '\0')), Box("clap", "short")}) {
    const absl::Status status =
        test::Decode(WriteHeif({With(ItemOf("heic-444.heic"), {crop})}), kCaged).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("the part to show (clap)"));
  }
}

TEST(HeicTest, DerivedItemsAreTheirSourceTurnedOnceMore) {
  const std::vector<std::string> inner = {MirrorBox(0), TurnBox(1)},
                                 outer = {TurnBox(1), CropBox(31, 17, -5, 7), MirrorBox(1)};
  Item derived{.type = "iden", .properties = {SizeBox(kSide, kSide)}, .in_meta = true};
  const std::string file =
      WriteHeif({With(derived, outer), With(ItemOf("heic-444.heic"), inner)}, {{"dimg", 1, {2}}});
  ExpectImage(test::Decode(file, kCaged),
              Applied(Applied(Pattern({kSide, kSide, 3, SampleType::kU8}), inner), outer));
  EXPECT_FALSE(test::Decode(WriteHeif({derived}), kCaged).ok());
  EXPECT_FALSE(test::Decode(WriteHeif({derived}, {{"dimg", 1, {1}}}), kCaged).ok());
}

// A file of a track only: the first of its pictures is the seed's.
std::string WriteTrack(const Item& picture, bool far) {
  std::string properties;
  for (const std::string& property : picture.properties) properties += property;
  const std::string ftyp = Box("ftyp", absl::StrCat("msf1", Be(0, 4), "msf1hevc"));
  const std::string entry = Box("hvc1", absl::StrCat(Be(0, 24), Be(kSide, 2), Be(kSide, 2),
                                                     std::string(50, '\0'), properties));
  std::string moov;
  for (size_t begin = 0, pass = 0; pass < 2; ++pass, begin = ftyp.size() + moov.size() + 8) {
    const std::string places = far ? FullBox("co64", 0, Be(1, 4) + Be(begin, 8))
                                   : FullBox("stco", 0, Be(1, 4) + Be(begin, 4));
    const std::string samples = Box(
        "stbl", absl::StrCat(FullBox("stsd", 0, Be(1, 4) + entry),
                             FullBox("stsz", 0,
                                     Be(0, 4) + Be(2, 4) + Be(picture.data.size(), 4) + Be(10, 4)),
                             places));
    const auto track = [](std::string_view handler, const std::string& table) {
      return Box("trak", Box("mdia", absl::StrCat(FullBox("hdlr", 0,
                                                          absl::StrCat(Be(0, 4), ToAbsl(handler),
                                                                       std::string(13, '\0'))),
                                                  Box("minf", table))));
    };
    moov = Box("moov",
               FullBox("mvhd", 0, "") + track("auxv", Box("stbl", "")) + track("pict", samples));
  }
  return ftyp + moov + Box("mdat", picture.data + std::string(10, 'x'));
}

TEST(HeicTest, OfATrackTheFirstPictureIsRead) {
  for (const bool far : {false, true}) {
    const std::string file = WriteTrack(ItemOf("heic-444.heic"), far);
    const auto decoded = test::Decode(file, kCaged);
    ExpectImage(decoded, Pattern({kSide, kSide, 3, SampleType::kU8}));
    EXPECT_THAT(decoded->header.warnings,
                ElementsAre("HEIC: it is a sequence: its first picture is computed, the others "
                            "are left out"));
    std::mt19937 random = test::FreshRandom();
    test::ExpectDamageIsSurvived(file, random, 50, kCaged);
    DecodeLimits asked = kCaged;
    asked.warns_of_frames = false;
    EXPECT_THAT(test::Decode(file, asked)->header.warnings, IsEmpty());
  }
}

// Tiles of 64 x 64 px, all the same picture.
std::string WriteGrid(int columns, int rows, Size size, const Item& tile, bool in_meta,
                      const std::vector<std::string>& properties = {}) {
  const std::string bytes = absl::StrCat(Be(0, 2), Be(rows - 1, 1), Be(columns - 1, 1),
                                         Be(size.width, 2), Be(size.height, 2));
  std::vector<Item> items = {{.type = "grid",
                              .data = bytes,
                              .properties = {SizeBox(size.width, size.height)},
                              .in_meta = in_meta}};
  items[0] = With(items[0], properties);
  Link tiles{"dimg", 1, {}};
  for (int i = 0; i < columns * rows; ++i) {
    items.push_back(tile);
    items.back().is_hidden = true;
    tiles.to.push_back(static_cast<int>(items.size()));
  }
  return WriteHeif(items, {tiles});
}

TEST(HeicTest, PutsTilesTogether) {
  const Image tile = Pattern({kSide, kSide, 3, SampleType::kU8});
  for (const Size size : {Size{192, 128}, Size{131, 66}, Size{129, 65}})
    for (const bool in_meta : {false, true}) {
      Image expected({size.width, size.height, 3, SampleType::kU8});
      for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x)
          for (int c = 0; c < 3; ++c)
            expected.mutable_view().row(y)[3 * x + c] =
                tile.view().row(y % kSide)[3 * (x % kSide) + c];
      const auto decoded =
          test::Decode(WriteGrid(3, 2, size, ItemOf("heic-444.heic"), in_meta), kCaged);
      ExpectImage(decoded, expected);
      EXPECT_THAT(decoded->warnings, IsEmpty());
    }
}

TEST(HeicTest, OddGridsOfFewerColoursAreWhole) {
  const auto decoded =
      test::Decode(WriteGrid(3, 2, {131, 67}, ItemOf("heic-422.heic"), false), kCaged);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.spec, (ImageSpec{131, 67, 3, SampleType::kU8}));
  // The same tile throughout.
  for (const int x : {20, 20 + kSide}) {
    for (int c = 0; c < 3; ++c)
      EXPECT_EQ(decoded->image.view().row(20)[3 * x + c], decoded->image.view().row(20)[60 + c]);
  }
}

TEST(HeicTest, GridsThatDoNotFitAreRefused) {
  const Item tile = ItemOf("heic-444.heic");
  for (const Size size : {Size{193, 128}, Size{128, 128}, Size{192, 64}, Size{192, 129}})
    EXPECT_THAT(
        std::string(test::Decode(WriteGrid(3, 2, size, tile, true), kCaged).status().message()),
        HasSubstr(absl::StrCat("a grid of 3 x 2 tiles has 6 of 64 x 64 px for ", size.width, " x ",
                               size.height)));
  std::string missing = WriteGrid(3, 2, {192, 128}, tile, true);
  missing.replace(missing.find("dimg") + 6, 2, Be(5, 2));
  EXPECT_FALSE(test::Decode(missing, kCaged).ok());
}

// A property "hvcC" of 4:2:0 pictures of `coded`, with `shown` as their visible part.
std::string ParametersBox(Size coded, Size shown) {
  std::string bits;
  const auto put = [&bits](uint32_t value, int count) {
    for (int i = count - 1; i >= 0; --i) bits.push_back((value >> i & 1) != 0 ? '1' : '0');
  };
  const auto put_code = [&](uint32_t value) {  // "ue(v)"
    const int length = std::bit_width(value + 1);
    put(value + 1, 2 * length - 1);
  };
  bits.append(16 + 8 + 88 + 8, '0');  // heads, and the profile
  for (const int value : {0, 1, coded.width, coded.height}) put_code(value);
  put(1, 1);
  for (const int value :
       {0, (coded.width - shown.width) / 2, 0, (coded.height - shown.height) / 2, 0, 0})
    put_code(value);
  std::string set;
  for (size_t i = 0; i < bits.size(); i += 8) {
    char byte = 0;
    for (size_t bit = i; bit < i + 8; ++bit)
      byte = static_cast<char>(byte << 1 | (bit < bits.size() && bits[bit] == '1' ? 1 : 0));
    set.push_back(byte);
  }
  set[0] = 33 << 1;
  // Bytes similar to a start code are kept apart.
  for (size_t i = 0; i + 2 < set.size(); ++i)
    if (set[i] == 0 && set[i + 1] == 0 && static_cast<uint8_t>(set[i + 2]) <= 3)
      set.insert(i + 2, 1, '\3');
  return Box("hvcC", absl::StrCat(std::string(21, '\0'), Be(3, 1), Be(1, 1), Be(33, 1), Be(1, 2),
                                  Be(set.size(), 2), set));
}

// A tile is coded, or repeated, for pixels outside the shown part.
TEST(HeicTest, TilesThatServeNoPixelsAreRefused) {
  Item tile = ItemOf("heic-444.heic");
  const auto parse = [&](Size coded, Size shown, int columns, int rows, Size size) {
    tile.properties = {ParametersBox(coded, shown)};
    const std::string file = WriteGrid(columns, rows, size, tile, true);
    return ParseImageHeader(AsBytes(file), kCaged).status();
  };
  EXPECT_TRUE(parse({512, 512}, {512, 512}, 8, 6, {4032, 3024}).ok());
  EXPECT_TRUE(parse({2048, 2048}, {2, 2}, 1, 1, {2, 2}).ok());
  EXPECT_EQ(
      parse({2048, 2048}, {2, 2}, 2, 2, {4, 4}).message(),
      "HEIC: item 1 has 16777216 coded pixels for the 16 that it shows; the limit is 4194368");
  EXPECT_THAT(std::string(parse({8192, 64}, {8192, 64}, 1, 256, {1, 16384}).message()),
              HasSubstr("134217728 coded pixels for the 16384"));
  // The same of alpha.
  const Item picture = ItemOf("heic-444.heic");
  tile.properties = {ParametersBox({4096, 2048}, {64, 64}), SizeBox(64, 64),
                     AuxiliaryBox(kAlphaUrn)};
  const std::string file = WriteHeif({picture, tile}, {{"auxl", 2, {1}}});
  EXPECT_THAT(std::string(ParseImageHeader(AsBytes(file), kCaged).status().message()),
              HasSubstr("item 2 has 8388608 coded pixels for the 4096"));
}

// Parameters of 4 MB. Each place of a grid would give them to a decoder of its own.
TEST(HeicTest, PlacesOfAGridShareFewBytes) {
  Item tile = ItemOf("heic-444.heic");
  for (std::string& property : tile.properties) {
    if (property.substr(4, 4) != "hvcC") continue;
    constexpr size_t kArraysAt = 22, kSets = 60, kSetBytes = 60'000;
    std::string record = property.substr(8);
    ++record[kArraysAt];
    record += Be(48, 1) + Be(kSets, 2);  // of a type that means nothing
    for (size_t i = 0; i < kSets; ++i)
      record += Be(kSetBytes, 2) + Be(48 << 9 | 1, 2) + std::string(kSetBytes - 2, 'x');
    property = Box("hvcC", record);
  }
  tile.is_hidden = true;
  const auto decode = [&](int rows) {
    const Item grid = {.type = "grid",
                       .data = absl::StrCat(Be(0, 2), Be(rows - 1, 1), Be(3, 1), Be(4 * kSide, 2),
                                            Be(rows * kSide, 2)),
                       .properties = {SizeBox(4 * kSide, rows * kSide)},
                       .in_meta = true};
    const Link places{"dimg", 1, std::vector<int>(size_t{4} * rows, 2)};
    return test::Decode(WriteHeif({grid, tile}, {places}), kCaged).status();
  };
  EXPECT_TRUE(decode(1).ok()) << decode(1);
  EXPECT_THAT(std::string(decode(8).message()), HasSubstr("share too many bytes"));
}

TEST(HeicTest, MemoryIsReservedForAllThatIsHeld) {
  constexpr Size kSize = {1280, 1280};
  constexpr size_t kPixels = 1280 * 1280;
  const auto reserved = [](const std::string& file) {
    const auto header = ParseImageHeader(AsBytes(file), kCaged);
    EXPECT_TRUE(header.ok()) << header.status();
    return header.ok() ? (*header)->decoder_bytes : 0;
  };
  // Planes of a gray picture, RGB of all of it, and the image, also where a part is shown.
  for (const std::vector<std::string>& crops :
       {std::vector<std::string>{}, {CropBox(2, 2, 0, 0)}}) {
    const std::string file = WriteGrid(20, 20, kSize, ItemOf("heic-gray.heic"), true, crops);
    EXPECT_GE(reserved(file), (1 + 3 + 1) * kPixels);
  }
  // All planes of alpha.
  std::vector<Item> items(2 + 400, ItemOf("heic-444.heic"));
  std::vector<Link> links = {{"auxl", 2, {1}}, {"dimg", 1, {}}, {"dimg", 2, {}}};
  for (Item& item : items) item.is_hidden = true;
  for (int i = 0; i < 2; ++i) {
    items[i] = {.type = "grid",
                .data = absl::StrCat(Be(0, 2), Be(19, 1), Be(19, 1), Be(1280, 2), Be(1280, 2)),
                .properties = {SizeBox(1280, 1280)},
                .in_meta = true};
    for (int tile = 3; tile <= 402; ++tile) links[1 + i].to.push_back(tile);
  }
  items[1].properties.push_back(AuxiliaryBox(kAlphaUrn));
  EXPECT_GE(reserved(WriteHeif(items, links)), (3 + 3 + 1 + 4) * kPixels);
  // Each item.
  const Item picture = ItemOf("heic-444.heic");
  const size_t one = reserved(WriteHeif({picture}));
  items.assign(30'000, {.type = "free", .in_meta = true});
  items[0] = picture;
  EXPECT_GE(reserved(WriteHeif(items)), one + items.size() * sizeof(HeifItem));
}

TEST(HeicTest, AlphaIsKept) {
  const Item colours = ItemOf("heic-444.heic");
  const Item mask = With(ItemOf("heic-gray.heic"), {AuxiliaryBox(kAlphaUrn)});
  Image expected = Pattern({kSide, kSide, 4, SampleType::kU8});
  for (int y = 0; y < kSide; ++y)  // the mask is the pattern of a gray image
    for (int x = 0; x < kSide; ++x)
      expected.mutable_view().row(y)[4 * x + 3] =
          static_cast<uint8_t>((x / 8 * 29 + y / 8 * 53) % 256);
  ExpectImage(test::Decode(WriteHeif({colours, mask}, {{"auxl", 2, {1}}}), kCaged), expected);

  // Multiplied colours are divided.
  const auto divided =
      test::Decode(WriteHeif({colours, mask}, {{"auxl", 2, {1}}, {"prem", 1, {2}}}), kCaged);
  ASSERT_TRUE(divided.ok()) << divided.status();
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) {
      const uint8_t *pixel = divided->image.view().row(y) + 4 * x,
                    *multiplied = expected.view().row(y) + 4 * x;
      for (int c = 0; c < 3 && pixel[3] > 0; ++c)
        EXPECT_NEAR(pixel[c], std::min(255.0, 255.0 * multiplied[c] / pixel[3]), 1);
    }

  // Eight bits of alpha, ten of colours.
  const auto wide =
      test::Decode(WriteHeif({ItemOf("heic-10.heic"), mask}, {{"auxl", 2, {1}}}), kCaged);
  ASSERT_TRUE(wide.ok()) << wide.status();
  ASSERT_EQ(wide->header.spec, (ImageSpec{kSide, kSide, 4, SampleType::kU16}));
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x)
      EXPECT_NEAR(wide->image.view().row_as<uint16_t>(y)[4 * x + 3],
                  257 * expected.view().row(y)[4 * x + 3], 33);

  const Item odd = With(ItemOf("heic-odd.heic"), {AuxiliaryBox(kAlphaUrn)});
  EXPECT_FALSE(test::Decode(WriteHeif({colours, odd}, {{"auxl", 2, {1}}}), kCaged).ok());
}

TEST(HeicTest, CarriesMetadataAndColours) {
  const std::string exif("II*\0\x08\0\0\0\0\0\0\0\0\0", 14), xmp = "<x:xmpmeta/>";
  const std::string profile = test::TestProfile(false, 3144);
  const std::vector<Link> links = {{"cdsc", 2, {1}}, {"cdsc", 3, {1}}};
  const std::vector<Item> blocks = {
      {.type = "Exif", .data = Be(6, 4) + std::string("Exif\0\0", 6) + exif},
      {.type = "mime", .data = xmp, .content_type = "application/rdf+xml"}};
  Item coloured = ItemOf("heic-444.heic");
  auto decoded = test::Decode(
      WriteHeif({With(coloured, {Box("colr", "prof" + profile)}), blocks[0], blocks[1]}, links),
      kCaged);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata.exif, exif);
  EXPECT_EQ(decoded->metadata.xmp, xmp);
  EXPECT_EQ(decoded->metadata.icc_profile, profile);
  EXPECT_THAT(decoded->metadata.colour_chunks, IsEmpty());
  for (const std::string& begin : {Be(0, 4), Be(0, 4) + std::string("Exif\0\0", 6)}) {
    decoded = test::Decode(
        WriteHeif({coloured, {.type = "Exif", .data = begin + exif}}, {links[0]}), kCaged);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->metadata.exif, exif);
  }

  std::erase_if(coloured.properties,
                [](const std::string& property) { return property.substr(4, 4) == "colr"; });
  decoded = test::Decode(WriteHeif({With(coloured, {NumbersBox(9, 16, 6, true)})}), kCaged);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.hdr, "PQ");
  ASSERT_EQ(decoded->metadata.colour_chunks.size(), 1u);
  EXPECT_EQ(decoded->metadata.colour_chunks[0].data, std::string("\x09\x10\0\x01", 4));
  // Numbers declare samples of less than their full range, and of other colours.
  const auto other =
      test::Decode(WriteHeif({With(coloured, {NumbersBox(9, 16, 9, false)})}), kCaged);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_GT(test::LargestDifference(other->image.view(), decoded->image.view()), 10);

  // Blocks beyond the limit are left out by name.
  DecodeLimits small = kCaged;
  small.max_metadata_bytes = 2000;
  decoded = test::Decode(
      WriteHeif({coloured, {.type = "Exif", .data = Be(0, 4) + std::string(5000, 'x')}},
                {{"cdsc", 2, {1}}}),
      small);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata.exif, "");
  EXPECT_THAT(decoded->warnings, ElementsAre(HasSubstr("EXIF is left out")));
}

TEST(HeicTest, PicturesThatAreLeftOutAreNamed) {
  const Item picture = ItemOf("heic-444.heic"), other = ItemOf("heic-gray.heic");
  const Item map = With(other, {AuxiliaryBox("urn:com:apple:photo:2020:aux:hdrgainmap")});
  const auto decoded = test::Decode(
      WriteHeif({picture, other, map, other}, {{"auxl", 3, {1}}, {"thmb", 4, {1}}}), kCaged);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->header.warnings,
              ElementsAre("HEIC: it holds 2 pictures: the primary one is computed, 1 left out",
                          "HEIC: 1 auxiliary pictures (such as depth or gain maps) are left out"));
  const auto sequence = test::Decode(WriteHeif({picture}, {}, "hevc"), kCaged);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_THAT(sequence->header.warnings,
              ElementsAre("HEIC: it is a sequence: its primary picture is computed, the others "
                          "are left out"));
  EXPECT_TRUE(sequence->header.may_move);
  DecodeLimits second = kCaged;
  second.frame = 2;
  EXPECT_THAT(
      std::string(test::Decode(WriteHeif({picture}, {}, "hevc"), second).status().message()),
      HasSubstr("frame 2 is asked for; only the first of its frames is read"));
}

TEST(HeicTest, OtherItemsPropertiesAndBoxesAreNamed) {
  const Item picture = ItemOf("heic-444.heic");
  const Item exif{.type = "Exif", .data = Be(0, 4) + "II*"},
      xmp{.type = "mime", .data = "<x/>", .content_type = "application/rdf+xml"};
  // The first block of the picture counts. Blocks of other pictures go with these.
  const auto known = test::Decode(
      WriteHeif({With(picture, {Box("pasp", Be(1, 4) + Be(1, 4))}), exif, xmp, picture, exif},
                {{"cdsc", 2, {1}}, {"cdsc", 3, {1}}, {"cdsc", 5, {4}}, {"thmb", 4, {1}}}),
      kCaged);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_THAT(known->header.warnings, IsEmpty());

  const Item map{.type = "tmap", .data = "x"}, text{.type = "uri ", .data = "x"},
      json{.type = "mime", .data = "{}", .content_type = "text/json"};
  const auto decoded = test::Decode(
      WriteHeif({With(picture, {Box("clli", Be(0, 4)), Box("pasp", Be(4, 4) + Be(3, 4))}), map,
                 text, json, exif, exif, xmp},
                {{"cdsc", 5, {1}}, {"cdsc", 6, {1}}}),
      kCaged);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->header.warnings,
              ElementsAre("HEIC: items are left out: tmap, uri , text/json, Exif, "
                          "application/rdf+xml",
                          "HEIC: properties of the picture are left out: clli, pasp"));

  std::string file = WriteHeif({picture});
  // A box of the same size in the place of one that is not needed.
  const size_t handler = file.find("hdlr");
  ASSERT_NE(handler, file.npos);
  file.replace(handler, 4, "bxml");
  const auto other = test::Decode(file, kCaged);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(other->header.warnings, ElementsAre("HEIC: boxes are left out: bxml"));
}

TEST(HeicTest, ColoursThatAreNotStatedCountAsSrgb) {
  Item picture = ItemOf("heic-444.heic");
  std::erase_if(picture.properties,
                [](const std::string& property) { return property.substr(4, 4) == "colr"; });
  const auto chunks = [&](int primaries, int transfer) {
    const auto decoded = test::Decode(
        WriteHeif({With(picture, {NumbersBox(primaries, transfer, 6, true)})}), kCaged);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return decoded.ok() ? decoded->metadata.colour_chunks : std::vector<ColourChunk>();
  };
  EXPECT_THAT(chunks(2, 2), IsEmpty());
  EXPECT_THAT(chunks(1, 2), IsEmpty());
  EXPECT_THAT(chunks(2, 13), IsEmpty());
  EXPECT_THAT(chunks(2, 16),
              ElementsAre(ColourChunk{.type = "cICP", .data = std::string("\1\x10\0\1", 4)}));
  EXPECT_THAT(chunks(12, 2),
              ElementsAre(ColourChunk{.type = "cICP", .data = std::string("\x0c\x0d\0\1", 4)}));
}

TEST(HeicTest, ColoursThatCannotBeConvertedAreRefusedByTheirMatrix) {
  const Item picture = ItemOf("heic-444.heic");
  const auto decoded =
      test::Decode(WriteHeif({With(picture, {NumbersBox(1, 13, 14, true)})}), kCaged);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("matrix 14"));
}

TEST(HeicTest, OtherCodersAreRefusedByName) {
  for (const char* const type : {"av01", "jpeg", "iovl"}) {
    Item item = ItemOf("heic-444.heic");
    item.type = type;
    const absl::Status status = test::Decode(WriteHeif({item}), kCaged).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("coded as \"", type)));
  }
}

TEST(HeicTest, SizesThatDisagreeAreRefused) {
  Item item = ItemOf("heic-444.heic");
  for (std::string& property : item.properties)
    if (property.substr(4, 4) == "ispe") property = SizeBox(65, 64);
  EXPECT_THAT(std::string(test::Decode(WriteHeif({item}), kCaged).status().message()),
              HasSubstr("the picture has 64 x 64 px; the file says 65 x 64"));
  std::string huge = ReadSeed("heic-444.heic");
  huge.replace(huge.find("ispe") + 8, 8, Be(65536, 4) + Be(65536, 4));
  EXPECT_EQ(ParseImageHeader(AsBytes(huge), kCaged).status().message(),
            "HEIC: the image has 4294967296 pixels (65536 x 65536); the limit is 100000000");
  // Two pictures in one item.
  item = ItemOf("heic-444.heic");
  item.data += item.data;
  EXPECT_THAT(std::string(test::Decode(WriteHeif({item}), kCaged).status().message()),
              HasSubstr("several pictures"));
}

TEST(HeicTest, CutAndDamagedFilesAreRefused) {
  std::mt19937 random = test::FreshRandom();
  for (const char* const seed : {"heic-odd.heic", "heic-422.heic"}) {
    test::ExpectPrefixesAreRefused(ReadSeed(seed), 7, kCaged);
    test::ExpectDamageIsSurvived(ReadSeed(seed), random, 100, kCaged);
  }
  test::ExpectDamageIsSurvived(WriteGrid(2, 2, {100, 90}, ItemOf("heic-422.heic"), true), random,
                               100, kCaged);
}

TEST(HeicTest, LacksAreFilledForThoseWhoWantThat) {
  Item item = ItemOf("heic-444.heic");
  item.data.replace(40, item.data.size() - 40, std::string(item.data.size() - 40, '\x55'));
  const std::string file = WriteHeif({item});
  EXPECT_EQ(test::Decode(file, kCaged).status().code(), absl::StatusCode::kInvalidArgument);
  DecodeLimits fill = kCaged;
  fill.fill_damage = true;
  const auto filled = test::Decode(file, fill);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_FALSE(filled->warnings.empty());
}

}  // namespace
}  // namespace upscaled
