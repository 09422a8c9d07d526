// AVIF by libavif and libaom, on one thread, so that the bytes do not depend on the machine's.
#include <algorithm>
#include <memory>
#include <utility>

#include <avif/avif.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_list.h"
#include "engine/image/memory_io.h"
#include "engine/image/whole_image_encoder.h"

namespace upscaled {
namespace {

constexpr int kLosslessAvifQuality = 100;
// From here on colours keep all of their samples, as README.md says of WebP.
constexpr int kAllColoursQuality = 90;
constexpr int kAvifSpeed = 8;  // on a scale to 10; see README.md
constexpr int kAvifBits = 12;

struct DestroyAvifImage {
  void operator()(avifImage* image) const { avifImageDestroy(image); }
};
struct DestroyAvifEncoder {
  void operator()(avifEncoder* encoder) const { avifEncoderDestroy(encoder); }
};

class AvifEncoder final : public WholeImageEncoder {
 public:
  AvifEncoder(const ImageSpec& spec, int quality, const ImageMetadata& metadata, ByteSink& sink,
              const Cancellation* cancellation)
      : WholeImageEncoder(spec, metadata, sink, cancellation), quality_(quality) {}

 private:
  bool lossless() const { return quality_ == kLosslessAvifQuality; }

  std::unique_ptr<avifImage, DestroyAvifImage> MakeImage() const;
  void SetColours(avifImage& image) const;
  absl::Status FillPlanes(avifImage& image) const;
  void FillGray(avifImage& image) const;

  absl::Status Encode() override;

  const int quality_;
};

absl::Status AvifEncodingFault(avifResult result) {
  return absl::ResourceExhaustedError(
      absl::StrCat("AVIF: the image cannot be encoded (", avifResultToString(result), ")"));
}

std::unique_ptr<avifImage, DestroyAvifImage> AvifEncoder::MakeImage() const {
  const ImageSpec& spec = image_.spec();
  const bool all_colours = quality_ >= kAllColoursQuality;
  std::unique_ptr<avifImage, DestroyAvifImage> image(
      avifImageCreate(spec.width_px, spec.height_px, spec.type == SampleType::kU8 ? 8 : kAvifBits,
                      gray()        ? AVIF_PIXEL_FORMAT_YUV400
                      : all_colours ? AVIF_PIXEL_FORMAT_YUV444
                                    : AVIF_PIXEL_FORMAT_YUV420));
  if (image == nullptr) return nullptr;
  SetColours(*image);
  const auto bytes = [](const std::string& block) { return AsBytes(block).data(); };
  if (!metadata_.icc_profile.empty())
    avifImageSetProfileICC(image.get(), bytes(metadata_.icc_profile), metadata_.icc_profile.size());
  if (!metadata_.exif.empty())
    avifImageSetMetadataExif(image.get(), bytes(metadata_.exif), metadata_.exif.size());
  if (!metadata_.xmp.empty())
    avifImageSetMetadataXMP(image.get(), bytes(metadata_.xmp), metadata_.xmp.size());
  return image;
}

void AvifEncoder::SetColours(avifImage& image) const {
  image.yuvRange = AVIF_RANGE_FULL;
  image.colorPrimaries = AVIF_COLOR_PRIMARIES_BT709;
  image.transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_SRGB;
  image.matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT601;
  if (!metadata_.icc_profile.empty()) {
    image.colorPrimaries = AVIF_COLOR_PRIMARIES_UNSPECIFIED;
    image.transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_UNSPECIFIED;
  }
  const auto cicp = std::ranges::find(metadata_.colour_chunks, "cICP", &ColourChunk::type);
  if (cicp != metadata_.colour_chunks.end() && cicp->data.size() == 4) {
    image.colorPrimaries = AsBytes(cicp->data)[0];
    image.transferCharacteristics = AsBytes(cicp->data)[1];
    if (image.colorPrimaries == AVIF_COLOR_PRIMARIES_BT2020)
      image.matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT2020_NCL;
  }
  if (lossless() && !gray()) image.matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_IDENTITY;
}

// Writes gray, and alpha if there is one, into planes of their own.
void AvifEncoder::FillGray(avifImage& image) const {
  const ImageView pixels = image_.view();
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

absl::Status AvifEncoder::FillPlanes(avifImage& image) const {
  const ImageSpec& spec = image_.spec();
  if (gray()) {
    avifImageAllocatePlanes(&image, AVIF_PLANES_YUV | (spec.has_alpha() ? AVIF_PLANES_A : 0));
    if (image.yuvPlanes[0] == nullptr || (spec.has_alpha() && image.alphaPlane == nullptr))
      return AvifEncodingFault(AVIF_RESULT_OUT_OF_MEMORY);
    FillGray(image);
    return absl::OkStatus();
  }
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, &image);
  rgb.depth = spec.type == SampleType::kU8 ? 8 : 16;
  rgb.format = spec.has_alpha() ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  rgb.avoidLibYUV = AVIF_TRUE;  // whose arithmetic differs from machine to machine
  rgb.pixels = const_cast<uint8_t*>(image_.view().data);
  rgb.rowBytes = static_cast<uint32_t>(image_.view().stride_bytes);
  const avifResult result = avifImageRGBToYUV(&image, &rgb);
  return result == AVIF_RESULT_OK ? absl::OkStatus() : AvifEncodingFault(result);
}

absl::Status AvifEncoder::Encode() {
  const std::unique_ptr<avifImage, DestroyAvifImage> image = MakeImage();
  const std::unique_ptr<avifEncoder, DestroyAvifEncoder> encoder(avifEncoderCreate());
  if (image == nullptr || encoder == nullptr) return AvifEncodingFault(AVIF_RESULT_OUT_OF_MEMORY);
  RETURN_IF_ERROR(FillPlanes(*image));
  image_ = Image();

  encoder->maxThreads = 1;
  encoder->speed = kAvifSpeed;
  const int quantizer =
      ((kLosslessAvifQuality - quality_) * AVIF_QUANTIZER_WORST_QUALITY + 50) / 100;
  encoder->minQuantizer = encoder->maxQuantizer = quantizer;
  // Alpha is the first to show what is lost.
  encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = quantizer / 2;
  avifRWData encoded = AVIF_DATA_EMPTY;
  const avifResult result = avifEncoderWrite(encoder.get(), image.get(), &encoded);
  absl::Status status = result == AVIF_RESULT_OK ? absl::OkStatus() : AvifEncodingFault(result);
  if (status.ok()) status = WriteInPieces({encoded.data, encoded.size}, sink_);
  avifRWDataFree(&encoded);
  return status;
}

}  // namespace

size_t AvifEncoderBytes(const EncodeOptions&, const ImageSpec& spec) {
  // Measured with libavif 0.11.1 and libaom 3.6; see README.md.
  constexpr size_t kLibraryBytes = 64 << 20, kBytesPerPixel = 150;
  return kLibraryBytes + kBytesPerPixel * static_cast<size_t>(spec.size().Area());
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateAvifEncoder(const EncodeOptions& options,
                                                                const ImageSpec& spec,
                                                                const ImageMetadata& metadata,
                                                                ByteSink& sink,
                                                                const Cancellation* cancellation) {
  return std::make_unique<AvifEncoder>(spec, options.quality, metadata, sink, cancellation);
}

}  // namespace upscaled
