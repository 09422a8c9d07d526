#include <memory>
#include <utility>
#include <vector>

#include <webp/decode.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/endian.h"
#include "engine/image/webp_header.h"

namespace upscaled {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kRiffHeaderBytes = 8;  // which the size in it does not count

struct DeleteDecoder {
  void operator()(WebPIDecoder* decoder) const { WebPIDelete(decoder); }
};

// libwebp decodes into the whole image; rows are given as far as it has come.
class WebpDecoder final : public ImageDecoder {
 public:
  WebpDecoder(std::unique_ptr<ReplaySource> source, const ImageHeader& header,
              const Cancellation* cancellation)
      : source_(std::move(source)), header_(header), cancellation_(cancellation) {
    const std::span<const uint8_t> profile = WebpIccProfile(source_->prefix());
    metadata_.icc_profile.assign(profile.begin(), profile.end());
    missing_bytes_ = kRiffHeaderBytes + LoadLe32(&source_->prefix()[4]);
  }

  const ImageSpec& spec() const override { return header_.spec; }
  const ImageHeader& header() const override { return header_; }
  const ImageMetadata& metadata() const override { return metadata_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(status_);
    RETURN_IF_ERROR(CheckRows(header_.spec, next_row_, rows.spec));
    status_ = DecodeTo(next_row_ + rows.height_px());
    RETURN_IF_ERROR(status_);
    for (int y = 0; y < rows.height_px(); ++y)
      std::memcpy(rows.row(y), image_.view().row(next_row_ + y), header_.spec.row_bytes());
    next_row_ += rows.height_px();
    return absl::OkStatus();
  }

 private:
  absl::Status Start();
  // Until `rows` rows are there; for the last one, until the file's end.
  absl::Status DecodeTo(int rows);
  absl::Status Feed();
  // Gives libwebp the next bytes of the file.
  absl::Status Append(std::span<const uint8_t> bytes);

  const std::unique_ptr<ReplaySource> source_;
  const ImageHeader header_;
  const Cancellation* const cancellation_;
  ImageMetadata metadata_;
  Image image_;
  std::unique_ptr<WebPIDecoder, DeleteDecoder> decoder_;  // writes into image_
  absl::Status status_;
  // The file's beginning, until it has been checked; then libwebp gets it.
  std::vector<uint8_t> head_;
  size_t next_check_bytes_ = 0;  // size of head_: doubles, so that all checks take linear time
  bool checked_ = false;
  size_t missing_bytes_;   // the file's, by what its header says
  bool complete_ = false;  // the image, though not yet the file
  int decoded_rows_ = 0;
  int next_row_ = 0;
};

absl::Status WebpDecoder::Start() {
  image_ = Image(header_.spec);
  const MutableImageView image = image_.mutable_view();
  decoder_.reset(WebPINewRGB(header_.spec.has_alpha() ? MODE_RGBA : MODE_RGB, image.data,
                             image_.bytes(), static_cast<int>(image.stride_bytes)));
  if (decoder_ == nullptr) return absl::ResourceExhaustedError("WebP: no memory for libwebp");
  return absl::OkStatus();
}

absl::Status WebpDecoder::DecodeTo(int rows) {
  if (decoder_ == nullptr) RETURN_IF_ERROR(Start());
  const bool last = rows == header_.spec.height_px;
  while (rows > decoded_rows_ || (last && (!complete_ || missing_bytes_ > 0)))
    RETURN_IF_ERROR(Feed());
  return absl::OkStatus();
}

absl::Status WebpDecoder::Feed() {
  if (cancellation_ != nullptr) RETURN_IF_ERROR(cancellation_->status());
  uint8_t input[kReadBytes];
  ASSIGN_OR_RETURN(const size_t count, source_->Read(input));
  if (count == 0)
    return absl::InvalidArgumentError(absl::StrCat("WebP: the file is truncated; ", decoded_rows_,
                                                   " of ", header_.spec.height_px,
                                                   " rows were read"));
  missing_bytes_ -= std::min(count, missing_bytes_);
  if (complete_) return absl::OkStatus();  // chunks after the pixels
  if (checked_) return Append({input, count});

  head_.insert(head_.end(), input, input + count);
  if (head_.size() < next_check_bytes_ && missing_bytes_ > 0) return absl::OkStatus();
  next_check_bytes_ = 2 * head_.size();
  ASSIGN_OR_RETURN(checked_, CheckHuffmanTables(head_, header_.spec.size()));
  return checked_ ? Append(std::exchange(head_, {})) : absl::OkStatus();
}

absl::Status WebpDecoder::Append(std::span<const uint8_t> bytes) {
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
    decoded_rows_ = header_.spec.height_px;
  else
    WebPIDecGetRGB(decoder_.get(), &decoded_rows_, nullptr, nullptr, nullptr);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenWebpDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits&,
                                                              const Cancellation* cancellation) {
  return std::make_unique<WebpDecoder>(std::move(source), header, cancellation);
}

}  // namespace upscaled
