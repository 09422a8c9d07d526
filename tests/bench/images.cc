#include "tests/bench/images.h"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "engine/image/convert.h"
#include "engine/image/memory_io.h"
#include "engine/image/resample.h"

namespace upscaled::bench {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;

absl::StatusOr<Image> Decode(std::string_view file) {
  MemorySource source(file);
  ASSIGN_OR_RETURN(const auto decoder, OpenImageDecoder(source, DecodeLimits{}));
  ImageSpec rgb = decoder->spec();
  rgb.channels = 3;
  rgb.type = SampleType::kU8;
  return ReadAll(*ConvertRows(*decoder, rgb));
}

absl::StatusOr<Image> Resize(const Image& image, Size size, Filter filter) {
  ImageRows rows(image);
  return ReadAll(*MakeResizer(rows, size, filter));
}

Image ReduceByBox(const Image& image, Size size, int factor) {
  Image result({size.width, size.height, 3, SampleType::kU8});
  const int area = factor * factor;
  for (int y = 0; y < size.height; ++y) {
    for (int i = 0; i < size.width * 3; ++i) {
      int sum = area / 2;
      for (int dy = 0; dy < factor; ++dy) {
        const uint8_t* block = image.view().row(y * factor + dy) + (i / 3) * factor * 3 + i % 3;
        for (int dx = 0; dx < factor; ++dx) sum += block[dx * 3];
      }
      result.mutable_view().row(y)[i] = static_cast<uint8_t>(sum / area);
    }
  }
  return result;
}

}  // namespace

Image ShadedImage(Size size, unsigned seed) {
  Image image({size.width, size.height, 3, SampleType::kU8});
  std::mt19937 random(seed);
  for (int y = 0; y < size.height; ++y) {
    uint8_t* row = image.mutable_view().row(y);
    for (int x = 0; x < size.width; ++x) {
      const auto grain = static_cast<int>(random() % 4);
      *row++ = static_cast<uint8_t>(x * 200 / size.width + grain);
      *row++ = static_cast<uint8_t>(y * 200 / size.height + grain);
      *row++ = static_cast<uint8_t>((x + y) / 4 % 200 + grain);
    }
  }
  return image;
}

Image CutOrRepeat(const Image& image, Size size) {
  const Size whole = image.spec().size();
  const int left = std::max(0, (whole.width - size.width) / 2);
  const int top = std::max(0, (whole.height - size.height) / 2);
  Image result({size.width, size.height, 3, SampleType::kU8});
  for (int y = 0; y < size.height; ++y) {
    const uint8_t* const from = image.view().row((top + y) % whole.height);
    uint8_t* to = result.mutable_view().row(y);
    for (int x = 0; x < size.width; ++x) {
      to = std::copy_n(from + (left + x) % whole.width * 3, 3, to);
    }
  }
  return result;
}

absl::StatusOr<std::vector<std::filesystem::path>> ListImages(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(std::vector<std::filesystem::path> paths, ListFolder(folder));
  std::erase_if(paths, [](const std::filesystem::path& path) {
    const std::string extension = path.extension().string();
    return extension.empty() || !FormatFromName(extension.substr(1)).has_value();
  });
  return paths;
}

absl::Status ImageRows::ReadRows(MutableImageView rows) {
  const Rect band{0, next_, spec().width_px, rows.spec.height_px};
  ConvertPixels(image_.view().Crop(band), rows);
  next_ += band.height;
  return absl::OkStatus();
}

absl::StatusOr<Image> ReadAll(RowSource& rows) {
  Image image(rows.spec());
  RETURN_IF_ERROR(rows.ReadRows(image.mutable_view()));
  return image;
}

absl::StatusOr<Image> LoadImage(const std::filesystem::path& path, int factor, int min_side_px) {
  ASSIGN_OR_RETURN(const std::string file, ReadFile(path, kMaxFileBytes));
  ASSIGN_OR_RETURN(const Image whole, Decode(file));
  const ImageSpec& spec = whole.spec();
  const Rect part{0, 0, spec.width_px / factor * factor, spec.height_px / factor * factor};
  if (std::min(part.width, part.height) < min_side_px) {
    return absl::InvalidArgumentError(absl::StrCat("is ", spec.width_px, "x", spec.height_px,
                                                   " pixels, must be at least ", min_side_px, "x",
                                                   min_side_px));
  }
  Image image({part.width, part.height, 3, SampleType::kU8});
  ConvertPixels(whole.view().Crop(part), image.mutable_view());
  return image;
}

absl::StatusOr<Image> Reduce(const Image& image, int factor, Reduction reduction) {
  const Size size{image.spec().width_px / factor, image.spec().height_px / factor};
  if (reduction == Reduction::kBox) return ReduceByBox(image, size, factor);
  return Resize(image, size,
                reduction == Reduction::kBicubic ? Filter::kCatmullRom : Filter::kLanczos3);
}

absl::StatusOr<Image> ThroughJpeg(const Image& image, int quality) {
  StringSink sink;
  const EncodeOptions options{.format = ImageFormat::kJpeg, .quality = quality};
  ASSIGN_OR_RETURN(const auto encoder, CreateImageEncoder(options, image.spec(), {}, sink));
  RETURN_IF_ERROR(encoder->WriteRows(image.view()));
  RETURN_IF_ERROR(encoder->Finish());
  return Decode(sink.bytes());
}

absl::StatusOr<Image> EnlargeByLanczos(const Image& image, Size size) {
  return Resize(image, size, Filter::kLanczos3);
}

}  // namespace upscaled::bench
