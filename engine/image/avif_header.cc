#include "engine/base/status_macros.h"
#include "engine/image/codec_list.h"
#include "engine/image/heif_header.h"

namespace upscaled {
namespace {

constexpr char kAvif[] = "AVIF";
// By measurement of dav1d and libavif, see memory_test.cc: planes of 16 bits for colour and alpha,
// and the state for predicting and filtering blocks.
constexpr size_t kDav1dBytes = size_t{24} << 20, kDav1dBytesPerPixel = 16;

}  // namespace

absl::StatusOr<std::optional<ImageHeader>> ParseAvifHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits, bool) {
  ASSIGN_OR_RETURN(const std::optional<HeifLayout> layout, ParseHeifLayout(kAvif, prefix, limits));
  if (!layout.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(ImageHeader header,
                   MakeHeifHeader(kAvif, *layout, kDav1dBytes, kDav1dBytesPerPixel, limits));
  header.format = ImageFormat::kAvif;
  header.may_move = HasBrand(prefix, "avis");
  if (header.may_move && limits.warns_of_frames)
    header.warnings.push_back(
        "AVIF: it is an animation: its primary image is computed, the frames are left out");
  return header;
}

}  // namespace upscaled
