#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/exif.h"
#include "engine/image/frame_canvas.h"
#include "engine/image/memory_io.h"
#include "engine/image/png_feed.h"
#include "engine/image/png_frames.h"
#include "engine/image/png_metadata.h"
#include "engine/image/png_session.h"
#include "engine/image/stored_image.h"

namespace upscaled {
namespace {

// Chunks not for libpng: their contents are not kept (see ParsePngHeader's warnings).
constexpr png_byte kSkippedChunks[] =
    "acTL\0bKGD\0fcTL\0fdAT\0hIST\0oFFs\0pCAL\0sBIT\0sCAL\0sPLT\0tIME";
constexpr int kSkippedChunkCount = sizeof(kSkippedChunks) / 5;
// Chunks for us as they are.
constexpr png_byte kOwnChunks[] =
    "cHRM\0cICP\0cLLI\0eXIf\0gAMA\0iTXt\0mDCV\0pHYs\0sRGB\0tEXt\0zTXt";
constexpr int kOwnChunkCount = sizeof(kOwnChunks) / 5;
constexpr absl::string_view kWrongChecksum = "incorrect data check";  // zlib's words

// Browsers apply the orientation of an eXIf chunk before the pixels, and so does the header's
// parser. Another one stays, with a warning: behind the pixels, or in EXIF that is written as text.
void KeepOrientation(Orientation applied, ImageMetadata& metadata,
                     std::vector<std::string>& warnings) {
  const Orientation stated = ExifOrientation(AsBytes(metadata.exif)).value_or(applied);
  if (stated == applied || std::exchange(metadata.keeps_orientation, true)) return;
  warnings.push_back(
      "PNG: the image is not turned upright as its EXIF says: no eXIf chunk before the pixels says "
      "so");
}

// The image as it is stored, not turned.
class PngReader final : public StoredImage {
 public:
  PngReader(std::unique_ptr<ReplaySource> source, const ImageSpec& spec, const DecodeLimits& limits,
            const Cancellation* cancellation)
      : source_(std::move(source)),
        spec_(spec),
        limits_(limits),
        cancellation_(cancellation),
        feed_(*source_, limits),
        metadata_room_(limits.max_metadata_bytes) {}
  ~PngReader() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  absl::Status Start();

  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  static PngReader& Of(void* self) { return *static_cast<PngReader*>(self); }
  static void OnRead(png_structp png, png_bytep dst, size_t count) {
    if (!Of(png_get_io_ptr(png)).Fill(dst, count)) png_error(png, "the source failed");
  }
  static int OnChunk(png_structp png, png_unknown_chunkp chunk) {
    Of(png_get_user_chunk_ptr(png)).Keep(*chunk);
    return 1;
  }
  // Fills `dst` from the source, or records why it cannot.
  bool Fill(uint8_t* dst, size_t count);
  void Keep(const png_unknown_chunk& chunk);
  bool HasAllRows() const;
  // Whether the next row is wanted; records why not.
  bool MayGoOn();

  void ReadInfo();
  void ReadProfile();
  absl::Status CheckAgainstHeader();
  absl::Status ReadSequential(MutableImageView rows);
  absl::Status ReadInterlaced();
  // After the last row: tells about the file's faults, and whether the pixels may be wrong, too.
  absl::Status CheckEnd();
  void FillMissing(MutableImageView rows);
  void Warn(absl::string_view sentence) {
    if (warnings.size() < kMaxBlockWarnings) warnings.push_back(absl::StrCat("PNG: ", sentence));
  }

