// The memory promised by headers and specs, against the allocator's while codecs and row sources
// run.
#include <malloc.h>

#include <gtest/gtest.h>

#include "engine/image/alpha.h"
#include "engine/image/codec.h"
#include "engine/image/resample.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Looks at the allocator whenever bytes or rows pass by.
class Probe final : public ByteSource, public ByteSink {
 public:
  explicit Probe(std::string_view bytes = {}) : source_(bytes), start_(AllocatedBytes()) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    Look();
    return source_.Read(dst.first(std::min<size_t>(dst.size(), 1000)));
  }
  absl::Status Write(std::span<const uint8_t>) override {
    Look();
    return absl::OkStatus();
  }
  void Look() { peak_ = std::max(peak_, AllocatedBytes()); }
  size_t grown_bytes() const { return peak_ - std::min(peak_, start_); }

 private:
  MemorySource source_;
  const size_t start_;
  size_t peak_ = 0;
};

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const size_t before = AllocatedBytes();
    const std::string some(1 << 20, 'x');
    if (AllocatedBytes() < before + some.size())
      GTEST_SKIP() << "this build's allocator does not count";
  }
};

constexpr Size kImageSizes[] = {{90, 70}, {600, 450}, {200, 1500}};

void ExpectDecodesWithinBound(const char* what, const std::string& file) {
  const ImageHeader header = **ParseImageHeader(AsBytes(file), {});
  Image row({header.spec.width_px, 1, header.spec.channels, header.spec.type});
  Probe probe(file);
  const auto decoder = OpenImageDecoder(probe, {});
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  for (int y = 0; y < header.spec.height_px; ++y) {
    ASSERT_TRUE((*decoder)->ReadRows(row.mutable_view()).ok());
    probe.Look();
  }
  EXPECT_LE(probe.grown_bytes(), header.decoder_bytes) << what << " of " << header.spec;
}

TEST_F(MemoryTest, DecodersKeepToTheHeadersBound) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : kImageSizes) {
    const Image image = test::PhotoImage({size.width, size.height, 3, SampleType::kU8}, random);
    const Image alpha = test::PhotoImage({size.width, size.height, 4, SampleType::kU8}, random);
    const Image noise = test::RandomImage({size.width, size.height, 4, SampleType::kU16}, random);
    const std::string profile = test::TestProfile(false, 2'000'000);

    ExpectDecodesWithinBound("png", *test::Encode(image.view(), {}));
    ExpectDecodesWithinBound("16-bit png", *test::Encode(noise.view(), {}));
    ExpectDecodesWithinBound("png with a profile", *test::Encode(image.view(), {}, {profile}));
    test::PngFile png = test::RandomPng(size.width, size.height, 1, 0, random);
    png.transparent = {1};
    ExpectDecodesWithinBound("1-bit png", test::WritePng(png));
    png.interlaced = true;
    ExpectDecodesWithinBound("interlaced png", test::WritePng(png));

    for (const Size sampling : {Size{1, 1}, Size{2, 2}, Size{4, 2}, Size{1, 2}})
      for (const bool progressive : {false, true})
        ExpectDecodesWithinBound(
            progressive ? "progressive jpeg" : "jpeg",
            test::WriteJpeg({.progressive = progressive, .luma_sampling = sampling}, image.view()));
    ExpectDecodesWithinBound("cmyk jpeg",
                             test::WriteJpeg({.color = test::JpegColor::kYcck}, alpha.view()));
    ExpectDecodesWithinBound("turned jpeg",
                             test::WriteJpeg({.exif = test::ExifSegment(6, true)}, image.view()));
    ExpectDecodesWithinBound("jpeg with a profile",
                             test::WriteJpeg({.icc_profile = profile}, image.view()));

    for (const int quality : {50, 100})
      for (const Image* image : {&image, &alpha})
        ExpectDecodesWithinBound(
            "webp", *test::Encode(image->view(), {.format = ImageFormat::kWebp, .quality = quality},
                                  {profile}));
    for (const Image* image : {&image, &alpha, &noise})
      if (CanDecode(ImageFormat::kTiff))
        ExpectDecodesWithinBound(
            "tiff", *test::Encode(image->view(), {.format = ImageFormat::kTiff}, {profile}));
    for (const Image* image : {&image, &alpha, &noise})
      for (const int quality : {75, 100})
        if (CanEncode(ImageFormat::kJxl))
          ExpectDecodesWithinBound("jxl", *test::Encode(image->view(), {.format = ImageFormat::kJxl,
                                                                        .quality = quality}));
    for (const Image* image : {&image, &alpha, &noise})
      if (CanEncode(ImageFormat::kAvif))
        ExpectDecodesWithinBound(
            "avif", *test::Encode(image->view(), {.format = ImageFormat::kAvif}, {profile}));
  }
}

void ExpectEncodesWithinBound(const EncodeOptions& options, const ImageSpec& spec,
                              std::mt19937& random) {
  const Image image = test::RandomImage(spec, random);
  Probe probe;
  auto encoder = CreateImageEncoder(options, spec, {}, probe);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  for (int y = 0; y < spec.height_px; ++y) {
    ASSERT_TRUE((*encoder)->WriteRows(image.view().Crop({0, y, spec.width_px, 1})).ok());
    probe.Look();
  }
  ASSERT_TRUE((*encoder)->Finish().ok());
  EXPECT_LE(probe.grown_bytes(), EncoderBytes(options, spec))
      << FormatName(options.format) << spec << ", level " << options.compression << ", "
      << options.threads << " threads";
}

