// TIFF: files of every kind from libtiff, round trips through our encoder, pages, damage.
#include <tiffio.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/as_bytes.h"
#include "engine/image/codec.h"
#include "engine/image/endian.h"
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

// A file in memory, written by libtiff.
struct TiffBytes {
  std::string bytes;
  size_t position = 0;
};

TiffBytes& BytesOfHandle(thandle_t handle) { return *static_cast<TiffBytes*>(handle); }

TIFF* CreateTiff(TiffBytes& file, const char* mode) {
  const auto read = [](thandle_t handle, void* dst, tmsize_t count) -> tmsize_t {
    TiffBytes& file = BytesOfHandle(handle);
    const size_t got = std::min<size_t>(count, file.bytes.size() - file.position);
    std::memcpy(dst, file.bytes.data() + file.position, got);
    file.position += got;
    return static_cast<tmsize_t>(got);
  };
  const auto write = [](thandle_t handle, void* src, tmsize_t count) -> tmsize_t {
    TiffBytes& file = BytesOfHandle(handle);
    file.bytes.resize(std::max(file.bytes.size(), file.position + count));
    std::memcpy(file.bytes.data() + file.position, src, count);
    file.position += count;
    return count;
  };
  const auto seek = [](thandle_t handle, toff_t offset, int from) -> toff_t {
    TiffBytes& file = BytesOfHandle(handle);
    file.position = offset + (from == SEEK_CUR   ? file.position
                              : from == SEEK_END ? file.bytes.size()
                                                 : 0);
    return file.position;
  };
  return TIFFClientOpen(
      "", mode, &file, read, write, seek, [](thandle_t) { return 0; },
      [](thandle_t handle) -> toff_t { return BytesOfHandle(handle).bytes.size(); }, nullptr,
      nullptr);
}

struct TiffKind {
  const char* mode = "w";  // "wl", "wb", "wl8", "wb8": byte order and BigTIFF
  Size size = {37, 29};
  int bits = 8;
  int samples = 3;
  uint16_t photometric = PHOTOMETRIC_RGB;
  uint16_t compression = COMPRESSION_NONE;
  bool separate = false;
  Size tile = {0, 0};  // 0: strips
  int rows_per_strip = 8;
  std::vector<uint16_t> extra_samples = {};
  std::function<void(TIFF*)> set = nullptr;  // further tags
};

// Whole numbers, one for each sample of each pixel.
using TiffSamples = std::vector<uint16_t>;

TiffSamples RandomSamples(const TiffKind& kind, std::mt19937& random) {
  TiffSamples samples(kind.size.Area() * kind.samples);
  for (uint16_t& sample : samples)
    sample = static_cast<uint16_t>(test::RandomInt(random, 0, (1 << kind.bits) - 1));
  return samples;
}

// The samples of `plane` (all when it is -1) of `rect` packed as TIFF packs them.
std::vector<uint8_t> PackCell(const TiffKind& kind, const TiffSamples& samples, Rect rect,
                              int plane) {
  std::vector<uint8_t> packed;
  const int first = plane < 0 ? 0 : plane, end = plane < 0 ? kind.samples : plane + 1;
  for (int y = rect.y; y < rect.y + rect.height; ++y) {
    uint32_t word = 0;
    int held = 0;
    for (int x = rect.x; x < rect.x + rect.width; ++x)
      for (int s = first; s < end; ++s) {
        const bool inside = x < kind.size.width && y < kind.size.height;
        const uint16_t sample =
            inside ? samples[(static_cast<size_t>(y) * kind.size.width + x) * kind.samples + s] : 0;
        if (kind.bits == 16) {
          packed.insert(packed.end(),
                        {static_cast<uint8_t>(sample), static_cast<uint8_t>(sample >> 8)});
          continue;
        }
        word = word << kind.bits | sample;
        for (held += kind.bits; held >= 8; held -= 8)
          packed.push_back(static_cast<uint8_t>(word >> (held - 8)));
      }
    if (held > 0) packed.push_back(static_cast<uint8_t>(word << (8 - held)));
  }
  return packed;
}

void WriteTiffPage(TIFF* tiff, const TiffKind& kind, const TiffSamples& samples) {
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kind.size.width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kind.size.height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, kind.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, kind.samples);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, kind.photometric);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, kind.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG,
               kind.separate ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  if (!kind.extra_samples.empty())
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, kind.extra_samples.size(), kind.extra_samples.data());
  if (kind.tile.width > 0) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, kind.tile.width);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, kind.tile.height);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, kind.rows_per_strip);
  }
  if (kind.set) kind.set(tiff);
  const Size cell = kind.tile.width > 0 ? kind.tile : Size{kind.size.width, kind.rows_per_strip};
  uint32_t index = 0;
  for (int plane = kind.separate ? 0 : -1; plane < (kind.separate ? kind.samples : 0); ++plane)
    for (int y = 0; y < kind.size.height; y += cell.height)
      for (int x = 0; x < kind.size.width; x += cell.width, ++index) {
        const int rows =
            kind.tile.width > 0 ? cell.height : std::min(cell.height, kind.size.height - y);
        std::vector<uint8_t> data = PackCell(kind, samples, {x, y, cell.width, rows}, plane);
        if (kind.tile.width > 0)
          TIFFWriteEncodedTile(tiff, index, data.data(), static_cast<tmsize_t>(data.size()));
        else
          TIFFWriteEncodedStrip(tiff, index, data.data(), static_cast<tmsize_t>(data.size()));
      }
}

