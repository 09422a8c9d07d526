// Reads and writes encoded images as streams of rows. ReadImageHeader describes a file by its
// first bytes. A decoder returns rows top to bottom, an encoder takes them.
//
// Errors of every function here; errors of the source or sink pass through:
//   INVALID_ARGUMENT    not a valid image (corrupt, truncated); names the format and the fault
//   RESOURCE_EXHAUSTED  a limit is exceeded; names value and limit
//   UNIMPLEMENTED       a format or feature we do not read
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/cancellation.h"
#include "engine/image/byte_stream.h"
#include "engine/image/image.h"
#include "engine/image/image_format.h"
#include "engine/image/metadata.h"
#include "engine/image/row_source.h"

namespace upscaled {

// EXIF orientation, TIFF 6.0 values: the transform from the stored image to the upright one.
enum class Orientation : uint8_t {
  kIdentity = 1,
  kFlipX,
  kRotate180,
  kFlipY,
  kTranspose,
  kRotate90,
  kTransverse,
  kRotate270
};

// How a JPEG was compressed, as far as its header tells.
struct JpegCoding {
  int quality = 0;          // 1..100, see EstimateJpegQuality
  bool subsampled = false;  // colours have fewer samples than luma
};

// How an image moves.
struct Animation {
  int frames = 1;
  uint32_t plays = 0;  // times that they are shown; 0: without end
  friend bool operator==(const Animation&, const Animation&) = default;
};

// How long a frame is shown, in seconds.
struct FrameDelay {
  uint32_t numerator = 0, denominator = 1;
  friend bool operator==(const FrameDelay&, const FrameDelay&) = default;
};

// A file by its first bytes. `spec` is the image as the decoder gives it: upright (orientation
// applied), palette expanded, at 8 bits (kU8) up to 8 bits stored, else 16 (kU16), CMYK as RGB.
struct ImageHeader {
  ImageFormat format = ImageFormat::kPng;
  ImageSpec spec;
  Orientation orientation = Orientation::kIdentity;
  bool lossless_webp = false;
  std::string_view hdr;  // "PQ" or "HLG": samples of high dynamic range, see HoldsCicp
  // Memory for decoding, in addition to the caller's rows: a few rows for sequential images, the
  // whole image where the format (progressive, interlaced, WebP) or a rotation demands it.
  size_t decoder_bytes = 0;
  size_t prefix_bytes = 0;         // bound on what ReadImageHeader holds; in decoder_bytes once
  size_t metadata_bytes = 0;       // bound on ImageDecoder::metadata() and late_metadata()
  std::optional<JpegCoding> jpeg;  // of JPEG files that have their tables before the first scan
  // Set: the decoder gives all frames of the file (DecodeLimits::frame), each of `spec`.
  std::optional<Animation> animation;
  bool may_move = false;  // there are frames that are left out, or there may be
  // Sentences for the user about changes and losses of the decoder.
  std::vector<std::string> warnings;
};

enum class DecodeLimit : uint8_t { kPixels, kMetadataBytes, kJpegScans, kFrames };

struct DecodeLimits {
  int64_t max_pixels = int64_t{100} * 1000 * 1000;
  int max_side_px = 1'000'000;  // libpng's own; the other formats hold less
  // All bytes before the pixels, and the inflated size of their compressed parts (of PNG).
  size_t max_metadata_bytes = size_t{4} << 20;
  int max_jpeg_scans = 100;
  int max_frames = 10'000;  // of an animation, all of which count for max_pixels together
  // Animations are read whole before their first frame, up to this size, and so is a WebP file with
  // EXIF before its first row. Larger ones of these are not turned upright.
  size_t max_animation_bytes = size_t{32} << 20;
  int frame = 1;  // of an animation, the one that is read, from 1; 0: all of them
  // A warning counts the left out frames. Off for callers with a wish for a single one.
  bool warns_of_frames = true;
  // The decoder is locked in, or reads only trusted files. Formats in need of a cage are refused
  // otherwise, see NeedsCage.
  bool is_caged = false;
  // Pixels missing in a damaged file become gray, or transparent, with a warning; otherwise an
  // error.
  bool fill_damage = false;
  // Makes the error for an image beyond one of these limits: of its least possible value, and of a
  // sentence about it. null: RESOURCE_EXHAUSTED with the sentence. For callers with users who know
  // the limits by other names.
  std::function<absl::Status(DecodeLimit limit, int64_t value, std::string sentence)> explain;
};

// Whether this build reads or writes images of `format`: some codecs are optional, and some only
// read.
bool CanDecode(ImageFormat format);
bool CanEncode(ImageFormat format);

// Whether `format` is read only within the decoders' cage (DecodeLimits::is_caged), because its
// decoder has had many flaws.
bool NeedsCage(ImageFormat format);

// The format of a result without a request for one: the source's own, or PNG if we do not write the
// source's.
ImageFormat ResultFormatOf(ImageFormat source);

// Whether our files of `format` can hold an animation.
bool HoldsFrames(ImageFormat format);

struct EncodeOptions;
// Whether a file can take blocks of metadata from after its first row: JPEG has them before its
// pixels, an animated AVIF with its first frame.
bool HoldsLateMetadata(const EncodeOptions& options);

// Whether files of `format` can state the colours of cICP, with PQ and HLG among them.
bool HoldsCicp(ImageFormat format);

// By a file's first bytes; nullopt: none of ours, or too few of them.
std::optional<ImageFormat> RecognizeFormat(std::span<const uint8_t> prefix);

// Looks at the beginning of an encoded image. nullopt: more bytes are needed. Never allocates for
// pixels, so admission may decide by it. `is_whole`: no more bytes follow.
absl::StatusOr<std::optional<ImageHeader>> ParseImageHeader(std::span<const uint8_t> prefix,
                                                            const DecodeLimits& limits,
                                                            bool is_whole = false);

// Reads until the header is known and leaves all read bytes in `prefix`, for a ReplaySource to give
// to OpenImageDecoder. `prefix` may hold the first ones already. So an image can be admitted before
// anything is allocated for its pixels.
absl::StatusOr<ImageHeader> ReadImageHeader(ByteSource& source, const DecodeLimits& limits,
                                            std::vector<uint8_t>& prefix);

// Gives the rows of one image in order, or of each frame of an animation; spec() is
// header().spec. Not thread safe.
class ImageDecoder : public RowSource {
 public:
  explicit ImageDecoder(ImageHeader header) : header_(std::move(header)) {}