TEST_F(MemoryTest, EncodersKeepToTheirBound) {
  std::mt19937 random = test::FreshRandom();
  for (const Size size : kImageSizes) {
    for (const ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kWebp})
      for (const int quality : {75, 100})
        ExpectEncodesWithinBound(
            {.format = format, .quality = quality},
            OutputSpecFor(format, {size.width, size.height, 4, SampleType::kU8}), random);
    for (const SampleType type : {SampleType::kU8, SampleType::kU16})
      for (const int quality : {75, 100})
        for (const ImageFormat format : {ImageFormat::kAvif, ImageFormat::kJxl})
          if (CanEncode(format))
            ExpectEncodesWithinBound({.format = format, .quality = quality},
                                     {size.width, size.height, 4, type}, random);
    for (const SampleType type : {SampleType::kU8, SampleType::kU16})
      for (const int compression : {0, 2, 9})
        ExpectEncodesWithinBound({.format = ImageFormat::kTiff, .compression = compression},
                                 {size.width, size.height, 4, type}, random);
    for (const int compression : {0, 1, 2, 9})
      for (const int threads : {1, 3})
        for (const SampleType type : {SampleType::kU8, SampleType::kU16})
          ExpectEncodesWithinBound({.compression = compression, .threads = threads},
                                   {size.width, size.height, 4, type}, random);
  }
}

// Writes and reads an animation of noise, different in each frame, which is shown for `delay`.
void ExpectAnimationsWithinBound(const EncodeOptions& options, const ImageSpec& spec,
                                 FrameDelay delay, std::mt19937& random) {
  std::vector<Image> frames;
  for (int i = 0; i < options.animation->frames; ++i)
    frames.push_back(test::RandomImage(spec, random));
  std::string file;
  {
    StringSink sink;
    const auto encoder = CreateImageEncoder(options, spec, {}, sink);
    for (const Image& frame : frames) {
      ASSERT_TRUE((*encoder)->BeginFrame(delay).ok());
      ASSERT_TRUE((*encoder)->WriteRows(frame.view()).ok());
    }
    ASSERT_TRUE((*encoder)->Finish().ok());
    file = sink.Take();
  }
  const std::string what(FormatName(options.format));
  {
    Probe probe;
    const auto encoder = CreateImageEncoder(options, spec, {}, probe);
    for (const Image& frame : frames) {
      ASSERT_TRUE((*encoder)->BeginFrame(delay).ok());
      ASSERT_TRUE((*encoder)->WriteRows(frame.view()).ok());
      probe.Look();
    }
    ASSERT_TRUE((*encoder)->Finish().ok());
    EXPECT_LE(probe.grown_bytes(), EncoderBytes(options, spec)) << what << spec;
  }
  const DecodeLimits limits{.frame = 0};
  const ImageHeader header = **ParseImageHeader(AsBytes(file), limits);
  if (!header.animation.has_value()) return;  // AVIF's are only written
  Image image(header.spec);
  Probe probe(file);
  const auto decoder = OpenImageDecoder(probe, limits);
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  for (int i = 0; i < header.animation->frames; ++i) {
    ASSERT_TRUE((*decoder)->NextFrame().ok());
    ASSERT_TRUE((*decoder)->ReadRows(image.mutable_view()).ok());
    probe.Look();
  }
  EXPECT_LE(probe.grown_bytes(), header.decoder_bytes) << what << header.spec;
}

TEST_F(MemoryTest, AnimationsKeepToTheirBounds) {
  std::mt19937 random = test::FreshRandom();
  constexpr FrameDelay kShort = {1, 10}, kLongest = {UINT16_MAX, 1};
  for (const Size size : kImageSizes)
    for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp})
      for (const int quality : {75, 99, 100})
        for (const int channels : {3, 4})
          ExpectAnimationsWithinBound(
              {.format = format, .quality = quality, .animation = Animation{6, 0}},
              {size.width, size.height, channels, SampleType::kU8}, kShort, random);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp})  // WebP repeats frames
    ExpectAnimationsWithinBound({.format = format, .quality = 100, .animation = Animation{6, 0}},
                                {600, 450, 4, SampleType::kU8}, kLongest, random);
  if (!HoldsFrames(ImageFormat::kAvif)) return;
  for (const int quality : {75, 100})  // slow
    ExpectAnimationsWithinBound(
        {.format = ImageFormat::kAvif, .quality = quality, .animation = Animation{6, 0}},
        {300, 200, 4, SampleType::kU8}, kShort, random);
}

TEST_F(MemoryTest, RowSourcesKeepToTheirBounds) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::ArtImage({700, 500, 4, SampleType::kU8}, random);
  const auto grown = [](RowSource& rows, const Probe& started) {
    Probe probe = started;
    Image row({rows.spec().width_px, 1, rows.spec().channels, rows.spec().type});
    for (int y = 0; y < rows.spec().height_px; ++y) {
      EXPECT_TRUE(rows.ReadRows(row.mutable_view()).ok());
      probe.Look();
    }
    return probe.grown_bytes() - std::min(probe.grown_bytes(), row.bytes());
  };
  for (const Size to : {Size{1500, 1100}, Size{100, 80}, Size{700, 1}, Size{1, 2000}}) {
    test::ViewRows rows(image.view());
    const Probe probe;
    const RowStage resize = PlanResize(image.spec(), to, Filter::kLanczos3);
    EXPECT_LE(grown(*resize.make(rows), probe), resize.memory_bytes + 1024);
  }
  for (const int radius_px : {1, 20}) {
    test::ViewRows rows(image.view());
    const Probe probe;
    const RowStage bleed = PlanAlphaBleed(image.spec(), radius_px);
    EXPECT_LE(grown(*bleed.make(rows), probe), bleed.memory_bytes + 1024);
  }
}

}  // namespace
}  // namespace upscaled