  const std::unique_ptr<ReplaySource> source_;
  const ImageSpec spec_;
  const DecodeLimits limits_;
  const Cancellation* const cancellation_;
  PngFeed feed_;
  PngSession session_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  size_t metadata_room_;  // bytes of metadata that may still be kept
  int passes_ = 1;
  Image interlaced_;  // the whole image, when it is stored interlaced
  bool truncated_ = false;
  bool checked_end_ = false;
  int next_row_ = 0;
};

// libpng's position: it reads on to the end of the pixels' chunks before it gives the last row.
bool PngReader::HasAllRows() const {
  constexpr int kInterlacePasses = 7;
  return png_get_current_row_number(png_) >= static_cast<uint32_t>(spec_.height_px) ||
         png_get_current_pass_number(png_) >= kInterlacePasses;
}

bool PngReader::MayGoOn() {
  if (cancellation_ != nullptr) session_.Fail(cancellation_->status());
  return session_.status().ok();
}

bool PngReader::Fill(uint8_t* dst, size_t count) {
  absl::Status status = feed_.Read({dst, count}, HasAllRows());
  truncated_ = absl::IsOutOfRange(status);
  if (truncated_)
    status = absl::InvalidArgumentError(absl::StrCat("PNG: the file is truncated; ", next_row_,
                                                     " of ", spec_.height_px, " rows were read"));
  session_.Fail(std::move(status));
  return session_.status().ok();
}

void PngReader::Keep(const png_unknown_chunk& chunk) {
  const std::string_view type(reinterpret_cast<const char*>(chunk.name));
  if (!IsPngMetadata(type)) return;
  if (feed_.has_bad_crc()) return;  // libpng warns of it
  const std::string_view data(reinterpret_cast<const char*>(chunk.data), chunk.size);
  const bool late = (chunk.location & PNG_AFTER_IDAT) != 0;
  ImageMetadata& kept = late ? late_metadata : metadata;
  const size_t before = BytesOf(kept);
  if (!ReadPngChunk(type, data, metadata_room_, kept)) {
    Warn(absl::StrCat("the chunk ", ToAbsl(type), " is damaged or too large and left out"));
    return;
  }
  metadata_room_ -= std::min(metadata_room_, BytesOf(kept) - before);
  if (late) KeepOrientation(Orientation::kIdentity, late_metadata, warnings);
}

// Runs guarded.
void PngReader::ReadInfo() {
  png_set_read_fn(png_, this, OnRead);
  png_set_user_limits(png_, limits_.max_side_px, limits_.max_side_px);
  png_set_chunk_malloc_max(png_, limits_.max_metadata_bytes);
  png_set_crc_action(png_, PNG_CRC_QUIET_USE, PNG_CRC_DEFAULT);  // PngFeed checks it
  png_set_benign_errors(png_, 1);
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kSkippedChunks, kSkippedChunkCount);
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_ALWAYS, kOwnChunks, kOwnChunkCount);
  png_set_read_user_chunk_fn(png_, this, OnChunk);
  png_read_info(png_, info_);
  // Blocks behind the pixels are beyond the header's promise except for these.
  png_set_chunk_malloc_max(png_, kMaxLateMetadataBytes);

  png_set_expand(png_);  // palette to RGB, gray to 8 bits, tRNS to alpha
  if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);
  passes_ = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
}

void PngReader::ReadProfile() {
  png_charp name = nullptr;
  png_bytep profile = nullptr;
  png_uint_32 profile_bytes = 0;
  int compression = 0;
  if (png_get_iCCP(png_, info_, &name, &compression, &profile, &profile_bytes) != 0)
    metadata.icc_profile.assign(reinterpret_cast<const char*>(profile), profile_bytes);
  for (const std::string& warning : session_.warnings())
    if (absl::StartsWith(warning, "iCCP")) Warn(absl::StrCat("the colour profile: ", warning));
}

// libpng drops a corrupt ancillary chunk; without its tRNS the image is another.
absl::Status PngReader::CheckAgainstHeader() {
  if (png_get_image_width(png_, info_) == static_cast<uint32_t>(spec_.width_px) &&
      png_get_image_height(png_, info_) == static_cast<uint32_t>(spec_.height_px) &&
      png_get_channels(png_, info_) == spec_.channels &&
      png_get_rowbytes(png_, info_) == spec_.row_bytes())
    return absl::OkStatus();
  return absl::InvalidArgumentError("PNG: the transparency chunk (tRNS) is corrupt");
}

absl::Status PngReader::Start() {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session_, PngSession::OnError,
                                PngSession::OnWarning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  if (info_ == nullptr) return absl::ResourceExhaustedError("PNG: no memory for libpng");
  RETURN_IF_ERROR(session_.RunGuarded(png_, [this] { ReadInfo(); }));
  RETURN_IF_ERROR(CheckAgainstHeader());
  ReadProfile();
  metadata_room_ = kMaxLateMetadataBytes;
  return absl::OkStatus();
}

absl::Status PngReader::ReadSequential(MutableImageView rows) {
  return session_.RunGuarded(png_, [this, &rows] {
    for (int y = 0; y < rows.height_px(); ++y) {
      if (!MayGoOn()) return;
      png_read_row(png_, rows.row(y), nullptr);
      // As far as the file's end: it tells whether the file is whole.
      if (++next_row_ == spec_.height_px) png_read_end(png_, info_);
    }
  });
}