std::string WriteTiff(const TiffKind& kind, const TiffSamples& samples) {
  TiffBytes file;
  TIFF* const tiff = CreateTiff(file, kind.mode);
  WriteTiffPage(tiff, kind, samples);
  TIFFClose(tiff);
  return file.bytes;
}

// Gray, or RGB, and alpha where `alpha` says so, by the plain meaning of samples.
Image ExpectedTiff(const TiffKind& kind, const TiffSamples& samples, bool alpha = false) {
  const bool gray = kind.photometric <= PHOTOMETRIC_MINISBLACK;
  const int channels = (gray ? 1 : 3) + (alpha ? 1 : 0);
  const bool wide = kind.bits > 8;
  Image image(
      {kind.size.width, kind.size.height, channels, wide ? SampleType::kU16 : SampleType::kU8});
  const double most = (1 << kind.bits) - 1, full = wide ? 65535 : 255;
  for (int y = 0; y < kind.size.height; ++y)
    for (int i = 0; i < kind.size.width * channels; ++i) {
      const int x = i / channels, c = i % channels;
      double sample = samples[(static_cast<size_t>(y) * kind.size.width + x) * kind.samples + c];
      if (kind.photometric == PHOTOMETRIC_MINISWHITE && c == 0) sample = most - sample;
      const auto value = static_cast<uint32_t>(sample * full / most + 0.5);
      if (wide)
        image.mutable_view().row_as<uint16_t>(y)[i] = static_cast<uint16_t>(value);
      else
        image.mutable_view().row(y)[i] = static_cast<uint8_t>(value);
    }
  return image;
}

void ExpectReads(const TiffKind& kind, const TiffSamples& samples, const Image& expected) {
  const auto decoded = test::Decode(WriteTiff(kind, samples));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.format, ImageFormat::kTiff);
  EXPECT_TRUE(test::SameImages(decoded->image.view(), expected.view()));
  EXPECT_THAT(decoded->warnings, IsEmpty());
  EXPECT_THAT(decoded->header.warnings, IsEmpty());
}

TEST(TiffTest, ReadsEveryLayoutDepthAndByteOrder) {
  std::mt19937 random = test::FreshRandom();
  for (const char* mode : {"wl", "wb", "wl8", "wb8"})
    for (const int bits : {1, 2, 4, 8, 10, 12, 16})
      for (const uint16_t photometric :
           {PHOTOMETRIC_MINISWHITE, PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_RGB})
        for (const bool separate : {false, true})
          for (const Size tile : {Size{0, 0}, Size{16, 32}}) {
            TiffKind kind = {.mode = mode, .bits = bits, .photometric = photometric};
            kind.samples = photometric == PHOTOMETRIC_RGB ? 3 : 1;
            kind.separate = separate;
            kind.tile = tile;
            kind.rows_per_strip = test::RandomInt(random, 1, 40);
            SCOPED_TRACE(::testing::Message()
                         << mode << " " << bits << " bits, photometric " << photometric
                         << ", separate " << separate << ", tile " << tile.width);
            const TiffSamples samples = RandomSamples(kind, random);
            ExpectReads(kind, samples, ExpectedTiff(kind, samples));
          }
}

TEST(TiffTest, ReadsEveryCompression) {
  std::mt19937 random = test::FreshRandom();
  constexpr uint16_t kAny[] = {COMPRESSION_LZW,  COMPRESSION_PACKBITS, COMPRESSION_ADOBE_DEFLATE,
                               COMPRESSION_LZMA, COMPRESSION_ZSTD,     COMPRESSION_LERC},
                     kBilevel[] = {COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
                                   COMPRESSION_CCITTFAX4};
  for (const int bits : {8, 16})
    for (const uint16_t compression : kAny) {
      if (!TIFFIsCODECConfigured(compression)) continue;
      TiffKind kind = {.bits = bits, .compression = compression};
      const bool predicts = compression != COMPRESSION_PACKBITS && compression != COMPRESSION_LERC;
      if (predicts) kind.set = [](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_PREDICTOR, 2); };
      SCOPED_TRACE(::testing::Message() << "compression " << compression << ", bits " << bits);
      const TiffSamples samples = RandomSamples(kind, random);
      ExpectReads(kind, samples, ExpectedTiff(kind, samples));
    }
  // One strip; the library would cut it.
  const TiffKind whole = {.size = {300, 200}, .rows_per_strip = 200};
  const TiffSamples samples = RandomSamples(whole, random);
  ExpectReads(whole, samples, ExpectedTiff(whole, samples));
  for (const uint16_t compression : kBilevel) {
    const TiffKind kind = {
        .bits = 1, .samples = 1, .photometric = PHOTOMETRIC_MINISWHITE, .compression = compression};
    SCOPED_TRACE(compression);
    const TiffSamples samples = RandomSamples(kind, random);
    ExpectReads(kind, samples, ExpectedTiff(kind, samples));
  }
}

