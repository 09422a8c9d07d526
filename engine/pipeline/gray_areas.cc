#include "engine/pipeline/gray_areas.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/convert.h"
#include "engine/image/luma.h"
#include "engine/pipeline/row_spec.h"

namespace upscaled {
namespace {

template <typename T>
void MarkColouredPixels(const ImageView& row, std::span<uint8_t> marks) {
  const T* pixel = row.row_as<T>(0);
  for (uint8_t& mark : marks) {
    mark = pixel[0] != pixel[1] || pixel[1] != pixel[2];
    pixel += row.spec.channels;
  }
}

}  // namespace

GrayAreas::GrayAreas(RowSource& result, RowSource& source, SampleType type)
    : result_(result),
      source_(source),
      spec_{result.spec().width_px, result.spec().height_px, result.spec().channels, type},
      near_colour_(source.spec().size(), spec_.width_px / source.spec().width_px),
      source_row_(OneRow(source.spec())),
      result_row_(OneRow(result.spec())) {
  UPSCALED_CHECK(result.spec().channels >= kRgbChannels);
  UPSCALED_CHECK(source.spec().channels == result.spec().channels);
}

size_t GrayAreas::Bytes(const ImageSpec& source, const ImageSpec& result) {
  return NearWeights::Bytes(source.size(), result.width_px / source.width_px) +
         ImageBytes(OneRow(source)) + ImageBytes(OneRow(result));
}

absl::Status GrayAreas::ReadRows(MutableImageView rows) {
  UPSCALED_CHECK(rows.height_px() <= spec_.height_px - next_row_);
  for (int i = 0; i < rows.height_px(); ++i, ++next_row_) {
    RETURN_IF_ERROR(near_colour_.MoveTo(
        next_row_, [this](std::span<uint8_t> marks) { return MarkColoured(marks); }));
    RETURN_IF_ERROR(result_.ReadRows(result_row_.mutable_view()));
    if (!near_colour_.is_full()) {
      result_.spec().type == SampleType::kU8 ? MakeGray<uint8_t>() : MakeGray<uint16_t>();
    }
    ConvertPixels(result_row_.view(), rows.Crop({0, i, spec_.width_px, 1}));
  }
  return absl::OkStatus();
}

absl::Status GrayAreas::MarkColoured(std::span<uint8_t> marks) {
  RETURN_IF_ERROR(source_.ReadRows(source_row_.mutable_view()));
  if (source_row_.spec().type == SampleType::kU8) {
    MarkColouredPixels<uint8_t>(source_row_.view(), marks);
  } else {
    MarkColouredPixels<uint16_t>(source_row_.view(), marks);
  }
  return absl::OkStatus();
}

template <typename T>
void GrayAreas::MakeGray() {
  T* pixel = result_row_.mutable_view().row_as<T>(0);
  const int64_t full = near_colour_.full();
  for (const int64_t weight : near_colour_.row()) {
    if (weight == 0) {
      std::fill_n(pixel, kRgbChannels, Luma(pixel[0], pixel[1], pixel[2]));
    } else if (weight < full) {
      const int64_t gray = Luma(pixel[0], pixel[1], pixel[2]);
      for (int c = 0; c < kRgbChannels; ++c) {
        pixel[c] = static_cast<T>((pixel[c] * weight + gray * (full - weight) + full / 2) / full);
      }
    }
    pixel += spec_.channels;
  }
}

}  // namespace upscaled
