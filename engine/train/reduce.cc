#include "engine/train/reduce.h"

#include <cstring>
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

Image MeansOfBoxes(const Image& image, int factor) {
  ImageSpec spec = image.spec();
  spec.width_px /= factor;
  spec.height_px /= factor;
  Image result(spec);
  const int count = factor * factor;
  for (int y = 0; y < spec.height_px; ++y) {
    for (int i = 0; i < spec.width_px * spec.channels; ++i) {
      const int x = i / spec.channels * factor, channel = i % spec.channels;
      int sum = 0;
      for (int dy = 0; dy < factor; ++dy) {
        const uint8_t* row = image.view().row(y * factor + dy);
        for (int dx = 0; dx < factor; ++dx) sum += row[(x + dx) * spec.channels + channel];
      }
      result.mutable_view().row(y)[i] = static_cast<uint8_t>((2 * sum + count) / (2 * count));
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Image> Reduce(const Image& image, int factor, Reduction reduction) {
  if (reduction == Reduction::kBox) return MeansOfBoxes(image, factor);
  const Size size{image.spec().width_px / factor, image.spec().height_px / factor};
  return Resize(image, size,
                reduction == Reduction::kBicubic ? Filter::kCatmullRom : Filter::kLanczos3);
}

absl::StatusOr<Image> Enlarge(const Image& image, int factor) {
  return Resize(image, {image.spec().width_px * factor, image.spec().height_px * factor},
                Filter::kLanczos3);
}

}  // namespace upscaled::train