TEST(TiffTest, ReadsJpegData) {
  std::mt19937 random = test::FreshRandom();
  const Image photo = test::PhotoImage({64, 48, 3, SampleType::kU8}, random);
  TiffSamples samples;
  for (int y = 0; y < 48; ++y)
    samples.insert(samples.end(), photo.view().row(y), photo.view().row(y) + 64 * 3);
  for (const uint16_t photometric : {PHOTOMETRIC_RGB, PHOTOMETRIC_YCBCR})
    for (const Size tile : {Size{0, 0}, Size{32, 32}}) {
      TiffKind kind = {.size = {64, 48},
                       .photometric = photometric,
                       .compression = COMPRESSION_JPEG,
                       .tile = tile,
                       .rows_per_strip = 16};
      kind.set = [photometric](TIFF* tiff) {
        TIFFSetField(tiff, TIFFTAG_JPEGQUALITY, 95);
        if (photometric == PHOTOMETRIC_YCBCR)
          TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      };
      const auto decoded = test::Decode(WriteTiff(kind, samples));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_LE(test::LargestDifference(decoded->image.view(), photo.view()), 40);
    }
}

// Values of its tags lie behind its directory: a file not yet whole is not refused.
TEST(TiffTest, NoBeginningOfAFileIsRefusedForValuesThatAreStillToCome) {
  std::ifstream stream(UPSCALED_CODEC_SEEDS "/tiff-jpeg-late-values.tif", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  const auto whole = ParseImageHeader(AsBytes(file), {}, /*is_whole=*/true);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (size_t length = 0; length < file.size(); ++length) {
    const auto begun = ParseImageHeader(AsBytes(file).first(length), {});
    ASSERT_TRUE(begun.ok()) << length << ": " << begun.status();
    if (!begun->has_value()) continue;
    ASSERT_EQ((*begun)->spec, (*whole)->spec) << length;
  }
}

TEST(TiffTest, ReadsPalettes) {
  std::mt19937 random = test::FreshRandom();
  constexpr int kOf16Bits = 257, kOf8Bits = 1;  // as old programs write them
  for (const auto& [bits, unit] :
       {std::pair(1, kOf16Bits), std::pair(2, kOf16Bits), std::pair(4, kOf16Bits),
        std::pair(8, kOf16Bits), std::pair(1, kOf8Bits), std::pair(8, kOf8Bits)}) {
    TiffKind kind = {.bits = bits, .samples = 1, .photometric = PHOTOMETRIC_PALETTE};
    std::vector<uint16_t> colours[3];
    for (auto& channel : colours)
      for (int i = 0; i < 1 << bits; ++i)
        channel.push_back(static_cast<uint16_t>(unit * test::RandomInt(random, 1, 255)));
    kind.set = [&colours](TIFF* tiff) {
      TIFFSetField(tiff, TIFFTAG_COLORMAP, colours[0].data(), colours[1].data(), colours[2].data());
    };
    const TiffSamples samples = RandomSamples(kind, random);
    Image expected({kind.size.width, kind.size.height, 3, SampleType::kU8});
    for (int y = 0; y < kind.size.height; ++y)
      for (int i = 0; i < 3 * kind.size.width; ++i)
        expected.mutable_view().row(y)[i] = static_cast<uint8_t>(
            colours[i % 3][samples[static_cast<size_t>(y) * kind.size.width + i / 3]] / unit);
    ExpectReads(kind, samples, expected);
  }
}

TEST(TiffTest, ReadsAlphaOfBothKinds) {
  std::mt19937 random = test::FreshRandom();
  for (const int bits : {8, 16})
    for (const int colours : {1, 3})
      for (const bool separate : {false, true}) {
        TiffKind kind = {.bits = bits, .samples = colours + 1, .separate = separate};
        kind.photometric = colours == 1 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB;
        kind.extra_samples = {EXTRASAMPLE_UNASSALPHA};
        TiffSamples samples = RandomSamples(kind, random);
        for (size_t i = colours; i < samples.size(); i += 8 * (colours + 1)) samples[i] = 0;
        const Image plain = ExpectedTiff(kind, samples, /*alpha=*/true);
        ExpectReads(kind, samples, plain);

        // Multiplied by alpha and divided again: as near as the rounding of both allows.
        kind.extra_samples = {EXTRASAMPLE_ASSOCALPHA};
        const int most = (1 << bits) - 1;
        for (size_t i = 0; i < samples.size(); i += colours + 1) {
          const int alpha = samples[i + colours] = static_cast<uint16_t>(
              test::RandomInt(random, 0, 3) == 0 ? 0 : test::RandomInt(random, most / 2, most));
          for (int c = 0; c < colours; ++c)
            samples[i + c] =
                static_cast<uint16_t>((int64_t{samples[i + c]} * alpha + most / 2) / most);
        }
        const auto decoded = test::Decode(WriteTiff(kind, samples));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        const auto value = [&](ImageView view, int y, int i) {
          return bits == 8 ? view.row(y)[i] : view.row_as<uint16_t>(y)[i];
        };
        for (int y = 0; y < kind.size.height; ++y)
          for (int x = 0; x < kind.size.width; ++x) {
            const int at = x * (colours + 1);
            const int alpha = value(decoded->image.view(), y, at + colours);
            ASSERT_EQ(
                alpha,
                samples[static_cast<size_t>(y) * kind.size.width * (colours + 1) + at + colours]);
            for (int c = 0; c < colours; ++c) {
              const int actual = value(decoded->image.view(), y, at + c);
              if (alpha == 0) {
                ASSERT_EQ(actual, 0);
              } else {
                ASSERT_NEAR(actual, value(plain.view(), y, at + c), 2) << x << " " << y;
              }
            }
          }
      }
}

TEST(TiffTest, ExtraSamplesThatAreNoAlphaAreLeftOutWithAWarning) {
  std::mt19937 random = test::FreshRandom();
  TiffKind kind = {.samples = 5,
                   .extra_samples = {EXTRASAMPLE_UNSPECIFIED, EXTRASAMPLE_UNASSALPHA}};
  auto decoded = test::Decode(WriteTiff(kind, RandomSamples(kind, random)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.spec.channels, 4);
  EXPECT_THAT(
      decoded->header.warnings,
      ElementsAre("TIFF: 1 of 5 samples a pixel are neither colour nor alpha and left out"));
  kind.extra_samples = {EXTRASAMPLE_UNSPECIFIED, EXTRASAMPLE_UNSPECIFIED};
  decoded = test::Decode(WriteTiff(kind, RandomSamples(kind, random)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.spec.channels, 3);
}

TEST(TiffTest, TurnsCmykIntoSrgb) {
  std::mt19937 random = test::FreshRandom();
  for (const int bits : {8, 16}) {
    const TiffKind kind = {.bits = bits, .samples = 4, .photometric = PHOTOMETRIC_SEPARATED};
    const TiffSamples samples = RandomSamples(kind, random);
    const double most = (1 << bits) - 1;
    const auto decoded = test::Decode(WriteTiff(kind, samples));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->header.spec.channels, 3);
    EXPECT_THAT(decoded->header.warnings,
                ElementsAre("TIFF: its CMYK colours are turned into sRGB without a profile, as "
                            "browsers do"));
    TiffKind odd = kind;
    odd.set = [profile = test::SrgbProfile()](TIFF* tiff) {
      TIFFSetField(tiff, TIFFTAG_ICCPROFILE, static_cast<uint32_t>(profile.size()), profile.data());
    };
    const auto of_profile = test::Decode(WriteTiff(odd, samples));
    ASSERT_TRUE(of_profile.ok()) << of_profile.status();
    EXPECT_THAT(of_profile->header.warnings,
                ElementsAre("TIFF: its CMYK colours are turned into sRGB as browsers do, without "
                            "its profile, which describes no CMYK"));
    EXPECT_THAT(of_profile->warnings, IsEmpty());
    EXPECT_TRUE(test::SameImages(of_profile->image.view(), decoded->image.view()));
    for (int y = 0; y < kind.size.height; ++y)
      for (int i = 0; i < 3 * kind.size.width; ++i) {
        const uint16_t* const inks =
            &samples[4 * (static_cast<size_t>(y) * kind.size.width + i / 3)];
        const double expected = (most - inks[i % 3]) * (most - inks[3]) / most;
        const int actual = bits == 8 ? decoded->image.view().row(y)[i]
                                     : decoded->image.view().row_as<uint16_t>(y)[i];
        ASSERT_NEAR(actual, expected, 0.51);
      }
  }
}

TEST(TiffTest, ProfilesOfCmykAreToldOnceAndTruly) {
  std::mt19937 random = test::FreshRandom();
  const std::string whole = test::CmykProfile();
  std::string no_table = whole;
  for (const char* const tag : {"A2B0", "A2B1", "A2B2"})
    if (const size_t at = no_table.find(tag); at != no_table.npos) no_table.replace(at, 4, "xxxx");
  const std::string sentence = "TIFF: its CMYK colours are turned into sRGB ",
                    other =
                        sentence + "as browsers do, without its profile, which describes no CMYK",
                    by_it = sentence + "by its profile if that can be applied, else as browsers do";
  struct Case {
    std::string profile, header;
    bool is_broken;
  };
  const Case cases[] = {{whole, by_it, false},
                        {no_table, by_it, true},
                        {whole.substr(0, 60), by_it, true},
                        {test::SrgbProfile(), other, false},
                        {test::TestProfile(true, 200), other, false},
                        {"no profile", other, false}};
  for (const Case& c : cases)
    for (const int bits : {8, 16}) {
      SCOPED_TRACE(::testing::Message() << c.profile.size() << ' ' << bits);
      TiffKind kind = {.bits = bits, .samples = 4, .photometric = PHOTOMETRIC_SEPARATED};
      kind.set = [&c](TIFF* tiff) {
        TIFFSetField(tiff, TIFFTAG_ICCPROFILE, static_cast<uint32_t>(c.profile.size()),
                     c.profile.data());
      };
      const auto decoded = test::Decode(WriteTiff(kind, RandomSamples(kind, random)));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_THAT(decoded->header.warnings, ElementsAre(c.header));
      EXPECT_EQ(decoded->warnings.size(), c.is_broken ? 1u : 0u);
      if (c.is_broken) {
        EXPECT_EQ(decoded->warnings[0],
                  "TIFF: the colour profile of CMYK cannot be applied and is left out");
      }
      EXPECT_EQ(decoded->metadata.icc_profile, "");
    }
}

TEST(TiffTest, TurnsImagesUpright) {
  std::mt19937 random = test::FreshRandom();
  for (int orientation = 1; orientation <= 8; ++orientation) {
    TiffKind kind = {.size = {13, 7}};
    kind.set = [orientation](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_ORIENTATION, orientation); };
    const TiffSamples samples = RandomSamples(kind, random);
    ExpectReads(kind, samples, test::TurnUpright(ExpectedTiff(kind, samples).view(), orientation));
  }
}

TEST(TiffTest, PagesBehindTheFirstAreCounted) {
  std::mt19937 random = test::FreshRandom();
  const TiffKind kind = {.compression = COMPRESSION_LZW};
  const TiffSamples first = RandomSamples(kind, random);
  TiffBytes file;
  TIFF* const tiff = CreateTiff(file, "w");
  for (int page = 0; page < 5; ++page) {
    // A thumbnail is no page.
    if (page == 3) TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, FILETYPE_REDUCEDIMAGE);
    WriteTiffPage(tiff, kind, page == 0 ? first : RandomSamples(kind, random));
    TIFFWriteDirectory(tiff);
  }
  TIFFClose(tiff);
  for (const size_t piece : {size_t{1}, size_t{4096}}) {
    test::SlowSource source(file.bytes, piece);
    const auto decoder = OpenImageDecoder(source, {});
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    const auto image = test::ReadAllInPortions(**decoder, random);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_TRUE(test::SameImages(image->view(), ExpectedTiff(kind, first).view()));
    EXPECT_THAT(
        (*decoder)->warnings(),
        ElementsAre("TIFF: it has 4 pages: the first is computed, the others are left out"));
  }
}

