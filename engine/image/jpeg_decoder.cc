#include <algorithm>
#include <array>
#include <bitset>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/colour_profile.h"
#include "engine/image/jpeg_metadata.h"
#include "engine/image/jpeg_session.h"
#include "engine/image/stored_image.h"

namespace upscaled {
namespace {

constexpr size_t kInputBytes = 64 << 10;
// Segments of metadata: APP1, APP2 (profiles), APP13, comments.
constexpr int kMetadataMarkers[] = {JPEG_APP0 + 1, JPEG_APP0 + 2, JPEG_APP0 + 13, JPEG_COM};
constexpr unsigned kWholeSegment = 0xFFFF;
constexpr JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};

// The image as it is stored, not turned. Derives from the session: libjpeg's callbacks find it.
class JpegReader final : public StoredImage, private JpegSession {
 public:
  JpegReader(std::unique_ptr<ReplaySource> source, const ImageSpec& spec,
             const DecodeLimits& limits, const Cancellation* cancellation);
  ~JpegReader() override { jpeg_destroy_decompress(&info_); }

  // Reads up to the first scan.
  absl::Status Start();

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
  void ReadScans();
  bool AllScansCame() const;
  void ReadRow(uint8_t* dst);
  absl::Status ReadNextRows(MutableImageView rows);
  // After the last row: adds a sentence about damage without a lost pixel, or with filled ones.
  void WarnOfDamage();
  absl::Status Truncated() const;

