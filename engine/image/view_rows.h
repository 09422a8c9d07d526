// An image in memory as a stream of rows.
#pragma once

#include <cstring>

#include "absl/status/status.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"

namespace upscaled {

// Gives the rows of `view`. Its pixels must outlive it.
class ViewRows final : public RowSource {
 public:
  explicit ViewRows(ImageView view) : view_(view) {}

  const ImageSpec& spec() const override { return view_.spec; }
  absl::Status ReadRows(MutableImageView rows) override {
    if (rows.height_px() > view_.height_px() - next_row_)
      return absl::InternalError("rows past the end were asked for");
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_)
      std::memcpy(rows.row(y), view_.row(next_row_), view_.spec.row_bytes());
    return absl::OkStatus();
  }

 private:
  ImageView view_;
  int next_row_ = 0;
};

}  // namespace upscaled
