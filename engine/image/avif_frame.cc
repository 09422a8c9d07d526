#include "engine/image/avif_frame.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

// From here on colours keep all of their samples: halved ones dim thin coloured lines.
constexpr int kAllColoursQuality = 90;
constexpr int kAvifSpeed = 8;  // on a scale to 10
constexpr int kAvifBits = 12;

bool IsGray(ImageView pixels) { return pixels.spec.channels < kRgbChannels; }

void SetAvifColours(bool identity, const ImageMetadata& metadata, avifImage& image) {
  image.yuvRange = AVIF_RANGE_FULL;
  image.colorPrimaries = AVIF_COLOR_PRIMARIES_BT709;
  image.transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_SRGB;
  image.matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT601;
  if (!metadata.icc_profile.empty()) {
    image.colorPrimaries = AVIF_COLOR_PRIMARIES_UNSPECIFIED;
    image.transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_UNSPECIFIED;
  }
  const auto cicp = std::ranges::find(metadata.colour_chunks, "cICP", &ColourChunk::type);
  if (cicp != metadata.colour_chunks.end() && cicp->data.size() == 4) {
    image.colorPrimaries = AsBytes(cicp->data)[0];
    image.transferCharacteristics = AsBytes(cicp->data)[1];
    if (image.colorPrimaries == AVIF_COLOR_PRIMARIES_BT2020)
      image.matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT2020_NCL;
  }
  if (identity) image.matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_IDENTITY;
}

void SetAvifBlocks(const ImageMetadata& metadata, avifImage& image) {
  const auto bytes = [](const std::string& block) { return AsBytes(block).data(); };
  if (!metadata.icc_profile.empty())
    avifImageSetProfileICC(&image, bytes(metadata.icc_profile), metadata.icc_profile.size());
  if (!metadata.exif.empty())
    avifImageSetMetadataExif(&image, bytes(metadata.exif), metadata.exif.size());
  if (!metadata.xmp.empty())
    avifImageSetMetadataXMP(&image, bytes(metadata.xmp), metadata.xmp.size());
}

// Writes gray, and alpha if there is one, into planes of their own.
void FillAvifGray(ImageView pixels, avifImage& image) {
  const int channels = pixels.spec.channels;
  uint8_t* const planes[] = {image.yuvPlanes[0], image.alphaPlane};
  const uint32_t strides[] = {image.yuvRowBytes[0], image.alphaRowBytes};
  for (int y = 0; y < pixels.height_px(); ++y)
    for (int c = 0; c < channels; ++c) {
      uint8_t* const dst = planes[c] + size_t{strides[c]} * y;
      for (int x = 0; x < pixels.width_px(); ++x) {
        if (pixels.spec.type == SampleType::kU8) {
          dst[x] = pixels.row(y)[channels * x + c];
        } else {
          constexpr uint32_t kMost = (1 << kAvifBits) - 1;
          const uint32_t sample = pixels.row_as<uint16_t>(y)[channels * x + c];
          reinterpret_cast<uint16_t*>(dst)[x] = (sample * kMost + UINT16_MAX / 2) / UINT16_MAX;
        }
      }
    }
}

absl::Status FillAvifPlanes(ImageView pixels, avifImage& image) {
  const ImageSpec& spec = pixels.spec;
  if (IsGray(pixels)) {
    avifImageAllocatePlanes(&image, AVIF_PLANES_YUV | (spec.has_alpha() ? AVIF_PLANES_A : 0));
    if (image.yuvPlanes[0] == nullptr || (spec.has_alpha() && image.alphaPlane == nullptr))
      return AvifEncodingFault(AVIF_RESULT_OUT_OF_MEMORY);
    FillAvifGray(pixels, image);
    return absl::OkStatus();
  }
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, &image);
  rgb.depth = spec.type == SampleType::kU8 ? 8 : 16;
  rgb.format = spec.has_alpha() ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  rgb.avoidLibYUV = AVIF_TRUE;  // whose arithmetic differs from machine to machine
  rgb.pixels = const_cast<uint8_t*>(pixels.data);
  rgb.rowBytes = static_cast<uint32_t>(pixels.stride_bytes);
  const avifResult result = avifImageRGBToYUV(&image, &rgb);
  return result == AVIF_RESULT_OK ? absl::OkStatus() : AvifEncodingFault(result);
}

}  // namespace

absl::Status AvifEncodingFault(avifResult result) {
  return absl::ResourceExhaustedError(
      absl::StrCat("AVIF: the image cannot be encoded (", avifResultToString(result), ")"));
}

absl::StatusOr<AvifImage> MakeAvifImage(ImageView pixels, int quality,
                                        const ImageMetadata& metadata) {
  const bool gray = IsGray(pixels), all_colours = quality >= kAllColoursQuality;
  AvifImage image(avifImageCreate(pixels.width_px(), pixels.height_px(),
                                  pixels.spec.type == SampleType::kU8 ? 8 : kAvifBits,
                                  gray          ? AVIF_PIXEL_FORMAT_YUV400
                                  : all_colours ? AVIF_PIXEL_FORMAT_YUV444
                                                : AVIF_PIXEL_FORMAT_YUV420));
  if (image == nullptr) return AvifEncodingFault(AVIF_RESULT_OUT_OF_MEMORY);
  SetAvifColours(/*identity=*/quality == kLosslessAvifQuality && !gray, metadata, *image);
  SetAvifBlocks(metadata, *image);
  RETURN_IF_ERROR(FillAvifPlanes(pixels, *image));
  return image;
}

absl::StatusOr<AvifEncoderHandle> MakeAvifEncoder(int quality) {
  AvifEncoderHandle encoder(avifEncoderCreate());
  if (encoder == nullptr) return AvifEncodingFault(AVIF_RESULT_OUT_OF_MEMORY);
  encoder->maxThreads = 1;
  encoder->speed = kAvifSpeed;
  const int quantizer =
      ((kLosslessAvifQuality - quality) * AVIF_QUANTIZER_WORST_QUALITY + 50) / 100;
  encoder->minQuantizer = encoder->maxQuantizer = quantizer;
  // Alpha is the first to show a loss.
  encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = quantizer / 2;
  return encoder;
}

}  // namespace upscaled