absl::Status PngReader::ReadInterlaced() {
  if (interlaced_.bytes() > 0) return session_.status();
  interlaced_ = Image(spec_);
  const MutableImageView image = interlaced_.mutable_view();
  FillMissing(image);
  return session_.RunGuarded(png_, [this, &image] {
    for (int pass = 0; pass < passes_; ++pass)
      for (int y = 0; y < image.height_px(); ++y) {
        if (!MayGoOn()) return;
        png_read_row(png_, image.row(y), nullptr);
      }
    png_read_end(png_, info_);
  });
}

absl::Status PngReader::ReadRows(MutableImageView rows) {
  const int begin = next_row_, end = begin + rows.height_px();
  const absl::Status status = passes_ > 1 ? ReadInterlaced() : ReadSequential(rows);
  if (!status.ok()) {
    if (!absl::IsInvalidArgument(status)) return status;
    if (!HasAllRows() && !limits_.fill_damage) return status;
    if (!HasAllRows())
      FillMissing(rows.Crop({0, next_row_ - begin, spec_.width_px, end - next_row_}));
  }
  if (passes_ > 1)
    for (int y = 0; y < rows.height_px(); ++y)
      std::memcpy(rows.row(y), interlaced_.view().row(begin + y), spec_.row_bytes());
  next_row_ = end;
  return end == spec_.height_px ? CheckEnd() : absl::OkStatus();
}

void PngReader::FillMissing(MutableImageView rows) {
  for (int y = 0; y < rows.height_px(); ++y)
    std::memset(rows.row(y), spec_.has_alpha() ? 0 : kMissingSample, spec_.row_bytes());
}

// The pixels are as they were written when the CRC or the checksum of their chunks is right.
absl::Status PngReader::CheckEnd() {
  if (std::exchange(checked_end_, true)) return absl::OkStatus();
  const absl::Status& status = session_.status();
  bool wrong_checksum = false;
  for (const std::string& warning : session_.warnings()) {
    wrong_checksum = wrong_checksum || absl::StrContains(warning, kWrongChecksum);
    if (!absl::StartsWith(warning, "iCCP")) Warn(warning);
  }
  const bool all_rows = HasAllRows();
  if (feed_.has_bad_pixels_crc() && (wrong_checksum || !status.ok())) {
    const absl::Status corrupt =
        absl::InvalidArgumentError("PNG: the pixels are corrupt: their CRC and checksum are wrong");
    if (!limits_.fill_damage) return corrupt;
    warnings.emplace_back(corrupt.message());
  } else if (feed_.has_bad_pixels_crc()) {
    Warn("the CRC of the pixels is wrong, their checksum is right");
  }
  if (feed_.has_bad_end_crc()) Warn("the CRC of the file's end (IEND) is wrong");
  if (!feed_.late_types().empty())
    Warn(absl::StrCat("chunks behind the pixels are left out: ", feed_.late_types().Names()));
  if (!all_rows)
    warnings.push_back(absl::StrCat(status.message(), "; missing pixels are ",
                                    spec_.has_alpha() ? "transparent" : "gray"));
  else if (truncated_)
    Warn("the end of the file is missing; all rows were read");
  else if (!status.ok())
    warnings.push_back(absl::StrCat(status.message(), "; all rows were read before it"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoredImage>> OpenStoredPng(std::unique_ptr<ReplaySource> source,
                                                           const ImageSpec& spec,
                                                           const DecodeLimits& limits,
                                                           const Cancellation* cancellation) {
  auto reader = std::make_unique<PngReader>(std::move(source), spec, limits, cancellation);
  RETURN_IF_ERROR(reader->Start());
  return reader;
}

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPngDecoder(std::unique_ptr<ReplaySource> source,
                                                             const ImageHeader& header,
                                                             const DecodeLimits& limits,
                                                             const Cancellation* cancellation) {
  if (limits.frame != 1 && StatedPngFrames(source->prefix()) > 1) {
    ASSIGN_OR_RETURN(std::optional<PngAnimation> animation,
                     ParsePngAnimation(source->prefix(), limits, /*is_whole=*/true));
    ASSIGN_OR_RETURN(auto frames,
                     OpenPngFrames(std::move(source), *std::move(animation), limits, cancellation));
    KeepOrientation(header.orientation, frames->metadata, frames->warnings);
    return MakeCanvasDecoder(header, std::move(frames), limits, cancellation);
  }
  ASSIGN_OR_RETURN(auto stored,
                   OpenStoredPng(std::move(source), StoredSpec(header), limits, cancellation));
  KeepOrientation(header.orientation, stored->metadata, stored->warnings);
  return MakeDecoder(header, std::move(stored));
}

}  // namespace upscaled
