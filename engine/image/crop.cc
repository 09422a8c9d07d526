#include "engine/image/crop.h"

#include <cstring>
#include <memory>

#include "engine/base/aligned_buffer.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"

namespace upscaled {
namespace {

class CroppedRows final : public RowSource {
 public:
  CroppedRows(RowSource& source, const ImageSpec& spec, const Rect& part)
      : source_(source), spec_(spec), part_(part), row_(source.spec().row_bytes()) {}

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    if (source_.spec() == spec_) return source_.ReadRows(rows);
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    for (; skipped_rows_ < part_.y; ++skipped_rows_) RETURN_IF_ERROR(ReadRow());
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_) {
      RETURN_IF_ERROR(ReadRow());
      std::memcpy(rows.row(y), row_.data() + part_.x * spec_.pixel_bytes(), spec_.row_bytes());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadRow() {
    ImageSpec spec = source_.spec();
    spec.height_px = 1;
    return source_.ReadRows({row_.data(), spec, static_cast<ptrdiff_t>(spec.row_bytes())});
  }

  RowSource& source_;
  const ImageSpec spec_;
  const Rect part_;
  AlignedBuffer<uint8_t> row_;
  int skipped_rows_ = 0;
  int next_row_ = 0;
};

}  // namespace

RowStage PlanCrop(const ImageSpec& source, const Rect& part) {
  UPSCALED_CHECK(!part.empty() && Rect({0, 0, source.width_px, source.height_px}).Contains(part));
  ImageSpec result = source;
  result.width_px = part.width;
  result.height_px = part.height;
  return {{.source = source, .result = result, .memory_bytes = 256 + source.row_bytes()},
          [result, part](RowSource& rows) {
            return std::make_unique<CroppedRows>(rows, result, part);
          }};
}

}  // namespace upscaled
