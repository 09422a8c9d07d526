#include "engine/image/bilateral.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/bilateral_row.h"
#include "engine/image/codec_checks.h"
#include "engine/image/full_scale.h"

namespace upscaled {
namespace {

constexpr int ColoursOf(int channels) { return channels < 3 ? 1 : 3; }

template <typename T>
class Bilateral final : public RowSource {
 public:
  Bilateral(RowSource& source, const BilateralOptions& options)
      : source_(source),
        spec_(source.spec()),
        window_(options, kFullScale<T>),
        layout_(window_.radius_px, ColoursOf(spec_.channels), spec_.width_px),
        window_rows_(2 * window_.radius_px + 1),
        result_(layout_.result_floats * layout_.colours) {
    spec_.type = SampleType::kU16;
    for (size_t i = 0; i < window_rows_.size(); ++i) {
      rows_.emplace_back(source.spec().row_bytes(), layout_.plane_floats * layout_.colours);
    }
  }

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_) {
      const int end = std::min(next_row_ + window_.radius_px + 1, spec_.height_px);
      while (pulled_rows_ < end) RETURN_IF_ERROR(Pull());
      for (size_t i = 0; i < window_rows_.size(); ++i) {
        const int row = next_row_ + static_cast<int>(i) - window_.radius_px;
        window_rows_[i] = row < 0 || row >= end ? nullptr : RowAt(row).planes.data();
      }
      FilterBilateralRow(window_, layout_, window_rows_.data(), result_.data());
      Store(RowAt(next_row_).pixels.data(), rows.row_as<uint16_t>(y));
    }
    return absl::OkStatus();
  }

 private:
  struct Row {
    AlignedBuffer<T> pixels;  // as they came
    AlignedBuffer<float> planes;

    Row(size_t bytes, size_t floats) : pixels(bytes / sizeof(T)), planes(floats) {}
  };

  Row& RowAt(int y) { return rows_[static_cast<size_t>(y) % rows_.size()]; }

  bool IsHidden(const T* pixel) const {
    return spec_.has_alpha() && pixel[spec_.channels - 1] == 0;
  }

  absl::Status Pull() {
    Row& row = RowAt(pulled_rows_++);
    ImageSpec row_spec = source_.spec();
    row_spec.height_px = 1;
    RETURN_IF_ERROR(source_.ReadRows({reinterpret_cast<uint8_t*>(row.pixels.data()), row_spec,
                                      static_cast<ptrdiff_t>(row_spec.row_bytes())}));
    std::fill_n(row.planes.data(), row.planes.size(), BilateralLayout::kNoColour);
    for (int c = 0; c < layout_.colours; ++c) {
      float* plane = row.planes.data() + c * layout_.plane_floats + window_.radius_px;
      const T* pixel = row.pixels.data();
      for (int x = 0; x < spec_.width_px; ++x, pixel += spec_.channels) {
        if (!IsHidden(pixel)) plane[x] = pixel[c];
      }
    }
    return absl::OkStatus();
  }

  void Store(const T* pixel, uint16_t* dst) const {
    constexpr int kStep = kFullScale<uint16_t> / kFullScale<T>;
    for (int x = 0; x < spec_.width_px; ++x, pixel += spec_.channels, dst += spec_.channels) {
      for (int c = 0; c < spec_.channels; ++c) dst[c] = pixel[c] * kStep;
      if (IsHidden(pixel)) continue;
      for (int c = 0; c < layout_.colours; ++c) {
        dst[c] = static_cast<uint16_t>(result_[c * layout_.result_floats + x] * kStep + 0.5f);
      }
    }
  }

  RowSource& source_;
  ImageSpec spec_;
  const BilateralWindow window_;
  const BilateralLayout layout_;
  std::vector<Row> rows_;                  // a ring
  std::vector<const float*> window_rows_;  // the rows for next_row_
  AlignedBuffer<float> result_;
  int pulled_rows_ = 0;
  int next_row_ = 0;
};

}  // namespace

std::unique_ptr<RowSource> MakeBilateral(RowSource& source, const BilateralOptions& options) {
  UPSCALED_CHECK(source.spec().type != SampleType::kF32 && options.valid());
  if (source.spec().type == SampleType::kU8) {
    return std::make_unique<Bilateral<uint8_t>>(source, options);
  }
  return std::make_unique<Bilateral<uint16_t>>(source, options);
}

RowStage PlanBilateral(const ImageSpec& source, const BilateralOptions& options) {
  const size_t rows = 2 * static_cast<size_t>(options.radius_px()) + 1;
  const BilateralLayout layout(options.radius_px(), ColoursOf(source.channels), source.width_px);
  const size_t floats = layout.colours * (rows * layout.plane_floats + layout.result_floats);
  constexpr size_t kRowOverhead = 256;
  const size_t window = 2 * rows * rows;  // a vector that grew
  ImageSpec result = source;
  result.type = SampleType::kU16;
  return {{.source = source,
           .result = result,
           .border_px = options.radius_px(),
           .memory_bytes =
               (floats + window) * sizeof(float) + rows * (source.row_bytes() + kRowOverhead)},
          [options](RowSource& rows) { return MakeBilateral(rows, options); }};
}

}  // namespace upscaled
