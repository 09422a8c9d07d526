#include "engine/image/wrap.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/base/check.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"

namespace upscaled {
namespace {

class WrappedRows final : public RowSource {
 public:
  WrappedRows(RowSource& source, const ImageSpec& spec, int margin_px)
      : source_(source), spec_(spec), margin_(margin_px) {}

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    if (image_.spec().height_px == 0) {
      image_ = Image(source_.spec());
      RETURN_IF_ERROR(source_.ReadRows(image_.mutable_view()));
    }
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_) WriteRow(next_row_, rows.row(y));
    return absl::OkStatus();
  }

 private:
  // The place in the image of `at`, counted from the margin's begin.
  int Place(int at, int length) const {
    const int place = at - margin_;
    return place - FloorDiv(place, length) * length;
  }

  void WriteRow(int y, uint8_t* dst) const {
    const Size size = image_.spec().size();
    const size_t pixel_bytes = spec_.pixel_bytes();
    const uint8_t* const row = image_.view().row(Place(y, size.height));
    for (int x = 0; x < spec_.width_px;) {
      const int from = Place(x, size.width);
      const int count = std::min(size.width - from, spec_.width_px - x);
      std::memcpy(dst + x * pixel_bytes, row + from * pixel_bytes, count * pixel_bytes);
      x += count;
    }
  }

  RowSource& source_;
  const ImageSpec spec_;
  const int margin_;
  Image image_;
  int next_row_ = 0;
};

}  // namespace

RowStage PlanWrap(const ImageSpec& source, int margin_px) {
  UPSCALED_CHECK(margin_px >= 0);
  ImageSpec result = source;
  result.width_px += 2 * margin_px;
  result.height_px += 2 * margin_px;
  return {{.source = source, .result = result, .memory_bytes = 256 + ImageBytes(source)},
          [result, margin_px](RowSource& rows) {
            return std::make_unique<WrappedRows>(rows, result, margin_px);
          }};
}

}  // namespace upscaled
