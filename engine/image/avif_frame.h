// An image as libavif encodes it. Private to engine/image.
#pragma once

#include <memory>

#include <avif/avif.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/image.h"
#include "engine/image/metadata.h"

namespace upscaled {

inline constexpr int kLosslessAvifQuality = 100;

struct DestroyAvif {
  void operator()(avifImage* image) const { avifImageDestroy(image); }
  void operator()(avifEncoder* encoder) const { avifEncoderDestroy(encoder); }
};
using AvifImage = std::unique_ptr<avifImage, DestroyAvif>;
using AvifEncoderHandle = std::unique_ptr<avifEncoder, DestroyAvif>;

// RESOURCE_EXHAUSTED, with the cause.
absl::Status AvifEncodingFault(avifResult result);

// The planes of `pixels`, 16 bits of them as 12, with the colours and blocks of `metadata`. Quality
// decides the colours' samples.
absl::StatusOr<AvifImage> MakeAvifImage(ImageView pixels, int quality,
                                        const ImageMetadata& metadata);

// An encoder on one thread, of a quality from 1 to 100 (lossless).
absl::StatusOr<AvifEncoderHandle> MakeAvifEncoder(int quality);

}  // namespace upscaled
