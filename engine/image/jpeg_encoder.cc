#include <array>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/jpeg_metadata.h"
#include "engine/image/jpeg_session.h"

namespace upscaled {
namespace {

constexpr size_t kOutputBytes = 64 << 10;
constexpr size_t kLibraryBytes = 384 << 10;
// From here on colours are stored at full resolution; below, at half of it.
constexpr int kFullChromaQuality = 90;

// Derives from the session: libjpeg's callbacks find it.
class JpegEncoder final : public ImageEncoder, private JpegSession {
 public:
  JpegEncoder(const ImageSpec& spec, ByteSink& sink);
  ~JpegEncoder() override { jpeg_destroy_compress(&info_); }

  absl::Status Start(int quality, const ImageMetadata& metadata);
  absl::Status WriteRows(ImageView rows) override;
  absl::Status Finish() override;

 private:
  static JpegEncoder& Encoder(j_compress_ptr info) { return static_cast<JpegEncoder&>(Of(info)); }
  static void OnStart(j_compress_ptr info) { Encoder(info).ResetOutput(); }
  static boolean OnFull(j_compress_ptr info);
  static void OnEnd(j_compress_ptr info);
  void ResetOutput();
  bool Flush(size_t count);

  void WriteInfo(int quality, const ImageMetadata& metadata,
                 const std::vector<JpegSegment>& segments);

  const ImageSpec spec_;
  ByteSink& sink_;
  jpeg_compress_struct info_ = {};
  jpeg_destination_mgr output_ = {};
  std::array<JOCTET, kOutputBytes> output_bytes_;
};

JpegEncoder::JpegEncoder(const ImageSpec& spec, ByteSink& sink) : spec_(spec), sink_(sink) {
  info_.err = error_manager();
  info_.client_data = static_cast<JpegSession*>(this);
  output_.init_destination = OnStart;
  output_.empty_output_buffer = OnFull;
  output_.term_destination = OnEnd;
}

void JpegEncoder::ResetOutput() {
  output_.next_output_byte = output_bytes_.data();
  output_.free_in_buffer = output_bytes_.size();
}

bool JpegEncoder::Flush(size_t count) {
  Fail(sink_.Write({output_bytes_.data(), count}));
  ResetOutput();
  return status().ok();
}

boolean JpegEncoder::OnFull(j_compress_ptr info) {
  if (!Encoder(info).Flush(kOutputBytes)) Encoder(info).Leave();
  return TRUE;
}

void JpegEncoder::OnEnd(j_compress_ptr info) {
  const size_t count = kOutputBytes - info->dest->free_in_buffer;
  if (count > 0 && !Encoder(info).Flush(count)) Encoder(info).Leave();
}

// Runs guarded.
void JpegEncoder::WriteInfo(int quality, const ImageMetadata& metadata,
                            const std::vector<JpegSegment>& segments) {
  jpeg_create_compress(&info_);
  info_.dest = &output_;
  info_.image_width = spec_.width_px;
  info_.image_height = spec_.height_px;
  info_.input_components = spec_.channels;
  info_.in_color_space = spec_.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info_);
  jpeg_set_quality(&info_, quality, TRUE);
  const int sampling = quality >= kFullChromaQuality ? 1 : 2;
  info_.comp_info[0].h_samp_factor = info_.comp_info[0].v_samp_factor =
      spec_.channels == 1 ? 1 : sampling;
  if (metadata.density.has_value()) SetJpegDensity(*metadata.density, info_);
  jpeg_start_compress(&info_, TRUE);
  for (const JpegSegment& segment : segments)
    jpeg_write_marker(&info_, segment.marker,
                      reinterpret_cast<const JOCTET*>(segment.payload.data()),
                      static_cast<unsigned>(segment.payload.size()));
  const std::string& icc_profile = metadata.icc_profile;
  if (!icc_profile.empty())
    jpeg_write_icc_profile(&info_, reinterpret_cast<const JOCTET*>(icc_profile.data()),
                           icc_profile.size());
}

absl::Status JpegEncoder::Start(int quality, const ImageMetadata& metadata) {
  const std::vector<JpegSegment> segments = JpegSegmentsOf(metadata);
  return RunGuarded(
      [this, quality, &metadata, &segments] { WriteInfo(quality, metadata, segments); });
}

absl::Status JpegEncoder::WriteRows(ImageView rows) {
  RETURN_IF_ERROR(CheckRows(spec_, info_.next_scanline, rows.spec));
  return RunGuarded([this, &rows] {
    for (int y = 0; y < rows.height_px(); ++y) {
      JSAMPROW row = const_cast<JSAMPROW>(rows.row(y));  // libjpeg only reads it
      jpeg_write_scanlines(&info_, &row, 1);
    }
  });
}

absl::Status JpegEncoder::Finish() {
  RETURN_IF_ERROR(CheckAllWritten(spec_, info_.next_scanline));
  return RunGuarded([this] { jpeg_finish_compress(&info_); });
}

}  // namespace

size_t JpegEncoderBytes(const EncodeOptions&, const ImageSpec& spec) {
  // One row of blocks at double height, converted and subsampled, with context rows.
  constexpr size_t kRows = 3 * 16;
  return kLibraryBytes + kRows * (spec.row_bytes() + 16 * spec.pixel_bytes());
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateJpegEncoder(const EncodeOptions& options,
                                                                const ImageSpec& spec,
                                                                const ImageMetadata& metadata,
                                                                ByteSink& sink,
                                                                const Cancellation*) {
  auto encoder = std::make_unique<JpegEncoder>(spec, sink);
  RETURN_IF_ERROR(encoder->Start(options.quality, metadata));
  return encoder;
}

}  // namespace upscaled
