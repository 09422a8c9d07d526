#include "engine/train/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>

#include "engine/base/status_macros.h"
#include "engine/image/resample.h"
#include "engine/image/row_source.h"

namespace upscaled::train {
namespace {

class ImageRows final : public RowSource {
 public:
  explicit ImageRows(const Image& image) : view_(image.view()) {}
  const ImageSpec& spec() const override { return view_.spec; }
  absl::Status ReadRows(MutableImageView rows) override {
    for (int y = 0; y < rows.height_px(); ++y) {
      std::memcpy(rows.row(y), view_.row(next_++), view_.spec.row_bytes());
    }
    return absl::OkStatus();
  }

 private:
  const ImageView view_;
  int next_ = 0;
};

absl::StatusOr<Image> Resize(const Image& image, Size size, Filter filter) {
  ImageRows rows(image);
  const std::unique_ptr<RowSource> resized = MakeResizer(rows, size, filter);
  Image result(resized->spec());
  RETURN_IF_ERROR(resized->ReadRows(result.mutable_view()));
  return result;
}

uint8_t Mean(int sum, int count) { return static_cast<uint8_t>((2 * sum + count) / (2 * count)); }
float Mean(float sum, int count) { return sum / static_cast<float>(count); }

template <typename Sample, typename Sum>
Image MeansOfBoxes(const Image& image, int factor) {
  ImageSpec spec = image.spec();
  spec.width_px /= factor;
  spec.height_px /= factor;
  Image result(spec);
  for (int y = 0; y < spec.height_px; ++y) {
    for (int i = 0; i < spec.width_px * spec.channels; ++i) {
      const int x = i / spec.channels * factor, channel = i % spec.channels;
      Sum sum = 0;
      for (int dy = 0; dy < factor; ++dy) {
        const Sample* row = image.view().row_as<Sample>(y * factor + dy);
        for (int dx = 0; dx < factor; ++dx) sum += row[(x + dx) * spec.channels + channel];
      }
      result.mutable_view().row_as<Sample>(y)[i] = Mean(sum, factor * factor);
    }
  }
  return result;
}

// Calls `convert` for every value of an image of 8 bits or floats, to the other of the two.
template <typename From, typename To, typename Convert>
Image Converted(const Image& image, SampleType type, Convert convert) {
  ImageSpec spec = image.spec();
  spec.type = type;
  Image result(spec);
  for (int y = 0; y < spec.height_px; ++y) {
    const From* from = image.view().row_as<From>(y);
    To* to = result.mutable_view().row_as<To>(y);
    for (int i = 0; i < spec.width_px * spec.channels; ++i) to[i] = convert(from[i]);
  }
  return result;
}

// IEC 61966-2-1.
Image ToLinearLight(const Image& image) {
  std::array<float, 256> light;
  for (int i = 0; i < 256; ++i) {
    const double value = i / 255.0;
    light[i] = static_cast<float>(value <= 0.04045 ? value / 12.92
                                                   : std::pow((value + 0.055) / 1.055, 2.4));
  }
  return Converted<uint8_t, float>(image, SampleType::kF32, [&](uint8_t i) { return light[i]; });
}

Image FromLinearLight(const Image& image) {
  return Converted<float, uint8_t>(image, SampleType::kU8, [](float value) {
    const double light = std::clamp(value, 0.0f, 1.0f);
    const double coded =
        light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1 / 2.4) - 0.055;
    return static_cast<uint8_t>(255 * coded + 0.5);
  });
}

struct ReductionInfo {
  const char* name;
  Reduction of_values;  // the same, not in linear light
};
const ReductionInfo& InfoOf(Reduction reduction) {
  static constexpr ReductionInfo kInfos[] = {{"box", Reduction::kBox},
                                             {"bicubic", Reduction::kBicubic},
                                             {"lanczos", Reduction::kLanczos},
                                             {"box_linear", Reduction::kBox},
                                             {"bicubic_linear", Reduction::kBicubic},
                                             {"lanczos_linear", Reduction::kLanczos}};
  static_assert(std::size(kInfos) == kReductions.size());
  return kInfos[static_cast<size_t>(reduction)];
}

}  // namespace

const char* ReductionName(Reduction reduction) { return InfoOf(reduction).name; }

absl::StatusOr<Image> Reduce(const Image& image, int factor, Reduction reduction) {
  const Reduction of_values = InfoOf(reduction).of_values;
  if (of_values != reduction) {
    ASSIGN_OR_RETURN(const Image reduced, Reduce(ToLinearLight(image), factor, of_values));
    return FromLinearLight(reduced);
  }
  if (reduction == Reduction::kBox) {
    return image.spec().type == SampleType::kU8 ? MeansOfBoxes<uint8_t, int>(image, factor)
                                                : MeansOfBoxes<float, float>(image, factor);
  }
  const Size size{image.spec().width_px / factor, image.spec().height_px / factor};
  return Resize(image, size,
                reduction == Reduction::kBicubic ? Filter::kCatmullRom : Filter::kLanczos3);
}

absl::StatusOr<Image> Enlarge(const Image& image, int factor) {
  return Resize(image, {image.spec().width_px * factor, image.spec().height_px * factor},
                Filter::kLanczos3);
}

}  // namespace upscaled::train