TEST(TiffTest, ResolutionsAreTurnedWithTheImage) {
  std::mt19937 random = test::FreshRandom();
  for (const char* const mode : {"wl", "wb", "wl8"})
    for (int orientation = 1; orientation <= 8; ++orientation) {
      TiffKind kind = {.mode = mode, .size = {13, 7}};
      kind.set = [orientation](TIFF* tiff) {
        TIFFSetField(tiff, TIFFTAG_ORIENTATION, orientation);
        TIFFSetField(tiff, TIFFTAG_XRESOLUTION, 300.0);
        TIFFSetField(tiff, TIFFTAG_YRESOLUTION, 150.0);
        TIFFSetField(tiff, TIFFTAG_MAKE, "Maker");
      };
      const auto decoded = test::Decode(WriteTiff(kind, RandomSamples(kind, random)));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      const bool swaps = orientation >= 5;
      EXPECT_EQ(decoded->metadata.density->x, swaps ? 150u : 300u);
      const test::ExifResolutions found = test::ResolutionsIn(decoded->metadata.exif);
      EXPECT_EQ(double{1} * found.x[0] / found.x[1], swaps ? 150 : 300) << mode << orientation;
      EXPECT_EQ(double{1} * found.y[0] / found.y[1], swaps ? 300 : 150) << mode << orientation;
    }
}

