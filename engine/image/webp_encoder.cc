#include <memory>
#include <utility>

#include <webp/encode.h>
#include <webp/mux.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

// From here on libwebp's iterations reduce colours to half the pixels, instead of means. They bring
// 2 to 6 dB for lines on a ground of another brightness, and nothing for those of equal brightness.
constexpr int kSharpQuality = 90;
// On a scale to 9. Level 2 takes 25 % more time for 1 % fewer bytes, level 0 half the time for 7 to
// 40 % more. Lossy files keep libwebp's method 4: method 2 takes half the time, for 1 to 3 % more
// bytes and 0.3 to 0.6 dB less.
constexpr int kLosslessLevel = 1;

struct DeleteMux {
  void operator()(WebPMux* mux) const { WebPMuxDelete(mux); }
};

// Collects the image; all the work is done in Finish.
class WebpEncoder final : public ImageEncoder {
 public:
  WebpEncoder(const ImageSpec& spec, ByteSink& sink, const Cancellation* cancellation)
      : spec_(spec), sink_(sink), cancellation_(cancellation) {}
  ~WebpEncoder() override { WebPPictureFree(&image_); }

  absl::Status Start(int quality, const ImageMetadata& metadata);
  absl::Status WriteRows(ImageView rows) override;
  void AddLateMetadata(ImageMetadata late) override { AddMissing(std::move(late), metadata_); }
  absl::Status Finish() override;

 private:
  static int OnEncoded(const uint8_t* bytes, size_t count, const WebPPicture* image) {
    auto* encoded = static_cast<StringSink*>(image->custom_ptr);
    return encoded->Write({bytes, count}).ok();
  }
  static int OnProgress(int, const WebPPicture* image) {
    const auto* cancellation = static_cast<const Cancellation*>(image->user_data);
    return !cancellation->IsCancelled();
  }
  absl::Status WriteWithMetadata(const std::string& encoded);

  const ImageSpec spec_;
  ByteSink& sink_;
  const Cancellation* const cancellation_;
  ImageMetadata metadata_;
  WebPConfig config_;
  WebPPicture image_ = {};
  int next_row_ = 0;
};

absl::Status WebpEncoder::Start(int quality, const ImageMetadata& metadata) {
  metadata_ = metadata;
  bool ok = WebPConfigInit(&config_) && WebPPictureInit(&image_);
  config_.quality = static_cast<float>(quality);
  config_.use_sharp_yuv = quality >= kSharpQuality ? 1 : 0;
  if (quality == kLosslessWebpQuality) {
    ok = ok && WebPConfigLosslessPreset(&config_, kLosslessLevel);
    config_.exact = 1;  // colours under transparent pixels too
  }
  image_.use_argb = 1;
  image_.width = spec_.width_px;
  image_.height = spec_.height_px;
  if (!ok || !WebPPictureAlloc(&image_))
    return absl::ResourceExhaustedError("WebP: no memory for the image");
  return absl::OkStatus();
}

absl::Status WebpEncoder::WriteRows(ImageView rows) {
  RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
  for (int y = 0; y < rows.height_px(); ++y, ++next_row_) {
    const uint8_t* src = rows.row(y);
    uint32_t* dst = image_.argb + ptrdiff_t{next_row_} * image_.argb_stride;
    for (int x = 0; x < spec_.width_px; ++x, src += spec_.channels) {
      const uint32_t alpha = spec_.has_alpha() ? src[3] : 255;
      dst[x] = alpha << 24 | src[0] << 16 | src[1] << 8 | src[2];
    }
  }
  return absl::OkStatus();
}

absl::Status WebpEncoder::Finish() {
  RETURN_IF_ERROR(CheckAllWritten(spec_, next_row_));
  StringSink encoded;
  image_.writer = OnEncoded;
  image_.custom_ptr = &encoded;
  if (cancellation_ != nullptr) {
    image_.progress_hook = OnProgress;
    image_.user_data = const_cast<Cancellation*>(cancellation_);
  }
  const bool ok = WebPEncode(&config_, &image_);
  WebPPictureFree(&image_);
  if (!ok && image_.error_code == VP8_ENC_ERROR_USER_ABORT) return cancellation_->status();
  if (!ok)
    return absl::ResourceExhaustedError(absl::StrCat(
        "WebP: the image cannot be encoded (libwebp's error ", image_.error_code, ")"));
  return BytesOf(metadata_) == 0 ? WriteInPieces(AsBytes(encoded.bytes()), sink_)
                                 : WriteWithMetadata(encoded.bytes());
}

absl::Status WebpEncoder::WriteWithMetadata(const std::string& encoded) {
  const WebPData image = {AsBytes(encoded).data(), encoded.size()};
  const std::unique_ptr<WebPMux, DeleteMux> mux(WebPMuxCreate(&image, /*copy_data=*/0));
  bool ok = mux != nullptr;
  const std::pair<const char*, const std::string&> chunks[] = {
      {"ICCP", metadata_.icc_profile}, {"EXIF", metadata_.exif}, {"XMP ", metadata_.xmp}};
  for (const auto& [type, block] : chunks) {
    const WebPData data = {AsBytes(block).data(), block.size()};
    ok = ok && (block.empty() || WebPMuxSetChunk(mux.get(), type, &data, 0) == WEBP_MUX_OK);
  }
  WebPData file;
  if (!ok || WebPMuxAssemble(mux.get(), &file) != WEBP_MUX_OK)
    return absl::ResourceExhaustedError("WebP: no memory to add the metadata");
  const absl::Status status = WriteInPieces({file.bytes, file.size}, sink_);
  WebPDataClear(&file);
  return status;
}

}  // namespace

size_t WebpEncoderBytes(const EncodeOptions&, const ImageSpec& spec) {
  // Measured with libwebp 1.2.4: up to 38 bytes a pixel.
  constexpr size_t kLibraryBytes = 8 << 20, kBytesPerPixel = 40;
  return kLibraryBytes + kBytesPerPixel * static_cast<size_t>(spec.size().Area());
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateWebpEncoder(const EncodeOptions& options,
                                                                const ImageSpec& spec,
                                                                const ImageMetadata& metadata,
                                                                ByteSink& sink,
                                                                const Cancellation* cancellation) {
  auto encoder = std::make_unique<WebpEncoder>(spec, sink, cancellation);
  RETURN_IF_ERROR(encoder->Start(options.quality, metadata));
  return encoder;
}

}  // namespace upscaled
