#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <webp/decode.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/exif.h"
#include "engine/image/frame_canvas.h"
#include "engine/image/memory_io.h"
#include "engine/image/stored_image.h"
#include "engine/image/webp_frames.h"
#include "engine/image/webp_header.h"

namespace upscaled {
namespace {

constexpr size_t kReadBytes = 64 << 10;

struct DeleteDecoder {
  void operator()(WebPIDecoder* decoder) const { WebPIDelete(decoder); }
};

// libwebp decodes into the whole image; rows are given as far as it has come.
class WebpReader final : public StoredImage {
 public:
  WebpReader(std::unique_ptr<ReplaySource> source, const ImageSpec& spec,
             const DecodeLimits& limits, const Cancellation* cancellation)
      : source_(std::move(source)),
        spec_(spec),
        limits_(limits),
        cancellation_(cancellation),
        left_out_(source_->prefix()) {}

  // Reads the metadata: for those behind the pixels all of the file.
  absl::Status Start(bool is_turned);

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(status_);
    status_ = DecodeTo(next_row_ + rows.height_px());
    RETURN_IF_ERROR(status_);
    for (int y = 0; y < rows.height_px(); ++y)
      std::memcpy(rows.row(y), image_.view().row(next_row_ + y), spec_.row_bytes());
    next_row_ += rows.height_px();
    return absl::OkStatus();
  }

 private:
  absl::Status ReadFile();
  // Counts bytes that were read, those behind the file's end aside.
  void CountRead(std::span<const uint8_t> bytes);
  absl::Status StartDecoder();
  // Until `rows` rows are there; for the last one, until the file's end.
  absl::Status DecodeTo(int rows);
  absl::Status Feed();
  // Gives libwebp the next bytes of the file.
  absl::Status Append(std::span<const uint8_t> bytes);
  // The file has ended before its stated size.
  absl::Status ConcludeEarly();
  void FillMissing(absl::string_view why);

