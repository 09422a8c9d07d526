#include "tests/support/test_image.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/status_macros.h"

namespace upscaled::test {
namespace {

// Writes `value`, 0..1, as sample `i` of `row`.
void StoreSample(uint8_t* row, SampleType type, int i, double value) {
  value = std::clamp(value, 0.0, 1.0);
  switch (type) {
    case SampleType::kU8:
      row[i] = static_cast<uint8_t>(std::lround(value * 255));
      break;
    case SampleType::kU16:
      reinterpret_cast<uint16_t*>(row)[i] = static_cast<uint16_t>(std::lround(value * 65535));
      break;
    case SampleType::kF32:
      reinterpret_cast<float*>(row)[i] = static_cast<float>(value);
      break;
  }
}

// `sample(x, y, c)` gives every sample, 0..1.
template <typename Function>
Image Generate(const ImageSpec& spec, Function sample) {
  Image image(spec);
  for (int y = 0; y < spec.height_px; ++y)
    for (int x = 0; x < spec.width_px; ++x)
      for (int c = 0; c < spec.channels; ++c)
        StoreSample(image.mutable_view().row(y), spec.type, x * spec.channels + c, sample(x, y, c));
  return image;
}

bool IsAlpha(const ImageSpec& spec, int channel) {
  return spec.has_alpha() && channel == spec.channels - 1;
}

}  // namespace

std::mt19937 FreshRandom() {
  const char* fixed = std::getenv("UPSCALED_TEST_SEED");
  const uint32_t seed =
      fixed != nullptr ? std::strtoul(fixed, nullptr, 10) : std::random_device()();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  std::cerr << "seed: " << seed << "\n";
  return std::mt19937(seed);
}

int RandomInt(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

Image RandomImage(const ImageSpec& spec, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  return Generate(spec, [&](int, int, int) { return uniform(random); });
}

Image PhotoImage(const ImageSpec& spec, std::mt19937& random) {
  std::uniform_real_distribution<double> phase(0, 6.28);
  std::normal_distribution<double> grain(0, 0.01);
  double shift[4];
  for (double& value : shift) value = phase(random);
  return Generate(spec, [&](int x, int y, int c) {
    if (IsAlpha(spec, c)) return (x + 0.5) / spec.width_px;
    return 0.5 + 0.2 * std::sin(x * 0.031 + shift[c]) + 0.2 * std::sin(y * 0.023 + x * 0.01) +
           0.05 * std::sin(x * 0.4) * std::sin(y * 0.37) + grain(random);
  });
}

Image ArtImage(const ImageSpec& spec, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  double colours[16][3];
  for (auto& colour : colours)
    for (double& value : colour) value = uniform(random);
  return Generate(spec, [&](int x, int y, int c) {
    const double wave = y + 12 * std::sin(x * 0.05);
    const int area = (static_cast<int>(wave / 37 + 64) * 5 + x / 53) & 15;
    if (IsAlpha(spec, c)) return area % 4 == 0 ? 0.0 : 1.0;
    const bool outline = std::fmod(wave + 37 * 64, 37) < 3 || x % 53 < 2;
    return outline ? 0.05 : colours[area][c % 3];
  });
}

Image PlainGroundImage(const ImageSpec& spec, std::mt19937& random) {
  struct Shape {
    int x, y, width, height;
    bool disc, grainy;
    double colour[3];
  };
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto any_shape = [&] {
    const int side = std::max(spec.width_px, spec.height_px);
    return Shape{RandomInt(random, -side / 8, spec.width_px),
                 RandomInt(random, -side / 8, spec.height_px),
                 RandomInt(random, 1, side / 2 + 1),
                 RandomInt(random, 1, side / 2 + 1),
                 RandomInt(random, 0, 1) == 1,
                 RandomInt(random, 0, 2) == 0,
                 {uniform(random), uniform(random), uniform(random)}};
  };
  const auto holds = [](const Shape& shape, int x, int y) {
    const double u = 2.0 * (x - shape.x) / shape.width - 1;
    const double v = 2.0 * (y - shape.y) / shape.height - 1;
    return shape.disc ? u * u + v * v <= 1 : std::abs(u) <= 1 && std::abs(v) <= 1;
  };
  Shape ground = any_shape();
  std::vector<Shape> shapes(static_cast<size_t>(RandomInt(random, 0, 3)));
  for (Shape& shape : shapes) shape = any_shape();
  return Generate(spec, [&](int x, int y, int c) {
    const Shape* top = nullptr;
    for (const Shape& shape : shapes) top = holds(shape, x, y) ? &shape : top;
    if (IsAlpha(spec, c)) return top == nullptr ? 0.0 : 1.0;
    if (top == nullptr) return ground.colour[c % 3];
    return top->grainy ? uniform(random) : top->colour[c % 3];
  });
}

::testing::AssertionResult SameImages(ImageView actual, ImageView expected) {
  if (actual.spec != expected.spec)
    return ::testing::AssertionFailure() << actual.spec << " instead of " << expected.spec;
  const size_t pixel_bytes = actual.spec.pixel_bytes();
  for (int y = 0; y < actual.height_px(); ++y)
    for (int x = 0; x < actual.width_px(); ++x)
      if (std::memcmp(actual.row(y) + x * pixel_bytes, expected.row(y) + x * pixel_bytes,
                      pixel_bytes) != 0)
        return ::testing::AssertionFailure()
               << "pixel (" << x << ", " << y << ") of " << actual.spec << " differs: "
               << ::testing::PrintToString(std::vector<int>(actual.row(y) + x * pixel_bytes,
                                                            actual.row(y) + (x + 1) * pixel_bytes))
               << " instead of "
               << ::testing::PrintToString(std::vector<int>(
                      expected.row(y) + x * pixel_bytes, expected.row(y) + (x + 1) * pixel_bytes));
  return ::testing::AssertionSuccess();
}

int LargestDifference(ImageView a, ImageView b) {
  EXPECT_EQ(a.spec, b.spec);
  EXPECT_EQ(a.spec.type, SampleType::kU8);
  int largest = 0;
  for (int y = 0; y < a.height_px(); ++y)
    for (size_t i = 0; i < a.spec.row_bytes(); ++i)
      largest = std::max(largest, std::abs(a.row(y)[i] - b.row(y)[i]));
  return largest;
}

Image TurnUpright(ImageView stored, int orientation) {
  const int width = stored.width_px(), height = stored.height_px();
  ImageSpec spec = stored.spec;
  if (orientation >= 5) std::swap(spec.width_px, spec.height_px);
  Image upright(spec);
  for (int y = 0; y < spec.height_px; ++y)
    for (int x = 0; x < spec.width_px; ++x) {
      int sx = x, sy = y;
      switch (orientation) {
        case 2:  // top, right
          sx = width - 1 - x;
          break;
        case 3:  // bottom, right
          sx = width - 1 - x, sy = height - 1 - y;
          break;
        case 4:  // bottom, left
          sy = height - 1 - y;
          break;
        case 5:  // left, top
          sx = y, sy = x;
          break;
        case 6:  // right, top
          sx = y, sy = height - 1 - x;
          break;
        case 7:  // right, bottom
          sx = width - 1 - y, sy = height - 1 - x;
          break;
        case 8:  // left, bottom
          sx = width - 1 - y, sy = x;
          break;
      }
      std::memcpy(upright.mutable_view().row(y) + x * spec.pixel_bytes(),
                  stored.row(sy) + sx * spec.pixel_bytes(), spec.pixel_bytes());
    }
  return upright;
}

namespace {

// `portion(rows_left)` is how many rows are read next.
template <typename Function>
absl::StatusOr<Image> ReadPortions(RowSource& source, Function portion) {
  const ImageSpec& spec = source.spec();
  Image image(spec);
  std::memset(image.mutable_view().data, 0xA5, image.bytes());
  for (int y = 0; y < spec.height_px;) {
    const int count = portion(spec.height_px - y);
    RETURN_IF_ERROR(source.ReadRows(image.mutable_view().Crop({0, y, spec.width_px, count})));
    y += count;
  }
  return image;
}

}  // namespace

absl::StatusOr<Image> ReadAll(RowSource& source, int rows_at_a_time) {
  return ReadPortions(source, [&](int left) {
    return rows_at_a_time == 0 ? left : std::min(left, rows_at_a_time);
  });
}

absl::StatusOr<Image> ReadAllInPortions(RowSource& source, std::mt19937& random) {
  return ReadPortions(source, [&](int left) { return RandomInt(random, 0, std::min(left, 9)); });
}

absl::StatusOr<std::string> Encode(ImageView image, const EncodeOptions& options,
                                   const ImageMetadata& metadata) {
  StringSink sink;
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageEncoder> encoder,
                   CreateImageEncoder(options, image.spec, metadata, sink));
  RETURN_IF_ERROR(encoder->WriteRows(image));
  RETURN_IF_ERROR(encoder->Finish());
  return sink.Take();
}

std::string PngOf(int width_px, int height_px) {
  std::mt19937 random = FreshRandom();
  const Image image = RandomImage({width_px, height_px, kRgbChannels, SampleType::kU8}, random);
  return *Encode(image.view(), {.format = ImageFormat::kPng});
}

absl::StatusOr<Decoded> Decode(std::string_view bytes, const DecodeLimits& limits) {
  MemorySource source(bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageDecoder> decoder, OpenImageDecoder(source, limits));
  Decoded decoded = {decoder->header(), decoder->metadata(), {}};
  ASSIGN_OR_RETURN(decoded.image, ReadAll(*decoder));
  decoded.late_metadata = decoder->late_metadata();
  decoded.warnings = decoder->warnings();
  return decoded;
}

}  // namespace upscaled::test