  const std::unique_ptr<ReplaySource> source_;
  const ImageSpec spec_;
  const DecodeLimits limits_;
  const Cancellation* const cancellation_;
  jpeg_decompress_struct info_ = {};
  jpeg_source_mgr input_ = {};
  jpeg_progress_mgr progress_ = {};
  std::array<JOCTET, kInputBytes> input_bytes_;
  std::vector<uint8_t> cmyk_row_;             // empty unless the image is CMYK
  std::unique_ptr<CmykToSrgb> cmyk_to_srgb_;  // null without a profile
  std::bitset<MAX_COMPONENTS> scanned_;       // components that a scan has been of
  bool has_info_ = false;
  bool started_ = false;
  bool ended_ = false;  // the file, before its end marker
  int next_row_ = 0;
};

JpegReader::JpegReader(std::unique_ptr<ReplaySource> source, const ImageSpec& spec,
                       const DecodeLimits& limits, const Cancellation* cancellation)
    : JpegSession(limits.fill_damage),
      source_(std::move(source)),
      spec_(spec),
      limits_(limits),
      cancellation_(cancellation) {
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

// Called for each row of blocks while the scans of an image with several are read, before its first
// row, and then for each row.
void JpegReader::OnProgress(j_common_ptr info) {
  JpegReader& reader = static_cast<JpegReader&>(Of(info));
  for (int i = 0; i < reader.info_.comps_in_scan; ++i)
    reader.scanned_.set(reader.info_.cur_comp_info[i]->component_index);
  if (!reader.MayGoOn()) reader.Leave();
}

bool JpegReader::Fill() {
  absl::StatusOr<size_t> count = 0;
  if (!ended_) count = source_->Read(input_bytes_);
  if (!count.ok()) {
    Fail(count.status());
    return false;
  }
  // libjpeg looks for more than it needs. It warns when it lacks data, but not in arithmetic
  // coding.
  const bool is_silent =
      info_.arith_code && !limits_.fill_damage && next_row_ < spec_.height_px - 1;
  if (*count == 0 && (!has_info_ || is_silent)) {
    Fail(Truncated());
    return false;
  }
  ended_ = *count == 0;
  input_.next_input_byte = ended_ ? kEndOfImage : input_bytes_.data();
  input_.bytes_in_buffer = ended_ ? std::size(kEndOfImage) : *count;
  return true;
}

absl::Status JpegReader::Truncated() const {
  return absl::InvalidArgumentError(absl::StrCat("JPEG: the file is truncated; ",
                                                 info_.output_scanline, " of ", spec_.height_px,
                                                 " rows were read"));
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
  for (const int marker : kMetadataMarkers) jpeg_save_markers(&info_, marker, kWholeSegment);
  jpeg_read_header(&info_, TRUE);
  // Between the scans nothing is kept.
  for (const int marker : kMetadataMarkers) jpeg_save_markers(&info_, marker, 0);
  info_.out_color_space = info_.num_components == 1   ? JCS_GRAYSCALE
                          : info_.num_components == 4 ? JCS_CMYK
                                                      : JCS_RGB;
  jpeg_read_icc_profile(&info_, profile, profile_bytes);
}

absl::Status JpegReader::CheckAgainstHeader() const {
  if (info_.image_width == static_cast<unsigned>(spec_.width_px) &&
      info_.image_height == static_cast<unsigned>(spec_.height_px) &&
      (info_.num_components == 1) == (spec_.channels == 1))
    return absl::OkStatus();
  return absl::InvalidArgumentError("JPEG: its segments contradict each other");
}

absl::Status JpegReader::Start() {
  JOCTET* profile = nullptr;
  unsigned profile_bytes = 0;
  RETURN_IF_ERROR(
      RunGuarded([this, &profile, &profile_bytes] { ReadInfo(&profile, &profile_bytes); }));
  has_info_ = true;
  if (profile != nullptr)
    metadata.icc_profile.assign(reinterpret_cast<char*>(profile), profile_bytes);
  std::free(profile);
  RETURN_IF_ERROR(CheckAgainstHeader());
  ReadJpegMetadata(info_, metadata, warnings);
  if (info_.num_components != 4) return absl::OkStatus();
  cmyk_row_.resize(size_t{4} * spec_.width_px);
  if (metadata.icc_profile.empty()) return absl::OkStatus();
  cmyk_to_srgb_ = CmykToSrgb::Create(metadata.icc_profile);
  if (cmyk_to_srgb_ == nullptr && SpaceOfProfile(metadata.icc_profile) == "CMYK")
    warnings.push_back("JPEG: the colour profile of CMYK cannot be applied and is left out");
  metadata.icc_profile.clear();  // it does not describe the RGB that we give
  return absl::OkStatus();
}

// Runs guarded.
void JpegReader::ReadScans() {
  jpeg_start_decompress(&info_);  // all scans, when there are several
  started_ = true;
  if (!ended_ || limits_.fill_damage || AllScansCame()) return;
  Fail(Truncated());
  Leave();
}

// Whether the scans of an image in coefficients give all of each.
bool JpegReader::AllScansCame() const {
  if (info_.coef_bits == nullptr)
    return !jpeg_has_multiple_scans(const_cast<j_decompress_ptr>(&info_)) ||
           static_cast<int>(scanned_.count()) == info_.num_components;
  for (int component = 0; component < info_.num_components; ++component)
    if (std::ranges::any_of(info_.coef_bits[component], [](int bits) { return bits != 0; }))
      return false;
  return true;
}

// CMYK JPEG files store 255 for no ink, with an Adobe marker or without: Pillow, libvips,
// ImageMagick and Chromium agree on it.
void CmykToRgb(const uint8_t* cmyk, int width, uint8_t* rgb) {
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; ++c) rgb[c] = (cmyk[c] * cmyk[3] + 127) / 255;
}

// Runs guarded.
void JpegReader::ReadRow(uint8_t* dst) {
  JSAMPROW row = cmyk_row_.empty() ? dst : cmyk_row_.data();
  jpeg_read_scanlines(&info_, &row, 1);
  if (cmyk_to_srgb_ != nullptr)
    cmyk_to_srgb_->Convert(row, spec_.width_px, dst);
  else if (!cmyk_row_.empty())
    CmykToRgb(row, spec_.width_px, dst);
}

absl::Status JpegReader::ReadNextRows(MutableImageView rows) {
  return RunGuarded([this, &rows] {
    if (!started_) ReadScans();
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_) {
      ReadRow(rows.row(y));
      // As far as the file's end: it tells whether the file is whole.
      if (info_.output_scanline == info_.output_height) jpeg_finish_decompress(&info_);
    }
  });
}

absl::Status JpegReader::ReadRows(MutableImageView rows) {
  const int first = next_row_, end = first + rows.height_px();
  const absl::Status status = ReadNextRows(rows);
  if (!status.ok()) {
    if (!absl::IsInvalidArgument(status)) return status;
    if (!limits_.fill_damage) return ended_ ? Truncated() : status;
    for (; next_row_ < end; ++next_row_)
      std::memset(rows.row(next_row_ - first), kMissingSample, spec_.row_bytes());
  }
  if (end == spec_.height_px && first < end) WarnOfDamage();
  return absl::OkStatus();
}

void JpegReader::WarnOfDamage() {
  if (!status().ok())
    warnings.push_back(absl::StrCat(status().message(), "; missing rows are gray"));
  else if (!damage().empty())
    warnings.push_back(absl::StrCat("JPEG: ", damage(), "; missing pixels are gray"));
  else if (ended_)
    warnings.push_back("JPEG: the end of the file is missing; all pixels were read");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpegDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits,
                                                              const Cancellation* cancellation) {
  auto reader =
      std::make_unique<JpegReader>(std::move(source), StoredSpec(header), limits, cancellation);
  RETURN_IF_ERROR(reader->Start());
  return MakeDecoder(header, std::move(reader));
}

}  // namespace upscaled
