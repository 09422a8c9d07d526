// The promises of every format: encode, decode, and the contracts of both.
#include "engine/image/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::HasSubstr;

constexpr ImageFormat kFormats[] = {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp};
constexpr SampleType kTypes[] = {SampleType::kU8, SampleType::kU16, SampleType::kF32};

struct Case {
  ImageFormat format;
  ImageSpec spec;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << FormatName(c.format) << " of " << c.spec;
}

// Everything some format can hold, in odd sizes.
std::vector<Case> EncodableCases() {
  constexpr Size kSizes[] = {{1, 1}, {1, 17}, {33, 1}, {8, 8}, {67, 45}};
  std::vector<Case> cases;
  for (ImageFormat format : kFormats)
    for (SampleType type : kTypes)
      for (int channels = 1; channels <= 4; ++channels)
        for (Size size : kSizes) {
          const ImageSpec spec = {size.width, size.height, channels, type};
          if (CheckEncodable(format, spec).ok()) cases.push_back({format, spec});
        }
  return cases;
}

TEST(CodecTest, RoundTripsWhatEachFormatHolds) {
  std::mt19937 random = test::FreshRandom();
  const std::vector<Case> cases = EncodableCases();
  EXPECT_EQ(cases.size(), 5u * (8 + 2 + 2));  // PNG: 4 x 2, JPEG: gray and RGB, WebP: RGB and RGBA
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << c);
    const bool lossy = c.format == ImageFormat::kJpeg;
    const Image image =
        lossy ? test::PhotoImage(c.spec, random) : test::RandomImage(c.spec, random);
    const auto bytes = test::Encode(image.view(), {.format = c.format, .quality = 100});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto decoded = test::Decode(*bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->header.format, c.format);
    EXPECT_EQ(decoded->header.spec, c.spec);
    EXPECT_TRUE(decoded->metadata.icc_profile.empty());
    if (lossy)
      EXPECT_LE(test::LargestDifference(decoded->image.view(), image.view()), 4);
    else
      EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
  }
}

TEST(CodecTest, BytesDoNotDependOnHowRowsAreWritten) {
  std::mt19937 random = test::FreshRandom();
  for (const Case& c : EncodableCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    const Image image = test::PhotoImage(c.spec, random);
    const EncodeOptions options = {.format = c.format, .quality = 80};
    const auto at_once = test::Encode(image.view(), options);
    ASSERT_TRUE(at_once.ok());

    StringSink sink;
    auto encoder = CreateImageEncoder(options, c.spec, {}, sink);
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    for (int y = 0; y < c.spec.height_px;) {
      const int count = test::RandomInt(random, 0, std::min(5, c.spec.height_px - y));
      ASSERT_TRUE((*encoder)->WriteRows(image.view().Crop({0, y, c.spec.width_px, count})).ok());
      y += count;
    }
    ASSERT_TRUE((*encoder)->Finish().ok());
    EXPECT_EQ(sink.bytes(), *at_once);
  }
}

TEST(CodecTest, PixelsDoNotDependOnHowBytesAndRowsAreRead) {
  std::mt19937 random = test::FreshRandom();
  for (const Case& c : EncodableCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    const Image image = test::PhotoImage(c.spec, random);
    const auto bytes = test::Encode(image.view(), {.format = c.format, .quality = 90});
    ASSERT_TRUE(bytes.ok());
    const auto expected = test::Decode(*bytes);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (size_t piece_bytes : {1, 3, 1000}) {
      test::SlowSource source(*bytes, piece_bytes);
      const auto decoder = OpenImageDecoder(source, {});
      ASSERT_TRUE(decoder.ok()) << decoder.status();
      const auto rows = test::ReadAllInPortions(**decoder, random);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_TRUE(test::SameImages(rows->view(), expected->image.view()));
    }
  }
}

TEST(CodecTest, KeepsTheColourProfileByteForByte) {
  std::mt19937 random = test::FreshRandom();
  for (ImageFormat format : kFormats)
    for (int channels : {1, 3}) {
      const ImageSpec spec = OutputSpecFor(format, {20, 10, channels, SampleType::kU8});
      for (size_t profile_bytes : {1000, 3144, 200000}) {  // the last spans JPEG segments
        const Case traced = {format, spec};
        SCOPED_TRACE(::testing::Message() << traced << ", a profile of " << profile_bytes);
        const ImageMetadata metadata = {test::TestProfile(spec.channels == 1, profile_bytes)};
        const Image image = test::RandomImage(spec, random);
        const auto bytes = test::Encode(image.view(), {.format = format, .quality = 100}, metadata);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        const auto decoded = test::Decode(*bytes);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_TRUE(decoded->metadata.icc_profile == metadata.icc_profile);
      }
    }
}