TEST(TiffTest, BytesBehindTheImageAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const auto warnings = [&](const std::string& bytes, size_t piece) {
    test::SlowSource source(bytes, piece);
    const auto decoder = OpenImageDecoder(source, {});
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    const auto image = test::ReadAllInPortions(**decoder, random);
    EXPECT_TRUE(image.ok()) << image.status();
    return (*decoder)->warnings();
  };
  for (const char* const mode : {"wl", "wb", "wl8", "wb8"})
    for (const bool tiled : {false, true})
      for (const uint16_t compression : {COMPRESSION_NONE, COMPRESSION_LZW}) {
        TiffKind kind = {.mode = mode, .compression = compression};
        if (tiled) kind.tile = {16, 16};
        kind.set = [](TIFF* tiff) {
          TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, "a description");
          TIFFSetField(tiff, TIFFTAG_XRESOLUTION, 72.5);
        };
        const std::string bytes = WriteTiff(kind, RandomSamples(kind, random));
        for (const size_t piece : {size_t{5}, size_t{1} << 20}) {
          SCOPED_TRACE(::testing::Message() << mode << tiled << compression << ' ' << piece);
          for (const size_t padding : {0, 1, 3})
            EXPECT_THAT(warnings(bytes + std::string(padding, '\0'), piece), IsEmpty());
          EXPECT_THAT(warnings(bytes + "x", piece),
                      ElementsAre(HasSubstr("behind the TIFF's end 1 byte was left out")));
          EXPECT_THAT(warnings(bytes + test::PngOf(4, 4) + std::string(50'000, 'x'), piece),
                      ElementsAre(HasSubstr("bytes were left out (PNG begins there)")));
        }
      }
}

TEST(TiffTest, KeepsAllSamplesOfEveryResult) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : {Size{1, 1}, Size{17, 1}, Size{3, 33}, Size{667, 245}})
    for (int channels = 1; channels <= 4; ++channels)
      for (const SampleType type : {SampleType::kU8, SampleType::kU16})
        for (const int compression : {0, 2, 9}) {
          const ImageSpec spec = {size.width, size.height, channels, type};
          SCOPED_TRACE(::testing::Message() << spec << ", level " << compression);
          const Image image = test::RandomImage(spec, random);
          const auto bytes = test::Encode(
              image.view(), {.format = ImageFormat::kTiff, .compression = compression});
          ASSERT_TRUE(bytes.ok()) << bytes.status();
          const auto decoded = test::Decode(*bytes);
          ASSERT_TRUE(decoded.ok()) << decoded.status();
          ASSERT_EQ(decoded->header.spec, spec);
          EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
          EXPECT_THAT(decoded->warnings, IsEmpty());
          EXPECT_EQ(decoded->metadata, ImageMetadata{});
        }
}

