#include "engine/image/stored_image.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/exif.h"
#include "engine/image/orientation.h"

namespace upscaled {
namespace {

class Decoder final : public ImageDecoder {
 public:
  Decoder(const ImageHeader& header, std::unique_ptr<StoredImage> stored)
      : ImageDecoder(header), stored_(std::move(stored)) {
    metadata_ = std::move(stored_->metadata);
    TurnDensity(header.orientation, metadata_);
    warnings_ = stored_->warnings;
    if (header.orientation != Orientation::kIdentity)
      upright_ = MakeUpright(*stored_, header.orientation);
  }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(CheckRows(spec(), next_row_, rows.spec));
    RETURN_IF_ERROR(upright_ != nullptr ? upright_->ReadRows(rows) : stored_->ReadRows(rows));
    next_row_ += rows.height_px();
    if (next_row_ < spec().height_px) return absl::OkStatus();
    warnings_ = stored_->warnings;
    late_metadata_ = stored_->late_metadata;
    TurnDensity(header().orientation, late_metadata_);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<StoredImage> stored_;
  std::unique_ptr<RowSource> upright_;  // null when the image is stored upright
  int next_row_ = 0;
};

}  // namespace

ImageSpec StoredSpec(const ImageHeader& header) {
  ImageSpec stored = header.spec;
  if (SwapsSides(header.orientation)) std::swap(stored.width_px, stored.height_px);
  return stored;
}

std::unique_ptr<ImageDecoder> MakeDecoder(const ImageHeader& header,
                                          std::unique_ptr<StoredImage> stored) {
  return std::make_unique<Decoder>(header, std::move(stored));
}

}  // namespace upscaled
