#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/jpeg_session.h"
#include "engine/image/orientation.h"

namespace upscaled {
namespace {

constexpr size_t kInputBytes = 64 << 10;
constexpr int kIccMarker = JPEG_APP0 + 2;
constexpr unsigned kWholeSegment = 0xFFFF;

// The image as it is stored, not turned. Derives from the session so that libjpeg's callbacks
// find it.
class JpegReader final : public RowSource, private JpegSession {
 public:
  JpegReader(std::unique_ptr<ReplaySource> source, const ImageSpec& spec,
             const DecodeLimits& limits, const Cancellation* cancellation);
  ~JpegReader() override { jpeg_destroy_decompress(&info_); }

  // Reads up to the first scan.
  absl::Status Start(std::string& icc_profile);

  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  static JpegReader& Reader(j_decompress_ptr info) { return static_cast<JpegReader&>(Of(info)); }
  static void OnStartOrEndOfSource(j_decompress_ptr) {}
  static boolean OnFill(j_decompress_ptr info);
  static void OnSkip(j_decompress_ptr info, long count);
  static void OnProgress(j_common_ptr info);
  bool Fill();
  // Whether the next rows are wanted; records why not.
  bool MayGoOn();

  void ReadInfo(JOCTET** profile, unsigned* profile_bytes);
  absl::Status CheckAgainstHeader() const;
  void ReadRow(uint8_t* dst);

  const std::unique_ptr<ReplaySource> source_;
  const ImageSpec spec_;
  const DecodeLimits limits_;
  const Cancellation* const cancellation_;
  jpeg_decompress_struct info_ = {};
  jpeg_source_mgr input_ = {};
  jpeg_progress_mgr progress_ = {};
  std::array<JOCTET, kInputBytes> input_bytes_;
  std::vector<uint8_t> cmyk_row_;  // empty unless the image is CMYK
  bool started_ = false;
};

JpegReader::JpegReader(std::unique_ptr<ReplaySource> source, const ImageSpec& spec,
                       const DecodeLimits& limits, const Cancellation* cancellation)
    : source_(std::move(source)), spec_(spec), limits_(limits), cancellation_(cancellation) {
  info_.err = error_manager();
  info_.client_data = static_cast<JpegSession*>(this);
  input_.init_source = OnStartOrEndOfSource;
  input_.fill_input_buffer = OnFill;
  input_.skip_input_data = OnSkip;
  input_.resync_to_restart = jpeg_resync_to_restart;
  input_.term_source = OnStartOrEndOfSource;
  progress_.progress_monitor = OnProgress;
}

boolean JpegReader::OnFill(j_decompress_ptr info) {
  if (!Reader(info).Fill()) Reader(info).Leave();
  return TRUE;
}

void JpegReader::OnSkip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  size_t rest = static_cast<size_t>(count);
  while (rest > info->src->bytes_in_buffer) {
    rest -= info->src->bytes_in_buffer;
    OnFill(info);
  }
  info->src->next_input_byte += rest;
  info->src->bytes_in_buffer -= rest;
}

// Called for each row of blocks while the scans of an image with several are read, which is before
// its first row, and then for each row.
void JpegReader::OnProgress(j_common_ptr info) {
  JpegReader& reader = static_cast<JpegReader&>(Of(info));
  if (!reader.MayGoOn()) reader.Leave();
}

bool JpegReader::Fill() {
  const absl::StatusOr<size_t> count = source_->Read(input_bytes_);
  if (!count.ok()) {
    Fail(count.status());
    return false;
  }
  if (*count == 0) {
    Fail(absl::InvalidArgumentError(absl::StrCat("JPEG: the file is truncated; ",
                                                 info_.output_scanline, " of ", spec_.height_px,
                                                 " rows were read")));
    return false;
  }
  input_.next_input_byte = input_bytes_.data();
  input_.bytes_in_buffer = *count;
  return true;
}

bool JpegReader::MayGoOn() {
  if (cancellation_ != nullptr) Fail(cancellation_->status());
  if (info_.input_scan_number > limits_.max_jpeg_scans)
    Fail(BeyondLimit(limits_, DecodeLimit::kJpegScans, info_.input_scan_number,
                     absl::StrCat("JPEG: the image has at least ", info_.input_scan_number,
                                  " scans; the limit is ", limits_.max_jpeg_scans)));
  return status().ok();
}

// Runs guarded.
void JpegReader::ReadInfo(JOCTET** profile, unsigned* profile_bytes) {
  jpeg_create_decompress(&info_);
  info_.src = &input_;
  info_.progress = &progress_;
  jpeg_save_markers(&info_, kIccMarker, kWholeSegment);
  jpeg_read_header(&info_, TRUE);
  jpeg_save_markers(&info_, kIccMarker, 0);  // those between the scans are not kept
  if (info_.num_components == 4) {
    // A CMYK profile does not describe the RGB that we give.
    info_.out_color_space = JCS_CMYK;
  } else {
    info_.out_color_space = info_.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_read_icc_profile(&info_, profile, profile_bytes);
  }
}

absl::Status JpegReader::CheckAgainstHeader() const {
  if (info_.image_width == static_cast<unsigned>(spec_.width_px) &&
      info_.image_height == static_cast<unsigned>(spec_.height_px) &&
      (info_.num_components == 1) == (spec_.channels == 1))
    return absl::OkStatus();
  return absl::InvalidArgumentError("JPEG: its segments contradict each other");
}

absl::Status JpegReader::Start(std::string& icc_profile) {
  JOCTET* profile = nullptr;
  unsigned profile_bytes = 0;
  RETURN_IF_ERROR(
      RunGuarded([this, &profile, &profile_bytes] { ReadInfo(&profile, &profile_bytes); }));
  if (profile != nullptr) icc_profile.assign(reinterpret_cast<char*>(profile), profile_bytes);
  std::free(profile);
  if (info_.num_components == 4) cmyk_row_.resize(size_t{4} * spec_.width_px);
  return CheckAgainstHeader();
}

// Ink coverages as they are, or inverted (255 is no ink) as Adobe's programs store them.
void CmykToRgb(const uint8_t* cmyk, bool inverted, int width, uint8_t* rgb) {
  const int flip = inverted ? 0 : 255;
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; ++c) rgb[c] = ((cmyk[c] ^ flip) * (cmyk[3] ^ flip) + 127) / 255;
}

