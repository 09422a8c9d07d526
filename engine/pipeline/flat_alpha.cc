#include "engine/pipeline/flat_alpha.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/full_scale.h"
#include "engine/pipeline/row_spec.h"

namespace upscaled {
namespace {

// From the mixed row to the last one under the edges of its weights, and its neighbours.
constexpr int kAlphaRows = kFlatAlphaBorderPx + 2;

template <typename T>
void CopyAlpha(const ImageView& row, std::vector<uint16_t>& alpha) {
  constexpr int kUnit = kFullScale<uint16_t> / kFullScale<T>;
  const T* from = row.row_as<T>(0) + kRgbChannels;
  for (size_t x = 0; x < alpha.size(); ++x) {
    alpha[x] = static_cast<uint16_t>(from[x * (kRgbChannels + 1)] * kUnit);
  }
}

}  // namespace

FlatAlpha::FlatAlpha(RowSource& computed, RowSource& source)
    : computed_(computed),
      source_(source),
      spec_{computed.spec().width_px, computed.spec().height_px, 1, SampleType::kU16},
      scale_(spec_.width_px / source.spec().width_px),
      near_edges_(source.spec().size(), scale_),
      source_row_(OneRow(source.spec())),
      computed_row_(OneRow(computed.spec())),
      alpha_(kAlphaRows, std::vector<uint16_t>(static_cast<size_t>(source.spec().width_px))) {
  UPSCALED_CHECK(computed.spec().type == SampleType::kU16 &&
                 source.spec().channels == kRgbChannels + 1);
}

size_t FlatAlpha::Bytes(const ImageSpec& source, int scale) {
  constexpr size_t kOverheadBytes = 1024;
  const auto width = static_cast<size_t>(source.width_px);
  const size_t computed_row = width * static_cast<size_t>(scale) * kRgbChannels * sizeof(uint16_t);
  return NearWeights::Bytes(source.size(), scale) + ImageBytes(OneRow(source)) + computed_row +
         width * kAlphaRows * sizeof(uint16_t) + kOverheadBytes;
}

absl::Status FlatAlpha::ReadRows(MutableImageView rows) {
  UPSCALED_CHECK(rows.height_px() <= spec_.height_px - next_row_);
  for (int i = 0; i < rows.height_px(); ++i, ++next_row_) {
    RETURN_IF_ERROR(near_edges_.MoveTo(
        next_row_, [this](std::span<uint8_t> marks) { return MarkEdges(marks); }));
    RETURN_IF_ERROR(computed_.ReadRows(computed_row_.mutable_view()));
    Mix(next_row_, rows.row_as<uint16_t>(i));
  }
  return absl::OkStatus();
}

const std::vector<uint16_t>& FlatAlpha::AlphaOf(int y) const {
  const int row = std::clamp(y, 0, source_.spec().height_px - 1);
  return alpha_[static_cast<size_t>(row % kAlphaRows)];
}

absl::Status FlatAlpha::PullAlpha() {
  RETURN_IF_ERROR(source_.ReadRows(source_row_.mutable_view()));
  std::vector<uint16_t>& alpha = alpha_[static_cast<size_t>(alpha_rows_++ % kAlphaRows)];
  if (source_row_.spec().type == SampleType::kU8) {
    CopyAlpha<uint8_t>(source_row_.view(), alpha);
  } else {
    CopyAlpha<uint16_t>(source_row_.view(), alpha);
  }
  return absl::OkStatus();
}

absl::Status FlatAlpha::MarkEdges(std::span<uint8_t> marks) {
  const int y = marked_rows_++;
  while (alpha_rows_ < std::min(y + 2, source_.spec().height_px)) RETURN_IF_ERROR(PullAlpha());
  const std::vector<uint16_t>&above = AlphaOf(y - 1), &here = AlphaOf(y), &below = AlphaOf(y + 1);
  const size_t last = here.size() - 1;
  for (size_t x = 0; x <= last; ++x) {
    const uint16_t left = here[x == 0 ? 0 : x - 1], right = here[std::min(x + 1, last)];
    marks[x] = here[x] != above[x] || here[x] != below[x] || here[x] != left || here[x] != right;
  }
  return absl::OkStatus();
}

void FlatAlpha::Mix(int row, uint16_t* alpha) const {
  const std::vector<uint16_t>& source = AlphaOf(row / scale_);
  const uint16_t* computed = computed_row_.view().row_as<uint16_t>(0);
  if (near_edges_.is_zero()) {
    for (const uint16_t flat : source) alpha = std::fill_n(alpha, scale_, flat);
    return;
  }
  const int64_t full = near_edges_.full();
  const int* weight = near_edges_.row().data();
  for (const int64_t flat : source) {
    for (int i = 0; i < scale_; ++i, ++weight, computed += kRgbChannels) {
      *alpha++ = static_cast<uint16_t>(
          (*computed * int64_t{*weight} + flat * (full - *weight) + full / 2) / full);
    }
  }
}

}  // namespace upscaled
