#include "engine/image/orientation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"

namespace upscaled {
namespace {

// Stored rows read at a time: a turn by 90 degrees then writes runs of as many pixels.
constexpr int kTransposedRows = 16;

ImageSpec UprightSpec(ImageSpec spec, Orientation orientation) {
  if (SwapsSides(orientation)) std::swap(spec.width_px, spec.height_px);
  return spec;
}

class Upright final : public RowSource {
 public:
  Upright(RowSource& stored, Orientation orientation)
      : stored_(stored),
        orientation_(orientation),
        spec_(UprightSpec(stored.spec(), orientation)) {}

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    if (image_.bytes() == 0) RETURN_IF_ERROR(Collect());
    for (int y = 0; y < rows.height_px(); ++y)
      std::memcpy(rows.row(y), image_.view().row(next_row_ + y), spec_.row_bytes());
    next_row_ += rows.height_px();
    return absl::OkStatus();
  }

 private:
  // Where stored pixels go: the upright place of (x, y) is origin + x * step_x + y * step_y.
  struct Placement {
    uint8_t* origin;
    ptrdiff_t step_x, step_y;
  };

  Placement Place(MutableImageView image) const {
    const ptrdiff_t right = static_cast<ptrdiff_t>(spec_.pixel_bytes()), down = image.stride_bytes;
    uint8_t* const left_top = image.data;
    uint8_t* const right_top = left_top + (spec_.width_px - 1) * right;
    uint8_t* const left_bottom = left_top + (spec_.height_px - 1) * down;
    uint8_t* const right_bottom = left_bottom + (right_top - left_top);
    switch (orientation_) {
      case Orientation::kIdentity:
        break;
      case Orientation::kFlipX:
        return {right_top, -right, down};
      case Orientation::kRotate180:
        return {right_bottom, -right, -down};
      case Orientation::kFlipY:
        return {left_bottom, right, -down};
      case Orientation::kTranspose:
        return {left_top, down, right};
      case Orientation::kRotate90:
        return {right_top, down, -right};
      case Orientation::kTransverse:
        return {right_bottom, -down, -right};
      case Orientation::kRotate270:
        return {left_bottom, -down, right};
    }
    return {left_top, right, down};
  }

  absl::Status Collect() {
    Image image(spec_);
    ImageSpec band_spec = stored_.spec();
    band_spec.height_px = std::min(kTransposedRows, band_spec.height_px);
    Image band(band_spec);
    const Placement placement = Place(image.mutable_view());
    const size_t pixel_bytes = spec_.pixel_bytes();
    const int height = stored_.spec().height_px;
    for (int top = 0; top < height; top += kTransposedRows) {
      const int count = std::min(kTransposedRows, height - top);
      const MutableImageView rows = band.mutable_view().Crop({0, 0, band_spec.width_px, count});
      RETURN_IF_ERROR(stored_.ReadRows(rows));
      for (int x = 0; x < band_spec.width_px; ++x)
        for (int y = 0; y < count; ++y)
          std::memcpy(placement.origin + x * placement.step_x + (top + y) * placement.step_y,
                      rows.row(y) + x * pixel_bytes, pixel_bytes);
    }
    image_ = std::move(image);
    return absl::OkStatus();
  }

  RowSource& stored_;
  const Orientation orientation_;
  const ImageSpec spec_;
  Image image_;
  int next_row_ = 0;
};

}  // namespace

std::unique_ptr<RowSource> MakeUpright(RowSource& stored, Orientation orientation) {
  return std::make_unique<Upright>(stored, orientation);
}

size_t UprightBytes(const ImageSpec& stored) {
  return stored.row_bytes() * (static_cast<size_t>(stored.height_px) + kTransposedRows);
}

}  // namespace upscaled
