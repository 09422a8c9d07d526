// An encoder with a need for the whole image at once. Private to engine/image.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "engine/base/cancellation.h"
#include "engine/image/codec.h"
#include "engine/image/image.h"

namespace upscaled {

// Collects the image; Encode does all the work, in Finish.
class WholeImageEncoder : public ImageEncoder {
 public:
  // `sink` and `cancellation` (may be null) must outlive it.
  WholeImageEncoder(const ImageSpec& spec, const ImageMetadata& metadata, ByteSink& sink,
                    const Cancellation* cancellation)
      : sink_(sink), metadata_(metadata), image_(spec), cancellation_(cancellation) {}

  absl::Status WriteRows(ImageView rows) final;
  void AddLateMetadata(ImageMetadata late) final { AddMissing(std::move(late), metadata_); }
  absl::Status Finish() final;

 protected:
  virtual absl::Status Encode() = 0;

  bool gray() const { return image_.spec().channels < kRgbChannels; }

  ByteSink& sink_;
  ImageMetadata metadata_;
  Image image_;

 private:
  const Cancellation* const cancellation_;
  int next_row_ = 0;
};

}  // namespace upscaled
