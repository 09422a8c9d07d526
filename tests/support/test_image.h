// Images for tests: random and synthetic ones, and the ways in and out of codecs and row sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "engine/image/image.h"
#include "engine/image/memory_io.h"
#include "engine/image/row_source.h"
#include "engine/image/view_rows.h"

namespace upscaled {

inline std::ostream& operator<<(std::ostream& out, const ImageSpec& spec) {
  return out << spec.width_px << " x " << spec.height_px << " px, " << spec.channels
             << " channels of " << SampleBytes(spec.type) << " bytes";
}

namespace test {

// A generator with a fresh seed, printed when a test fails. UPSCALED_TEST_SEED sets it.
std::mt19937 FreshRandom();

// A random number in [low, high].
int RandomInt(std::mt19937& random, int low, int high);

// Uniform noise over the whole range of the type (floats in 0..1).
Image RandomImage(const ImageSpec& spec, std::mt19937& random);
// Smooth shading with some grain, as a photograph has; alpha, if any, fades from edge to edge.
Image PhotoImage(const ImageSpec& spec, std::mt19937& random);
// Flat areas with sharp outlines, as a drawing has; alpha, if any, is 0 or full.
Image ArtImage(const ImageSpec& spec, std::mt19937& random);

// Some plain and some grainy rectangles and discs, cut off by the borders or not, on a plain
// ground; alpha, if any, is 0 on the ground.
Image PlainGroundImage(const ImageSpec& spec, std::mt19937& random);

// All bytes of all rows agree; the message names the first different pixel.
::testing::AssertionResult SameImages(ImageView actual, ImageView expected);

// `stored` turned upright by an EXIF orientation, 1 to 8, pixel by pixel: CIPA DC-008, tag 274.
Image TurnUpright(ImageView stored, int orientation);

// The largest difference between two samples of 8-bit images of one spec.
int LargestDifference(ImageView a, ImageView b);

using upscaled::ViewRows;

// Gives at most `piece_bytes` at a time.
class SlowSource final : public ByteSource {
 public:
  SlowSource(std::string_view bytes, size_t piece_bytes)
      : source_(bytes), piece_bytes_(piece_bytes) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    return source_.Read(dst.first(std::min(dst.size(), piece_bytes_)));
  }

 private:
  MemorySource source_;
  size_t piece_bytes_;
};

// All remaining rows, read `rows_at_a_time` (0: all at once) into a poisoned image.
absl::StatusOr<Image> ReadAll(RowSource& source, int rows_at_a_time = 0);
// In random portions, empty ones among them.
absl::StatusOr<Image> ReadAllInPortions(RowSource& source, std::mt19937& random);

absl::StatusOr<std::string> Encode(ImageView image, const EncodeOptions& options,
                                   const ImageMetadata& metadata = {});
// A PNG of noise, in RGB.
std::string PngOf(int width_px, int height_px);

struct Decoded {
  ImageHeader header;
  ImageMetadata metadata;
  Image image;
  ImageMetadata late_metadata;
  std::vector<std::string> warnings;
};
absl::StatusOr<Decoded> Decode(std::string_view bytes, const DecodeLimits& limits = {});

}  // namespace test
}  // namespace upscaled
