#include <bit>

#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/png_session.h"

namespace upscaled {
namespace {

// One IDAT chunk, and so one write to the sink.
constexpr size_t kChunkBytes = 64 << 10;
// zlib's state at its largest window, libpng's structures.
constexpr size_t kLibraryBytes = 512 << 10;

class PngEncoder final : public ImageEncoder {
 public:
  PngEncoder(const ImageSpec& spec, ByteSink& sink) : spec_(spec), sink_(sink) {}
  ~PngEncoder() override { png_destroy_write_struct(&png_, &info_); }

  absl::Status Start(int compression, const ImageMetadata& metadata);
  absl::Status WriteRows(ImageView rows) override;
  absl::Status Finish() override;

 private:
  static void OnWrite(png_structp png, png_bytep bytes, size_t count) {
    auto* self = static_cast<PngEncoder*>(png_get_io_ptr(png));
    if (!self->Drain(bytes, count)) png_error(png, "the sink failed");
  }
  // The pieces of a chunk go to the sink together.
  bool Drain(const uint8_t* bytes, size_t count);
  bool Flush();

  void WriteInfo(int compression, const std::string& icc_profile);

  const ImageSpec spec_;
  ByteSink& sink_;
  PngSession session_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<uint8_t> pending_;
  int next_row_ = 0;
};

bool PngEncoder::Drain(const uint8_t* bytes, size_t count) {
  pending_.insert(pending_.end(), bytes, bytes + count);
  return pending_.size() < kChunkBytes || Flush();
}

bool PngEncoder::Flush() {
  if (!pending_.empty()) session_.Fail(sink_.Write(pending_));
  pending_.clear();
  return session_.status().ok();
}

// Runs guarded.
void PngEncoder::WriteInfo(int compression, const std::string& icc_profile) {
  constexpr int kColorTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
  png_set_write_fn(png_, this, OnWrite, nullptr);
  png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  // A profile that libpng takes for invalid is left out, as it is by the decoder.
  png_set_benign_errors(png_, 1);
  png_set_IHDR(png_, info_, spec_.width_px, spec_.height_px, 8 * SampleBytes(spec_.type),
               kColorTypes[spec_.channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
               PNG_FILTER_TYPE_BASE);
  if (!icc_profile.empty())
    png_set_iCCP(png_, info_, "icc", PNG_COMPRESSION_TYPE_BASE,
                 reinterpret_cast<png_const_bytep>(icc_profile.data()), icc_profile.size());
  png_set_compression_level(png_, compression);
  png_set_compression_buffer_size(png_, kChunkBytes);
  // One filter for all rows: the choice per row costs more time than it saves; see README.md.
  png_set_filter(png_, PNG_FILTER_TYPE_BASE, PNG_FILTER_UP);
  png_write_info(png_, info_);
  if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);
}

absl::Status PngEncoder::Start(int compression, const ImageMetadata& metadata) {
  png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &session_, PngSession::OnError,
                                 PngSession::OnWarning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  if (info_ == nullptr) return absl::ResourceExhaustedError("PNG: no memory for libpng");
  const std::string& icc_profile = metadata.icc_profile;
  return session_.RunGuarded(
      png_, [this, compression, &icc_profile] { WriteInfo(compression, icc_profile); });
}

absl::Status PngEncoder::WriteRows(ImageView rows) {
  RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
  return session_.RunGuarded(png_, [this, &rows] {
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_) png_write_row(png_, rows.row(y));
  });
}

absl::Status PngEncoder::Finish() {
  RETURN_IF_ERROR(CheckAllWritten(spec_, next_row_));
  RETURN_IF_ERROR(session_.RunGuarded(png_, [this] { png_write_end(png_, nullptr); }));
  Flush();
  return session_.status();
}

}  // namespace

size_t PngEncoderBytes(const EncodeOptions&, const ImageSpec& spec) {
  // libpng keeps the row, the one above it and the filtered one.
  return kLibraryBytes + 3 * kChunkBytes + 3 * spec.row_bytes();
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreatePngEncoder(const EncodeOptions& options,
                                                               const ImageSpec& spec,
                                                               const ImageMetadata& metadata,
                                                               ByteSink& sink,
                                                               const Cancellation*) {
  auto encoder = std::make_unique<PngEncoder>(spec, sink);
  RETURN_IF_ERROR(encoder->Start(options.compression, metadata));
  return encoder;
}

}  // namespace upscaled