TEST(TiffTest, CarriesMetadata) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU16}, random);
  const std::string exif = test::ExifSegment(1, true).substr(6);
  const ImageMetadata metadata = {.icc_profile = test::TestProfile(false, 3144),
                                  .exif = exif,
                                  .xmp = "<x:xmpmeta xmlns:x='adobe:ns:meta/'/>",
                                  .iptc = std::string("\x1c\2\x78\0\1c", 6),
                                  .density = PixelDensity{PixelDensity::Unit::kInch, 300, 200},
                                  .texts = {{.keyword = "Copyright", .text = "mine"}}};
  const auto bytes = test::Encode(image.view(), {.format = ImageFormat::kTiff}, metadata);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto decoded = test::Decode(*bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata.icc_profile, metadata.icc_profile);
  EXPECT_EQ(decoded->metadata.xmp, metadata.xmp);
  EXPECT_EQ(decoded->metadata.iptc, metadata.iptc);
  EXPECT_EQ(decoded->metadata.density, metadata.density);
  EXPECT_THAT(decoded->metadata.exif, HasSubstr("mine"));
  EXPECT_THAT(decoded->warnings, IsEmpty());
  // A second trip changes nothing.
  const auto again =
      test::Encode(decoded->image.view(), {.format = ImageFormat::kTiff}, decoded->metadata);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(test::Decode(*again)->metadata, decoded->metadata);
}

TEST(TiffTest, FractionsOfResolutionAndTagsOfOthersAreNotLostInSilence) {
  std::mt19937 random = test::FreshRandom();
  TiffKind kind;
  kind.set = [](TIFF* tiff) {
    TIFFSetField(tiff, TIFFTAG_XRESOLUTION, 72.5);
    TIFFSetField(tiff, TIFFTAG_YRESOLUTION, 72.5);
    TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_INCH);
    TIFFSetField(tiff, TIFFTAG_TARGETPRINTER, "a press");
  };
  const auto decoded = test::Decode(WriteTiff(kind, RandomSamples(kind, random)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata.density, (PixelDensity{PixelDensity::Unit::kMetre, 2854, 2854}));
  EXPECT_THAT(decoded->warnings,
              ElementsAre("TIFF: 1 tags that describe no picture are left out: 337"));
}

// Numbers of a chunk, each as a whole number.
std::vector<uint32_t> ChunkNumbers(const ImageMetadata& metadata, std::string_view type) {
  std::vector<uint32_t> numbers;
  const auto chunk = std::ranges::find(metadata.colour_chunks, type, &ColourChunk::type);
  if (chunk == metadata.colour_chunks.end()) return numbers;
  for (size_t i = 0; i + 4 <= chunk->data.size(); i += 4)
    numbers.push_back(LoadBe32(AsBytes(chunk->data).data() + i));
  return numbers;
}

