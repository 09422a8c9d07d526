#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/heif_header.h"
#include "engine/image/orientation.h"
#include "engine/image/stored_image.h"

namespace upscaled {
namespace {

constexpr char kAvif[] = "AVIF";
// By measurement of dav1d and libavif, see memory_test.cc: planes of 16 bits for colour and alpha,
// and what blocks are predicted and filtered by.
constexpr size_t kDav1dBytes = size_t{24} << 20, kDav1dBytesPerPixel = 16;
// More than the pixels take without compression is no image's.
constexpr uint64_t kMaxFileBytesPerPixel = 16;

}  // namespace

absl::StatusOr<std::optional<ImageHeader>> ParseAvifHeader(std::span<const uint8_t> prefix,
                                                           const DecodeLimits& limits, bool) {
  ASSIGN_OR_RETURN(const std::optional<HeifLayout> layout, ParseHeifLayout(kAvif, prefix, limits));
  if (!layout.has_value()) return std::nullopt;
  const auto pixels = static_cast<uint64_t>(layout->size.Area());
  const uint64_t max_file_bytes = kMaxFileBytesPerPixel * pixels + limits.max_metadata_bytes;
  if (layout->file_end > max_file_bytes)
    return absl::InvalidArgumentError(absl::StrCat(kAvif, ": the data end at byte ",
                                                   layout->file_end, "; the limit for ", pixels,
                                                   " pixels is ", max_file_bytes));
  ImageHeader header;
  header.format = ImageFormat::kAvif;
  header.spec = {layout->size.width, layout->size.height,
                 (layout->is_gray ? 1 : 3) + (layout->has_alpha ? 1 : 0),
                 layout->bits > 8 ? SampleType::kU16 : SampleType::kU8};
  header.orientation = layout->orientation;
  if (layout->transfer == 16) header.hdr = "PQ";
  if (layout->transfer == 18) header.hdr = "HLG";
  if (layout->is_cropped)
    header.warnings.push_back(
        "AVIF: it states a part of the image to show (clap), which is not "
        "applied");
  if (HasBrand(prefix, "avis"))
    header.warnings.push_back(
        "AVIF: it is an animation: its primary image is computed, the frames are left out");
  header.prefix_bytes = HeaderBufferBytes(layout->meta_end);
  header.metadata_bytes =
      layout->profile_bytes + std::min<uint64_t>(layout->file_end, limits.max_metadata_bytes);
  header.decoder_bytes = header.prefix_bytes + 2 * layout->file_end + 2 * header.metadata_bytes +
                         kDav1dBytes + kDav1dBytesPerPixel * pixels + ImageBytes(header.spec);
  if (header.orientation != Orientation::kIdentity)
    header.decoder_bytes += UprightBytes(header.spec);
  if (SwapsSides(header.orientation)) std::swap(header.spec.width_px, header.spec.height_px);
  return header;
}

}  // namespace upscaled
