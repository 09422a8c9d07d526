// AVIF by libavif (dav1d or libaom), only on the caller's thread: the cage allows no others.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <avif/avif.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/avif_pixels.h"
#include "engine/image/codec_list.h"
#include "engine/image/exif.h"
#include "engine/image/heif_header.h"
#include "engine/image/read_file.h"
#include "engine/image/whole_image.h"
#include "engine/image/xmp.h"

namespace upscaled {
namespace {

struct DestroyAvifDecoder {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};

class AvifReader final : public WholeImage {
 public:
  AvifReader(const ImageSpec& spec, const HeifLayout& layout, const DecodeLimits& limits)
      : WholeImage(spec, limits.fill_damage),
        size_(layout.size),
        crop_(layout.crop),
        limits_(limits) {}

  // Reads the file, as far as `file_end`, and its metadata.
  absl::Status Start(ByteSource& source, uint64_t file_end, const Cancellation* cancellation);

 private:
  absl::Status Decode(MutableImageView image) override;
  absl::Status CheckFrame(const avifImage& frame) const;
  void ReadMetadata();
  std::string Keep(const avifRWData& block, absl::string_view name);
  absl::Status Fault(avifResult result) const;

  const Size size_;
  const std::optional<Rect> crop_;
  const DecodeLimits limits_;
  std::vector<uint8_t> file_;
  std::unique_ptr<avifDecoder, DestroyAvifDecoder> decoder_;
};

absl::Status AvifReader::Fault(avifResult result) const {
  if (result == AVIF_RESULT_OUT_OF_MEMORY) return absl::ResourceExhaustedError("AVIF: no memory");
  return absl::InvalidArgumentError(
      absl::StrCat("AVIF: the data are corrupt or truncated (", avifResultToString(result), ")"));
}

absl::Status AvifReader::Start(ByteSource& source, uint64_t file_end,
                               const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(file_, ReadFile(source, file_end, cancellation));
  if (file_.size() < file_end)
    return absl::InvalidArgumentError(absl::StrCat("AVIF: the file is truncated; ", file_.size(),
                                                   " of ", file_end, " bytes were read"));
  decoder_.reset(avifDecoderCreate());
  if (decoder_ == nullptr) return absl::ResourceExhaustedError("AVIF: no memory");
  decoder_->maxThreads = 1;
  decoder_->requestedSource = AVIF_DECODER_SOURCE_PRIMARY_ITEM;
  decoder_->strictFlags = AVIF_STRICT_DISABLED;  // files of real writers lack "pixi"
  avifResult result = avifDecoderSetIOMemory(decoder_.get(), file_.data(), file_.size());
  if (result == AVIF_RESULT_OK) result = avifDecoderParse(decoder_.get());
  if (result != AVIF_RESULT_OK) return Fault(result);
  ReadMetadata();
  return absl::OkStatus();
}

std::string AvifReader::Keep(const avifRWData& block, absl::string_view name) {
  if (BytesOf(metadata) + block.size <= limits_.max_metadata_bytes)
    return std::string(reinterpret_cast<const char*>(block.data), block.size);
  warnings.push_back(absl::StrCat("AVIF: ", name, " has ", block.size,
                                  " bytes and is left out; the limit is ",
                                  limits_.max_metadata_bytes));
  return {};
}

void AvifReader::ReadMetadata() {
  const avifImage& image = *decoder_->image;
  metadata.icc_profile = Keep(image.icc, "the colour profile");
  metadata.exif =
      WithoutExifBegin(Keep(image.exif, "EXIF"));  // libavif leaves it, exiftool adds it
  metadata.xmp = UprightXmp(Keep(image.xmp, "XMP"));
  if (image.icc.size == 0) AddCicp(image, metadata);
}

absl::Status AvifReader::CheckFrame(const avifImage& frame) const {
  const bool gray = frame.yuvFormat == AVIF_PIXEL_FORMAT_YUV400;
  if (Size{static_cast<int>(frame.width), static_cast<int>(frame.height)} != size_ ||
      (spec().channels < kRgbChannels && !gray))
    return absl::InvalidArgumentError(
        absl::StrCat("AVIF: the frame is ", frame.width, " x ", frame.height, " px, ",
                     gray ? "gray" : "in colour", "; the header says otherwise"));
  return absl::OkStatus();
}

absl::Status AvifReader::Decode(MutableImageView image) {
  const avifResult result = avifDecoderNextImage(decoder_.get());
  if (result != AVIF_RESULT_OK) return Fault(result);
  RETURN_IF_ERROR(CheckFrame(*decoder_->image));
  RETURN_IF_ERROR(ConvertAvifImage("AVIF", *decoder_->image, crop_, image));
  decoder_.reset();
  file_ = {};
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenAvifDecoder(std::unique_ptr<ReplaySource> source,
                                                              const ImageHeader& header,
                                                              const DecodeLimits& limits,
                                                              const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(const std::optional<HeifLayout> layout,
                   ParseHeifLayout("AVIF", source->prefix(), limits));
  if (!layout.has_value()) return absl::InternalError("AVIF: the header was read from more bytes");
  auto reader = std::make_unique<AvifReader>(StoredSpec(header), *layout, limits);
  RETURN_IF_ERROR(reader->Start(*source, layout->file_end, cancellation));
  return MakeDecoder(header, std::move(reader));
}

}  // namespace upscaled
