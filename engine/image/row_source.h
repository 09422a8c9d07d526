// An image as a stream of rows, top to bottom: the interface of decoders, pipeline stages and
// resizers.
#pragma once

#include "absl/status/status.h"
#include "engine/image/image.h"

namespace upscaled {

// Pulled by one thread. May block; a cancelled request makes ReadRows return the reason.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual const ImageSpec& spec() const = 0;
  // Fills `rows` (spec() in width, channels and type; any height up to the rest) with the next
  // rows.
  virtual absl::Status ReadRows(MutableImageView rows) = 0;
};

}  // namespace upscaled