// Runs guarded.
void JpegReader::ReadRow(uint8_t* dst) {
  JSAMPROW row = cmyk_row_.empty() ? dst : cmyk_row_.data();
  jpeg_read_scanlines(&info_, &row, 1);
  if (!cmyk_row_.empty()) CmykToRgb(row, info_.saw_Adobe_marker, spec_.width_px, dst);
}

absl::Status JpegReader::ReadRows(MutableImageView rows) {
  RETURN_IF_ERROR(status());
  RETURN_IF_ERROR(CheckRows(spec_, info_.output_scanline, rows.spec));
  return RunGuarded([this, &rows] {
    if (!started_) jpeg_start_decompress(&info_);
    started_ = true;
    for (int y = 0; y < rows.height_px(); ++y) {
      ReadRow(rows.row(y));
      // The end of the file after the last row must be whole as well.
      if (info_.output_scanline == info_.output_height) jpeg_finish_decompress(&info_);
    }
  });
}

class JpegDecoder final : public ImageDecoder {
 public:
  JpegDecoder(std::unique_ptr<ReplaySource> source, const ImageHeader& header,
              const ImageSpec& stored, const DecodeLimits& limits, const Cancellation* cancellation)
      : header_(header), reader_(std::move(source), stored, limits, cancellation) {
    if (header.orientation != Orientation::kIdentity)
      upright_ = MakeUpright(reader_, header.orientation);
  }

  absl::Status Start() { return reader_.Start(metadata_.icc_profile); }

  const ImageSpec& spec() const override { return header_.spec; }
  const ImageHeader& header() const override { return header_; }
  const ImageMetadata& metadata() const override { return metadata_; }
  absl::Status ReadRows(MutableImageView rows) override {
    return upright_ != nullptr ? upright_->ReadRows(rows) : reader_.ReadRows(rows);
  }

 private:
  const ImageHeader header_;
  ImageMetadata metadata_;
  JpegReader reader_;
  std::unique_ptr<RowSource> upright_;  // null when the image is stored upright
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpegDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits,
                                                              const Cancellation* cancellation) {
  ImageSpec stored = header.spec;
  if (SwapsSides(header.orientation)) std::swap(stored.width_px, stored.height_px);
  auto decoder =
      std::make_unique<JpegDecoder>(std::move(source), header, stored, limits, cancellation);
  RETURN_IF_ERROR(decoder->Start());
  return decoder;
}

}  // namespace upscaled