  // Goes on to the next frame of an animation, once all rows of the one before were read, and
  // returns how long it is shown. FAILED_PRECONDITION unless header().animation has more frames.
  virtual absl::StatusOr<FrameDelay> NextFrame();

  const ImageSpec& spec() const final { return header_.spec; }
  const ImageHeader& header() const { return header_; }
  // Known before the first row, and after the last one for blocks behind the pixels.
  const ImageMetadata& metadata() const { return metadata_; }
  const ImageMetadata& late_metadata() const { return late_metadata_; }
  // Sentences beyond the header's; complete after the last row.
  const std::vector<std::string>& warnings() const { return warnings_; }

 protected:
  ImageMetadata metadata_, late_metadata_;
  std::vector<std::string> warnings_;

 private:
  const ImageHeader header_;
};

// `source` and `cancellation` (may be null) must outlive the decoder. Reads up to the first pixel.
// Once cancelled, ReadRows returns the reason, also where it works long for its first row: within a
// row of pixels or blocks of PNG and JPEG, within 64 KB of a WebP file.
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImageDecoder(
    ByteSource& source, const DecodeLimits& limits, const Cancellation* cancellation = nullptr);

// OpenImageDecoder, or the same work elsewhere: `header` is the image's, as ReadImageHeader gave
// it.
using ImageOpener = std::function<absl::StatusOr<std::unique_ptr<ImageDecoder>>(
    const ImageHeader& header, ByteSource& source, const DecodeLimits& limits,
    Cancellation* cancellation)>;

inline constexpr int kLosslessWebpQuality = 100;

struct EncodeOptions {
  ImageFormat format = ImageFormat::kPng;
  int quality = 90;     // JPEG, WebP, AVIF and JPEG XL, 1..100; 100 is lossless but for JPEG
  int compression = 2;  // PNG deflate level, 0..9
  int threads = 1;      // that PNG may use at once; the bytes do not depend on it
  MetadataPolicy metadata = MetadataPolicy::kKeep;  // see MetadataForResult; callers apply it
  std::optional<Animation> animation;  // set: the frames that will be written; see HoldsFrames
};

// Takes the rows of one image in order, or of each frame of an animation. Not thread safe.
class ImageEncoder {
 public:
  virtual ~ImageEncoder() = default;
  // Before the rows of each frame of EncodeOptions::animation.
  virtual absl::Status BeginFrame(FrameDelay) {
    return absl::FailedPreconditionError("no animation is written");
  }
  virtual absl::Status WriteRows(ImageView rows) = 0;
  // Adds blocks from after the first row (see HoldsLateMetadata), before Finish.
  virtual void AddLateMetadata(ImageMetadata) {}
  // Writes the end of the file; every row must have been written.
  virtual absl::Status Finish() = 0;
};

// Whether `format` can hold `spec` as it is, with a message about the passed limit (side, 16 bits,
// alpha). `OutputSpecFor` gives the nearest possible one (JPEG: no alpha, 8 bits).
absl::Status CheckEncodable(ImageFormat format, const ImageSpec& spec);
ImageSpec OutputSpecFor(ImageFormat format, const ImageSpec& spec);

// Encoder memory in addition to the caller's rows: the whole image for WebP, a few rows otherwise.
size_t EncoderBytes(const EncodeOptions& options, const ImageSpec& spec);

// `sink` and `cancellation` (may be null) must outlive the encoder. Once cancelled, a WebP encoder
// stops working for the image and Finish returns the reason; the others work row by row.
absl::StatusOr<std::unique_ptr<ImageEncoder>> CreateImageEncoder(
    const EncodeOptions& options, const ImageSpec& spec, const ImageMetadata& metadata,
    ByteSink& sink, const Cancellation* cancellation = nullptr);

std::string_view FormatExtension(ImageFormat format);  // "png", "jpg", "webp"
std::string_view FormatMediaType(ImageFormat format);  // "image/png", ...
// By name or file extension without the dot ("jpg" too), case-insensitive.
std::optional<ImageFormat> FormatFromName(std::string_view name);
// By media type without parameters ("image/jpg" too), case-insensitive.
std::optional<ImageFormat> FormatFromMediaType(std::string_view media_type);

}  // namespace upscaled