  const std::unique_ptr<ReplaySource> source_;
  const ImageSpec spec_;
  const DecodeLimits limits_;
  const Cancellation* const cancellation_;
  WebpLeftOut left_out_;
  Image image_;
  std::unique_ptr<WebPIDecoder, DeleteDecoder> decoder_;  // writes into image_
  absl::Status status_;
  // The file's beginning, until it has been checked; then libwebp gets it.
  std::vector<uint8_t> head_;
  size_t next_check_bytes_ = 0;  // size of head_: doubles, so that all checks take linear time
  bool checked_ = false;
  size_t missing_bytes_ = 0;  // the file's, by what its header says
  bool complete_ = false;     // the image, though not yet the file
  int decoded_rows_ = 0;
  int next_row_ = 0;
};

absl::Status WebpReader::ReadFile() {
  while (missing_bytes_ > 0) {
    if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
    const size_t have = head_.size();
    head_.resize(have + kReadBytes);
    const absl::StatusOr<size_t> count = source_->Read(std::span(head_).subspan(have));
    head_.resize(have + count.value_or(0));
    RETURN_IF_ERROR(count.status());
    if (*count == 0) break;
    CountRead(std::span(head_).subspan(have));
  }
  return absl::OkStatus();
}

void WebpReader::CountRead(std::span<const uint8_t> bytes) {
  const size_t count = std::min(bytes.size(), missing_bytes_);
  left_out_.Pass(bytes.first(count));
  missing_bytes_ -= count;
}

absl::Status WebpReader::Start(bool is_turned) {
  const std::span<const uint8_t> prefix = WithinWebpFile(source_->prefix());
  missing_bytes_ = WebpFileBytes(prefix);
  const std::span<const uint8_t> profile = WebpProfile(prefix);
  metadata.icc_profile.assign(profile.begin(), profile.end());
  if (!AnnouncedInWebp(prefix).late()) return absl::OkStatus();

  RETURN_IF_ERROR(ReadFile());
  const auto keep = [this](std::string block, absl::string_view name) {
    if (BytesOf(metadata) + block.size() <= limits_.max_metadata_bytes) return block;
    warnings.push_back(absl::StrCat("WebP: ", name, " has ", block.size(),
                                    " bytes and is left out; the limit is ",
                                    limits_.max_metadata_bytes));
    return std::string();
  };
  const std::span<const uint8_t> file = WithinWebpFile(head_);
  metadata.exif = keep(WebpExif(file), "EXIF");
  metadata.xmp = keep(WebpXmp(file), "XMP");
  const bool is_upright =
      ExifOrientation(AsBytes(metadata.exif)).value_or(Orientation::kIdentity) ==
      Orientation::kIdentity;
  metadata.keeps_orientation = !is_turned && !is_upright;
  if (metadata.keeps_orientation)
    warnings.push_back(
        absl::StrCat("WebP: the image is not turned upright as its EXIF says: the file has more "
                     "than ",
                     MaxOrientedBytes(limits_), " bytes"));
  return absl::OkStatus();
}

absl::Status WebpReader::StartDecoder() {
  image_ = Image(spec_);
  const MutableImageView image = image_.mutable_view();
  decoder_.reset(WebPINewRGB(spec_.has_alpha() ? MODE_RGBA : MODE_RGB, image.data, image_.bytes(),
                             static_cast<int>(image.stride_bytes)));
  if (decoder_ == nullptr) return absl::ResourceExhaustedError("WebP: no memory for libwebp");
  return absl::OkStatus();
}

absl::Status WebpReader::DecodeTo(int rows) {
  if (decoder_ == nullptr) RETURN_IF_ERROR(StartDecoder());
  const bool last = rows == spec_.height_px;
  while (rows > decoded_rows_ || (last && (!complete_ || missing_bytes_ > 0))) {
    const absl::Status status = Feed();
    if (absl::IsInvalidArgument(status) && limits_.fill_damage)
      FillMissing(status.message());
    else
      RETURN_IF_ERROR(status);
  }
  if (last) left_out_.Warn(warnings);
  return absl::OkStatus();
}

absl::Status WebpReader::Feed() {
  if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
  uint8_t input[kReadBytes];
  ASSIGN_OR_RETURN(const size_t count, source_->Read(input));
  if (count == 0 && checked_) return ConcludeEarly();
  CountRead({input, count});
  if (complete_) return absl::OkStatus();  // chunks after the pixels
  if (checked_) return Append({input, count});

  head_.insert(head_.end(), input, input + count);
  const bool ended = count == 0 || missing_bytes_ == 0;
  if (head_.size() < next_check_bytes_ && !ended) return absl::OkStatus();
  next_check_bytes_ = 2 * head_.size();
  ASSIGN_OR_RETURN(checked_, CheckHuffmanTables(head_, spec_.size()));
  if (checked_) return Append(std::exchange(head_, {}));
  return ended ? ConcludeEarly() : absl::OkStatus();
}

absl::Status WebpReader::ConcludeEarly() {
  if (!complete_)
    return absl::InvalidArgumentError(absl::StrCat("WebP: the file is truncated; ", decoded_rows_,
                                                   " of ", spec_.height_px, " rows were read"));
  warnings.push_back(absl::StrCat("WebP: the file ends ", missing_bytes_,
                                  " bytes before its stated size; all pixels were read"));
  missing_bytes_ = 0;
  return absl::OkStatus();
}

void WebpReader::FillMissing(absl::string_view why) {
  const int sample = spec_.has_alpha() ? 0 : kMissingSample;
  for (int y = decoded_rows_; y < spec_.height_px; ++y)
    std::memset(image_.mutable_view().row(y), sample, spec_.row_bytes());
  warnings.push_back(
      absl::StrCat(why, "; missing rows are ", spec_.has_alpha() ? "transparent" : "gray"));
  decoded_rows_ = spec_.height_px;
  complete_ = checked_ = true;
  missing_bytes_ = 0;
}

absl::Status WebpReader::Append(std::span<const uint8_t> bytes) {
  const VP8StatusCode code = WebPIAppend(decoder_.get(), bytes.data(), bytes.size());
  if (code == VP8_STATUS_OUT_OF_MEMORY)
    return absl::ResourceExhaustedError("WebP: no memory to decode it");
  if (code == VP8_STATUS_UNSUPPORTED_FEATURE)
    return absl::UnimplementedError("WebP: it uses a feature that is not read");
  if (code != VP8_STATUS_OK && code != VP8_STATUS_SUSPENDED)
    return absl::InvalidArgumentError(
        absl::StrCat("WebP: the data are corrupt (libwebp's status ", code, ")"));
  complete_ = code == VP8_STATUS_OK;
  if (complete_)
    decoded_rows_ = spec_.height_px;
  else
    WebPIDecGetRGB(decoder_.get(), &decoded_rows_, nullptr, nullptr, nullptr);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenWebpDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits,
                                                              const Cancellation* cancellation) {
  if (IsWebpAnimation(source->prefix())) {
    ASSIGN_OR_RETURN(auto frames, OpenWebpFrames(std::move(source), limits));
    return MakeCanvasDecoder(header, std::move(frames), limits, cancellation);
  }
  auto reader =
      std::make_unique<WebpReader>(std::move(source), StoredSpec(header), limits, cancellation);
  RETURN_IF_ERROR(reader->Start(header.orientation != Orientation::kIdentity));
  return MakeDecoder(header, std::move(reader));
}

}  // namespace upscaled