TEST(CodecTest, QualityTradesSizeForError) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({128, 96, 3, SampleType::kU8}, random);
  for (ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kWebp}) {
    const auto low = test::Encode(image.view(), {.format = format, .quality = 20});
    const auto high = test::Encode(image.view(), {.format = format, .quality = 95});
    ASSERT_TRUE(low.ok() && high.ok());
    EXPECT_LT(low->size(), high->size());
  }
}

TEST(CodecTest, RefusesWhatAFormatCannotHold) {
  const auto message = [](ImageFormat format, ImageSpec spec) {
    const absl::Status status = CheckEncodable(format, spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    StringSink sink;
    EXPECT_EQ(CreateImageEncoder({.format = format}, spec, {}, sink).status(), status);
    return std::string(status.message());
  };
  EXPECT_THAT(message(ImageFormat::kJpeg, {65501, 1, 3, SampleType::kU8}),
              HasSubstr("jpeg holds at most 65500 px a side, not 65501 x 1"));
  EXPECT_THAT(message(ImageFormat::kWebp, {4, 16384, 3, SampleType::kU8}),
              HasSubstr("webp holds at most 16383 px a side, not 4 x 16384"));
  EXPECT_THAT(message(ImageFormat::kJpeg, {4, 4, 4, SampleType::kU8}), HasSubstr("no alpha"));
  EXPECT_THAT(message(ImageFormat::kJpeg, {4, 4, 3, SampleType::kU16}),
              HasSubstr("at most 8 bits a sample, not 16"));
  EXPECT_THAT(message(ImageFormat::kWebp, {4, 4, 1, SampleType::kU8}), HasSubstr("no gray"));
  EXPECT_THAT(message(ImageFormat::kPng, {4, 4, 1, SampleType::kF32}),
              HasSubstr("at most 16 bits a sample, not 32"));
  EXPECT_THAT(message(ImageFormat::kPng, {0, 4, 1, SampleType::kU8}), HasSubstr("0 x 4"));
}

TEST(CodecTest, OutputSpecIsTheNearestThatFits) {
  for (ImageFormat format : kFormats)
    for (SampleType type : kTypes)
      for (int channels = 1; channels <= 4; ++channels) {
        const ImageSpec spec = {5, 6, channels, type};
        const ImageSpec result = OutputSpecFor(format, spec);
        EXPECT_TRUE(CheckEncodable(format, result).ok()) << CheckEncodable(format, result);
        if (CheckEncodable(format, spec).ok()) {
          EXPECT_EQ(result, spec);
        }
      }
  EXPECT_EQ(OutputSpecFor(ImageFormat::kJpeg, {5, 6, 2, SampleType::kU16}),
            (ImageSpec{5, 6, 1, SampleType::kU8}));
  EXPECT_EQ(OutputSpecFor(ImageFormat::kWebp, {5, 6, 2, SampleType::kU8}),
            (ImageSpec{5, 6, 4, SampleType::kU8}));
}

TEST(CodecTest, RefusesNonsenseOptions) {
  StringSink sink;
  const ImageSpec spec = {4, 4, 3, SampleType::kU8};
  EXPECT_THAT(std::string(CreateImageEncoder({.quality = 0}, spec, {}, sink).status().message()),
              HasSubstr("quality is 0; it must be 1..100"));
  EXPECT_THAT(
      std::string(CreateImageEncoder({.compression = 10}, spec, {}, sink).status().message()),
      HasSubstr("compression is 10; it must be 0..9"));
}

TEST(CodecTest, RefusesWrongRowsAndEarlyFinish) {
  std::mt19937 random = test::FreshRandom();
  const ImageSpec spec = {9, 7, 3, SampleType::kU8};
  const Image image = test::RandomImage(spec, random);
  for (ImageFormat format : kFormats) {
    StringSink sink;
    auto encoder = CreateImageEncoder({.format = format}, spec, {}, sink);
    ASSERT_TRUE(encoder.ok());
    EXPECT_EQ((*encoder)->WriteRows(image.view().Crop({0, 0, 8, 7})).code(),
              absl::StatusCode::kInternal);
    ASSERT_TRUE((*encoder)->WriteRows(image.view().Crop({0, 0, 9, 4})).ok());
    EXPECT_EQ((*encoder)->WriteRows(image.view()).code(), absl::StatusCode::kInternal);
    const absl::Status early = (*encoder)->Finish();
    EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(early.message(), "4 of 7 rows were written");

    const auto bytes = test::Encode(image.view(), {.format = format});
    MemorySource source(*bytes);
    const auto decoder = OpenImageDecoder(source, {});
    Image wrong({8, 1, 3, SampleType::kU8}), tall({9, 8, 3, SampleType::kU8});
    EXPECT_EQ((*decoder)->ReadRows(wrong.mutable_view()).code(), absl::StatusCode::kInternal);
    EXPECT_EQ((*decoder)->ReadRows(tall.mutable_view()).code(), absl::StatusCode::kInternal);
  }
}

// Fails once `good_bytes` have passed.
class FailingPipe final : public ByteSource, public ByteSink {
 public:
  FailingPipe(std::string_view bytes, size_t good_bytes)
      : source_(bytes.substr(0, good_bytes)), room_(good_bytes) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    auto count = source_.Read(dst);
    if (*count == 0) return absl::CancelledError("the caller left");
    return count;
  }
  absl::Status Write(std::span<const uint8_t> bytes) override {
    if (bytes.size() > room_) return absl::CancelledError("the caller left");
    room_ -= bytes.size();
    return absl::OkStatus();
  }

 private:
  MemorySource source_;
  size_t room_;
};