// A table from samples of `bits` to 16 bits of light.
std::vector<uint16_t> TransferTableOf(int bits, const std::function<double(double)>& light) {
  std::vector<uint16_t> table(size_t{1} << bits);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<uint16_t>(
        std::lround(65535 * light(static_cast<double>(i) / static_cast<double>(table.size() - 1))));
  return table;
}

double PowerOf18(double sample) { return std::pow(sample, 1.8); }

TEST(TiffTest, PrimariesAndTransferBecomeColourChunks) {
  std::mt19937 random = test::FreshRandom();
  for (const char* const mode : {"wl", "wb", "wl8", "wb8"})
    for (const int bits : {4, 8, 16})
      for (const bool is_gray : {false, true}) {
        SCOPED_TRACE(::testing::Message() << mode << ", " << bits << " bits, gray " << is_gray);
        TiffKind kind{.mode = mode, .bits = bits};
        if (is_gray) kind.samples = 1, kind.photometric = PHOTOMETRIC_MINISBLACK;
        const std::vector<uint16_t> table = TransferTableOf(bits, PowerOf18);
        kind.set = [&table](TIFF* tiff) {
          const float white[] = {0.3457F, 0.3585F};
          const float primaries[] = {0.64F, 0.33F, 0.21F, 0.71F, 0.15F, 0.06F};
          TIFFSetField(tiff, TIFFTAG_WHITEPOINT, white);
          TIFFSetField(tiff, TIFFTAG_PRIMARYCHROMATICITIES, primaries);
          TIFFSetField(tiff, TIFFTAG_TRANSFERFUNCTION, table.data(), table.data(), table.data());
        };
        const auto decoded = test::Decode(WriteTiff(kind, RandomSamples(kind, random)));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_THAT(decoded->warnings, IsEmpty());
        EXPECT_THAT(ChunkNumbers(decoded->metadata, "cHRM"),
                    ElementsAre(34570, 35850, 64000, 33000, 21000, 71000, 15000, 6000));
        const std::vector<uint32_t> gamma = ChunkNumbers(decoded->metadata, "gAMA");
        ASSERT_EQ(gamma.size(), 1u);
        EXPECT_NEAR(gamma[0], 100'000 / 1.8, 100);
      }
}

TEST(TiffTest, OtherColoursByTagsAreNamed) {
  std::mt19937 random = test::FreshRandom();
  const auto srgb = TransferTableOf(
      8, [](double v) { return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); });
  const auto power = TransferTableOf(8, PowerOf18);
  const auto film = TransferTableOf(8, [](double v) { return v * v * (3 - 2 * v); });
  static constexpr float kWhite[] = {0.3127F, 0.3290F};
  static constexpr float kPrimaries[] = {0.64F, 0.33F, 0.21F, 0.71F, 0.15F, 0.06F};
  static constexpr float kNoPrimaries[] = {0.64F, 0.33F, 0.21F, 0.71F, 0.15F, 0};
  static constexpr float kOnePoint[] = {0.3F, 0.3F, 0.3F, 0.3F, 0.3F, 0.3F};
  static constexpr float kLine[] = {0.1F, 0.2F, 0.2F, 0.3F, 0.4F, 0.5F};
  struct Case {
    std::function<void(TIFF*)> set;
    std::string left_out;  // "": nothing
  };
  const auto set_transfer = [](const auto& red, const auto& green) {
    return [&](TIFF* tiff) {
      TIFFSetField(tiff, TIFFTAG_TRANSFERFUNCTION, red.data(), green.data(), red.data());
    };
  };
  const Case cases[] = {
      {[](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_WHITEPOINT, kWhite); }, "WhitePoint"},
      {[](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_PRIMARYCHROMATICITIES, kPrimaries); },
       "PrimaryChromaticities"},
      {[](TIFF* tiff) {
         TIFFSetField(tiff, TIFFTAG_WHITEPOINT, kWhite);
         TIFFSetField(tiff, TIFFTAG_PRIMARYCHROMATICITIES, kNoPrimaries);
       },
       "WhitePoint, PrimaryChromaticities"},
      {[](TIFF* tiff) {
         TIFFSetField(tiff, TIFFTAG_WHITEPOINT, kWhite);
         TIFFSetField(tiff, TIFFTAG_PRIMARYCHROMATICITIES, kOnePoint);
       },
       "WhitePoint, PrimaryChromaticities"},
      {[](TIFF* tiff) {
         TIFFSetField(tiff, TIFFTAG_WHITEPOINT, kWhite);
         TIFFSetField(tiff, TIFFTAG_PRIMARYCHROMATICITIES, kLine);
       },
       "WhitePoint, PrimaryChromaticities"},
      {set_transfer(srgb, srgb), ""},
      {set_transfer(film, film), "TransferFunction"},
      {set_transfer(power, srgb), "TransferFunction"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.left_out);
    const TiffKind kind{.set = c.set};
    const auto decoded = test::Decode(WriteTiff(kind, RandomSamples(kind, random)));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_THAT(decoded->metadata.colour_chunks, IsEmpty());
    if (c.left_out.empty()) {
      EXPECT_THAT(decoded->warnings, IsEmpty());
    } else {
      EXPECT_THAT(decoded->warnings,
                  ElementsAre(HasSubstr("TIFF: colours by " + c.left_out + " are left out")));
    }
  }
}

