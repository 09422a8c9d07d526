#include "engine/image/avif_pixels.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/image/convert.h"

namespace upscaled {

absl::Status ConvertAvifImage(const char* name, const avifImage& frame,
                              const std::optional<Rect>& crop, MutableImageView image) {
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, &frame);
  rgb.depth = image.spec.type == SampleType::kU16 ? 16 : 8;
  rgb.format = image.spec.has_alpha() ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  rgb.avoidLibYUV = AVIF_TRUE;  // whose arithmetic differs from machine to machine
  // The library gives RGB, and all of it.
  const bool is_gray = image.spec.channels < kRgbChannels;
  Image whole;
  MutableImageView target = image;
  if (is_gray || crop.has_value()) {
    whole = Image({static_cast<int>(frame.width), static_cast<int>(frame.height),
                   image.spec.has_alpha() ? 4 : 3, image.spec.type});
    target = whole.mutable_view();
  }
  rgb.pixels = target.data;
  rgb.rowBytes = static_cast<uint32_t>(target.stride_bytes);
  const avifResult result = avifImageYUVToRGB(&frame, &rgb);
  if (result == AVIF_RESULT_OUT_OF_MEMORY)
    return absl::ResourceExhaustedError(absl::StrCat(name, ": no memory"));
  if (result == AVIF_RESULT_REFORMAT_FAILED)
    return absl::UnimplementedError(
        absl::StrCat(name, ": colours by the matrix ", frame.matrixCoefficients, " (H.273) in ",
                     avifPixelFormatToString(frame.yuvFormat), " are not read"));
  if (result != AVIF_RESULT_OK)
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": its colours cannot be converted (", avifResultToString(result), ")"));
  if (target.data == image.data) return absl::OkStatus();
  ConvertPixels(crop.has_value() ? whole.view().Crop(*crop) : whole.view(), image);
  return absl::OkStatus();
}

void AddCicp(const avifImage& frame, ImageMetadata& metadata) {
  auto primaries = frame.colorPrimaries;
  auto transfer = frame.transferCharacteristics;
  if (primaries == AVIF_COLOR_PRIMARIES_UNSPECIFIED) primaries = AVIF_COLOR_PRIMARIES_BT709;
  if (transfer == AVIF_TRANSFER_CHARACTERISTICS_UNSPECIFIED)
    transfer = AVIF_TRANSFER_CHARACTERISTICS_SRGB;
  const bool is_srgb =
      primaries == AVIF_COLOR_PRIMARIES_BT709 && transfer == AVIF_TRANSFER_CHARACTERISTICS_SRGB;
  if (!metadata.icc_profile.empty() || is_srgb) return;
  metadata.colour_chunks.push_back(
      {.type = "cICP", .data = {static_cast<char>(primaries), static_cast<char>(transfer), 0, 1}});
}

}  // namespace upscaled