TEST(CodecTest, ErrorsOfSourceAndSinkPassThrough) {
  std::mt19937 random = test::FreshRandom();
  const ImageSpec spec = {100, 80, 3, SampleType::kU8};
  const Image image = test::RandomImage(spec, random);
  for (ImageFormat format : kFormats) {
    const auto bytes = test::Encode(image.view(), {.format = format});
    ASSERT_TRUE(bytes.ok());
    for (size_t good : {size_t{0}, size_t{2}, size_t{30}, bytes->size() / 2, bytes->size() - 1}) {
      FailingPipe pipe(*bytes, good);
      absl::Status status;
      if (auto decoder = OpenImageDecoder(pipe, {}); decoder.ok())
        status = test::ReadAll(**decoder).status();
      else
        status = decoder.status();
      EXPECT_EQ(status, absl::CancelledError("the caller left")) << FormatName(format) << good;

      FailingPipe sink("", good);
      auto encoder = CreateImageEncoder({.format = format}, spec, {}, sink);
      status = encoder.status();
      if (status.ok()) status = (*encoder)->WriteRows(image.view());
      if (status.ok()) status = (*encoder)->Finish();
      EXPECT_EQ(status, absl::CancelledError("the caller left")) << FormatName(format) << good;
    }
  }
}

TEST(CodecTest, KnowsFormatsByName) {
  EXPECT_EQ(FormatFromName("PNG"), ImageFormat::kPng);
  EXPECT_EQ(FormatFromName("jpg"), ImageFormat::kJpeg);
  EXPECT_EQ(FormatFromName("Jpeg"), ImageFormat::kJpeg);
  EXPECT_EQ(FormatFromName("webp"), ImageFormat::kWebp);
  EXPECT_EQ(FormatFromName("tif"), ImageFormat::kTiff);
  EXPECT_EQ(FormatFromName("pcx"), std::nullopt);
  EXPECT_EQ(FormatFromName(""), std::nullopt);
  EXPECT_EQ(FormatExtension(ImageFormat::kJpeg), "jpg");
  for (ImageFormat format : kImageFormats) {
    EXPECT_EQ(FormatFromName(FormatName(format)), format);
    EXPECT_EQ(FormatFromName(FormatExtension(format)), format);
  }
}

TEST(CodecTest, KnowsFormatsByMediaType) {
  EXPECT_EQ(FormatMediaType(ImageFormat::kJpeg), "image/jpeg");
  EXPECT_EQ(FormatFromMediaType("image/JPG"), ImageFormat::kJpeg);
  EXPECT_EQ(FormatFromMediaType("image/x-ms-bmp"), ImageFormat::kBmp);
  EXPECT_EQ(FormatFromMediaType("image/pcx"), std::nullopt);
  EXPECT_EQ(FormatFromMediaType("png"), std::nullopt);
  EXPECT_EQ(FormatFromMediaType(""), std::nullopt);
  for (ImageFormat format : kImageFormats) {
    EXPECT_EQ(FormatFromMediaType(FormatMediaType(format)), format);
  }
}

}  // namespace
}  // namespace upscaled
