// AVIF by libavif and libaom, on one thread and without libyuv: the bytes do not depend on the
// machine's.
#include <memory>

#include "engine/base/status_macros.h"
#include "engine/image/avif_frame.h"
#include "engine/image/codec_list.h"
#include "engine/image/memory_io.h"
#include "engine/image/whole_image_encoder.h"

namespace upscaled {
namespace {

class AvifEncoder final : public WholeImageEncoder {
 public:
  AvifEncoder(const ImageSpec& spec, int quality, const ImageMetadata& metadata, ByteSink& sink,
              const Cancellation* cancellation)
      : WholeImageEncoder(spec, metadata, sink, cancellation), quality_(quality) {}

 private:
  absl::Status Encode() override;

  const int quality_;
};

absl::Status AvifEncoder::Encode() {
  ASSIGN_OR_RETURN(const AvifEncoderHandle encoder, MakeAvifEncoder(quality_));
  ASSIGN_OR_RETURN(const AvifImage image, MakeAvifImage(image_.view(), quality_, metadata_));
  image_ = Image();
  avifRWData encoded = AVIF_DATA_EMPTY;
  const avifResult result = avifEncoderWrite(encoder.get(), image.get(), &encoded);
  absl::Status status = result == AVIF_RESULT_OK ? absl::OkStatus() : AvifEncodingFault(result);
  if (status.ok()) status = WriteInPieces({encoded.data, encoded.size}, sink_);
  avifRWDataFree(&encoded);
  return status;
}

}  // namespace

size_t AvifEncoderBytes(const EncodeOptions&, const ImageSpec& spec) {
  // Measured with libavif 0.11.1 and libaom 3.6.
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
