#include <bit>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/png_bomb_guard.h"
#include "engine/image/png_session.h"

namespace upscaled {
namespace {

// Chunks that change nothing we keep: colours stay as stored.
constexpr png_byte kSkippedChunks[] =
    "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTX"
    "t";
constexpr int kSkippedChunkCount = sizeof(kSkippedChunks) / 5;

class PngDecoder final : public ImageDecoder {
 public:
  PngDecoder(std::unique_ptr<ReplaySource> source, const ImageHeader& header,
             const DecodeLimits& limits, const Cancellation* cancellation)
      : source_(std::move(source)), header_(header), cancellation_(cancellation), guard_(limits) {}
  ~PngDecoder() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  absl::Status Start(const DecodeLimits& limits);

  const ImageSpec& spec() const override { return header_.spec; }
  const ImageHeader& header() const override { return header_; }
  const ImageMetadata& metadata() const override { return metadata_; }
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  static void OnRead(png_structp png, png_bytep dst, size_t count) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (!self->Fill(dst, count)) png_error(png, "the source failed");
  }
  // Fills `dst` from the source, or records why it cannot.
  bool Fill(uint8_t* dst, size_t count);
  bool HasAllRows() const;
  // Whether the next row is wanted; records why not.
  bool MayGoOn();

  void ReadInfo(const DecodeLimits& limits);
  absl::Status CheckAgainstHeader();
  absl::Status ReadAll();

  std::unique_ptr<ReplaySource> source_;
  const ImageHeader header_;
  const Cancellation* const cancellation_;
  PngBombGuard guard_;
  ImageMetadata metadata_;
  PngSession session_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  Image interlaced_;  // the whole image, when it is stored interlaced
  int next_row_ = 0;
};

// Where libpng is, which reads on to the end of the pixels' chunks before it gives the last row.
bool PngDecoder::HasAllRows() const {
  constexpr int kInterlacePasses = 7;
  return png_get_current_row_number(png_) >= static_cast<uint32_t>(header_.spec.height_px) ||
         png_get_current_pass_number(png_) >= kInterlacePasses;
}

bool PngDecoder::MayGoOn() {
  if (cancellation_ != nullptr) session_.Fail(cancellation_->status());
  return session_.status().ok();
}

bool PngDecoder::Fill(uint8_t* dst, size_t count) {
  while (count > 0 && session_.status().ok()) {
    const absl::StatusOr<size_t> got = source_->Read({dst, count});
    if (!got.ok()) {
      session_.Fail(got.status());
      return false;
    }
    if (*got == 0) {
      session_.Fail(
          absl::InvalidArgumentError(absl::StrCat("PNG: the file is truncated; ", next_row_, " of ",
                                                  header_.spec.height_px, " rows were read")));
      return false;
    }
    session_.Fail(guard_.Follow({dst, *got}, HasAllRows()));
    dst += *got;
    count -= *got;
  }
  return session_.status().ok();
}

// Runs guarded.
void PngDecoder::ReadInfo(const DecodeLimits& limits) {
  png_set_read_fn(png_, this, OnRead);
  png_set_user_limits(png_, limits.max_side_px, limits.max_side_px);
  png_set_chunk_malloc_max(png_, limits.max_metadata_bytes);
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kSkippedChunks, kSkippedChunkCount);
  png_read_info(png_, info_);

  png_set_expand(png_);  // palette to RGB, gray to 8 bits, tRNS to alpha
  if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);
  passes_ = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
}

// libpng drops an ancillary chunk that it finds corrupt; without its tRNS the image is another.
absl::Status PngDecoder::CheckAgainstHeader() {
  const ImageSpec& spec = header_.spec;
  if (png_get_image_width(png_, info_) == static_cast<uint32_t>(spec.width_px) &&
      png_get_image_height(png_, info_) == static_cast<uint32_t>(spec.height_px) &&
      png_get_channels(png_, info_) == spec.channels &&
      png_get_rowbytes(png_, info_) == spec.row_bytes())
    return absl::OkStatus();
  return absl::InvalidArgumentError("PNG: the transparency chunk (tRNS) is corrupt");
}

absl::Status PngDecoder::Start(const DecodeLimits& limits) {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session_, PngSession::OnError,
                                PngSession::OnWarning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  if (info_ == nullptr) return absl::ResourceExhaustedError("PNG: no memory for libpng");
  RETURN_IF_ERROR(session_.RunGuarded(png_, [this, &limits] { ReadInfo(limits); }));
  RETURN_IF_ERROR(CheckAgainstHeader());

  png_charp name = nullptr;
  png_bytep profile = nullptr;
  png_uint_32 profile_bytes = 0;
  int compression = 0;
  if (png_get_iCCP(png_, info_, &name, &compression, &profile, &profile_bytes) != 0)
    metadata_.icc_profile.assign(reinterpret_cast<const char*>(profile), profile_bytes);
  return absl::OkStatus();
}

absl::Status PngDecoder::ReadAll() {
  interlaced_ = Image(header_.spec);
  const MutableImageView image = interlaced_.mutable_view();
  return session_.RunGuarded(png_, [this, &image] {
    for (int pass = 0; pass < passes_; ++pass)
      for (int y = 0; y < image.height_px(); ++y) {
        if (!MayGoOn()) return;
        png_read_row(png_, image.row(y), nullptr);
      }
    png_read_end(png_, nullptr);
  });
}

absl::Status PngDecoder::ReadRows(MutableImageView rows) {
  RETURN_IF_ERROR(session_.status());
  RETURN_IF_ERROR(CheckRows(header_.spec, next_row_, rows.spec));
  if (passes_ > 1) {
    if (interlaced_.bytes() == 0) RETURN_IF_ERROR(ReadAll());
    for (int y = 0; y < rows.height_px(); ++y)
      std::memcpy(rows.row(y), interlaced_.view().row(next_row_ + y), header_.spec.row_bytes());
    next_row_ += rows.height_px();
    return absl::OkStatus();
  }
  return session_.RunGuarded(png_, [this, &rows] {
    for (int y = 0; y < rows.height_px(); ++y) {
      if (!MayGoOn()) return;
      png_read_row(png_, rows.row(y), nullptr);
      // The end of the file after the last row must be whole as well.
      if (++next_row_ == header_.spec.height_px) png_read_end(png_, nullptr);
    }
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPngDecoder(std::unique_ptr<ReplaySource> source,
                                                             const ImageHeader& header,
                                                             const DecodeLimits& limits,
                                                             const Cancellation* cancellation) {
  auto decoder = std::make_unique<PngDecoder>(std::move(source), header, limits, cancellation);
  RETURN_IF_ERROR(decoder->Start(limits));
  return decoder;
}

}  // namespace upscaled
