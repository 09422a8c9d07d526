// A stored image, decoded as a whole for its first row. Private to engine/image.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/image/image.h"
#include "engine/image/stored_image.h"

namespace upscaled {

class WholeImage : public StoredImage {
 public:
  WholeImage(const ImageSpec& spec, bool fill_damage) : spec_(spec), fill_damage_(fill_damage) {}

  const ImageSpec& spec() const final { return spec_; }
  absl::Status ReadRows(MutableImageView rows) final;

 protected:
  // Decodes now, for callers with a need for the bytes behind the pixels; otherwise the first row
  // does.
  absl::Status DecodeNow();

  // Fills `image`, once.
  virtual absl::Status Decode(MutableImageView image) = 0;

  // The rows [`begin`, `end`) of `image`, a part of the whole, cannot be had. Returns an error with
  // `why`, or makes them gray or transparent for callers with a wish for filled images.
  absl::Status LackRows(MutableImageView image, int begin, int end, absl::string_view why);

 private:
  const ImageSpec spec_;
  const bool fill_damage_;
  Image image_;
  absl::Status status_;
  bool is_decoded_ = false;
  int next_row_ = 0;
};

}  // namespace upscaled
