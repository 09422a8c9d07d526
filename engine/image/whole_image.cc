#include "engine/image/whole_image.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled {

absl::Status WholeImage::DecodeNow() {
  if (std::exchange(is_decoded_, true)) return status_;
  image_ = Image(spec_);
  status_ = Decode(image_.mutable_view());
  return status_;
}

absl::Status WholeImage::ReadRows(MutableImageView rows) {
  RETURN_IF_ERROR(DecodeNow());
  for (int y = 0; y < rows.height_px(); ++y)
    std::memcpy(rows.row(y), image_.view().row(next_row_ + y), spec_.row_bytes());
  next_row_ += rows.height_px();
  return absl::OkStatus();
}

absl::Status WholeImage::LackRows(MutableImageView image, int begin, int end,
                                  absl::string_view why) {
  const int rows_read = image.height_px() - (end - begin);
  const std::string sentence =
      absl::StrCat(why, "; ", rows_read, " of ", image.height_px(), " rows were read");
  if (!fill_damage_) return absl::InvalidArgumentError(sentence);
  for (int y = begin; y < end; ++y)
    std::memset(image.row(y), spec_.has_alpha() ? 0 : kMissingSample, image.spec.row_bytes());
  warnings.push_back(
      absl::StrCat(sentence, "; missing rows are ", spec_.has_alpha() ? "transparent" : "gray"));
  return absl::OkStatus();
}

}  // namespace upscaled
