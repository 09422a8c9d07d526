// Codecs with long work for one row, or for the whole image, stop when the request is cancelled.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

// Cancels once half of its bytes were read, and goes on to give its bytes.
class CancellingSource final : public ByteSource {
 public:
  CancellingSource(std::string_view bytes, Cancellation& cancellation)
      : source_(bytes), cancellation_(cancellation), cancel_at_(bytes.size() / 2) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    const auto count = source_.Read(dst.first(std::min<size_t>(dst.size(), 500)));
    read_bytes_ += *count;
    if (cancellation_.IsCancelled())
      bytes_after_ += *count;
    else if (read_bytes_ >= cancel_at_)
      cancellation_.Cancel(absl::CancelledError("the caller left"));
    return count;
  }
  size_t bytes_after() const { return bytes_after_; }

 private:
  MemorySource source_;
  Cancellation& cancellation_;
  const size_t cancel_at_;
  size_t read_bytes_ = 0;
  size_t bytes_after_ = 0;  // cancelling
};

void ExpectStops(const char* what, const std::string& file) {
  ASSERT_TRUE(test::Decode(file).ok()) << what;
  Cancellation cancellation;
  CancellingSource source(file, cancellation);
  const auto decoder = OpenImageDecoder(source, {}, &cancellation);
  ASSERT_TRUE(decoder.ok()) << what << ": " << decoder.status();
  // The first row needs nearly the whole file.
  Image row({(*decoder)->spec().width_px, 1, (*decoder)->spec().channels, SampleType::kU8});
  EXPECT_EQ((*decoder)->ReadRows(row.mutable_view()), absl::CancelledError("the caller left"))
      << what;
  EXPECT_LT(source.bytes_after(), file.size() / 8) << what;
}

TEST(CancelTest, DecodersOfImagesThatAreReadAtOnceStop) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({400, 300, 3, SampleType::kU8}, random);
  ExpectStops("progressive", test::WriteJpeg({.progressive = true}, image.view()));
  ExpectStops("one scan per component",
              test::WriteJpeg({.scan_per_component = true}, image.view()));
  test::PngFile png = test::RandomPng(400, 300, 8, 2, random);
  png.interlaced = true;
  ExpectStops("interlaced", test::WritePng(png));
}

TEST(CancelTest, DecodersThatGiveRowsAsTheyComeStop) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({300, 200, 3, SampleType::kU8}, random);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp})
    for (const int quality : {80, 100}) {
      const std::string file = *test::Encode(image.view(), {.format = format, .quality = quality});
      Cancellation cancellation;
      CancellingSource source(file, cancellation);
      const auto decoder = OpenImageDecoder(source, {}, &cancellation);
      ASSERT_TRUE(decoder.ok()) << decoder.status();
      EXPECT_EQ(test::ReadAll(**decoder).status(), absl::CancelledError("the caller left"))
          << FormatName(format);
      EXPECT_LT(source.bytes_after(), file.size() / 8) << FormatName(format);
    }
}

// The encoder checks the cancellation only in libwebp's progress hook.
TEST(CancelTest, EncodingWebpStops) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({200, 100, 4, SampleType::kU8}, random);
  for (const int quality : {80, 100}) {
    StringSink sink;
    Cancellation cancellation;
    const auto encoder = CreateImageEncoder({.format = ImageFormat::kWebp, .quality = quality},
                                            image.spec(), {}, sink, &cancellation);
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    ASSERT_TRUE((*encoder)->WriteRows(image.view()).ok());
    cancellation.Cancel(absl::DeadlineExceededError("too late"));
    EXPECT_EQ((*encoder)->Finish(), absl::DeadlineExceededError("too late"));
    EXPECT_EQ(sink.bytes(), "");
  }
}

}  // namespace
}  // namespace upscaled