// Entries of EXIF that share their bytes: the result has no more of them than the block.
TEST(TiffTest, SharedValuesOfExifDoNotMultiply) {
  constexpr int kEntries = 1000, kValueBytes = 50'000;
  std::string exif("II\x2a\0\x08\0\0\0", 8);
  const auto append = [&exif](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) exif.push_back(static_cast<char>(value >> 8 * i));
  };
  append(kEntries, 2);
  const uint32_t values = 8 + 2 + 12 * kEntries + 4;
  for (int i = 0; i < kEntries; ++i) {
    append(0xC000 + i, 2);
    append(7, 2);  // bytes
    append(kValueBytes, 4);
    append(values, 4);
  }
  append(0, 4);
  exif.append(kValueBytes, 'x');
  const Image image({8, 8, 3, SampleType::kU8});
  const auto bytes = test::Encode(image.view(), {.format = ImageFormat::kTiff}, {.exif = exif});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_LT(bytes->size(), 3 * exif.size());
}

TEST(TiffTest, RefusesByNameWhatItDoesNotRead) {
  std::mt19937 random = test::FreshRandom();
  const auto message = [&](TiffKind kind) {
    return std::string(
        test::Decode(WriteTiff(kind, RandomSamples(kind, random))).status().message());
  };
  const auto with = [](uint32_t tag, int value) {
    return [tag, value](TIFF* tiff) { TIFFSetField(tiff, tag, value); };
  };
  EXPECT_THAT(message({.bits = 16, .set = with(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_IEEEFP)}),
              HasSubstr("floating-point samples"));
  EXPECT_THAT(message({.bits = 16, .set = with(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_INT)}),
              HasSubstr("signed samples"));
  EXPECT_THAT(message({.bits = 1,
                       .samples = 1,
                       .photometric = PHOTOMETRIC_MINISWHITE,
                       .compression = COMPRESSION_CCITTRLEW}),
              HasSubstr("compression 32771 (CCITT in words) is not read"));
  EXPECT_THAT(message({.photometric = PHOTOMETRIC_CIELAB}), HasSubstr("(Lab)"));
  EXPECT_THAT(message({.photometric = PHOTOMETRIC_YCBCR}), HasSubstr("YCbCr without JPEG"));
  EXPECT_THAT(message({.samples = 4,
                       .photometric = PHOTOMETRIC_SEPARATED,
                       .set = with(TIFFTAG_INKSET, INKSET_MULTIINK)}),
              HasSubstr("inks other than CMYK"));
}

TEST(TiffTest, CutAndDamagedFilesAreRefusedOrFilled) {
  std::mt19937 random = test::FreshRandom();
  for (const char* mode : {"wl", "wb8"}) {
    const TiffKind kind = {.mode = mode, .compression = COMPRESSION_LZW};
    const std::string bytes = WriteTiff(kind, RandomSamples(kind, random));
    test::ExpectPrefixesAreRefused(bytes, 11);
    test::ExpectDamageIsSurvived(bytes, random, 200);
  }
  // The same photograph each time: libtiff compares no checksum, and tells only of broken codes.
  std::mt19937 fixed(1);
  const Image image = test::PhotoImage({300, 400, 3, SampleType::kU8}, fixed);
  std::string bytes = *test::Encode(image.view(), {.format = ImageFormat::kTiff});
  std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(bytes.size() * 3 / 4), 100, '\xff');
  EXPECT_EQ(test::Decode(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  const auto filled = test::Decode(bytes, {.fill_damage = true});
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_THAT(filled->warnings.back(), HasSubstr("rows are missing and gray"));
  EXPECT_EQ(filled->image.view().row(0)[0], image.view().row(0)[0]);
}

TEST(TiffTest, HugeAndFarOnesAreRefusedByTheirHeader) {
  std::mt19937 random = test::FreshRandom();
  TiffKind kind = {.mode = "wl"};
  std::string far = WriteTiff(kind, RandomSamples(kind, random)).substr(0, 4096);
  far.replace(4, 4, std::string("\0\0\0\x7f", 4));
  EXPECT_THAT(std::string(ParseImageHeader(AsBytes(far), {}).status().message()),
              HasSubstr("the limit is 268435456, 64 times that on metadata"));
  // One tile far larger than the image.
  kind.tile = {4096, 2048};
  kind.compression = COMPRESSION_LZW;
  EXPECT_THAT(
      std::string(test::Decode(WriteTiff(kind, RandomSamples(kind, random))).status().message()),
      HasSubstr("a tile has 8388608 pixels; the limit is 4194304"));
}

}  // namespace
}  // namespace upscaled
