#include "engine/image/whole_image_encoder.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"

namespace upscaled {

absl::Status WholeImageEncoder::WriteRows(ImageView rows) {
  RETURN_IF_ERROR(CheckRows(image_.spec(), next_row_, rows.spec));
  for (int y = 0; y < rows.height_px(); ++y, ++next_row_)
    std::copy_n(rows.row(y), rows.spec.row_bytes(), image_.mutable_view().row(next_row_));
  return absl::OkStatus();
}

absl::Status WholeImageEncoder::Finish() {
  RETURN_IF_ERROR(CheckAllWritten(image_.spec(), next_row_));
  if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
  return Encode();
}

}  // namespace upscaled
