// Frames from a pipe, one after the other, and into one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/image_io.h"
#include "client/video/yuv.h"
#include "engine/image/image.h"

namespace upscaled::client {

enum class FrameKind : uint8_t { kY4m, kPng, kPpm, kRawYuv, kRawRgb };

// All facts about a film before its first frame.
struct FilmFormat {
  FrameKind kind = FrameKind::kPng;
  // Set for kY4m and kRawYuv; size and depth for kRawRgb, too.
  YuvFormat yuv;
  // Only of kY4m.
  std::string y4m_tags;  // those that stay as they are, such as " F24:1 A1:1"
  // Frames become images of luma, gray ones; chroma is resampled apart. For kY4m and kRawYuv.
  bool resamples_chroma = false;
};

// Frames without any header, one after the other. `name` is FFmpeg's pixel format: yuv420p,
// yuv422p, yuv444p and gray, of more than 8 bits with a suffix such as 10le; yuvj420p and so on,
// and gray, of full range; rgb24 and rgb48le. Chroma of 4:2:0 lies on the left column.
// INVALID_ARGUMENT for a size beyond 1..65535 px, UNIMPLEMENTED for another name.
absl::StatusOr<FilmFormat> RawFormat(Size size, absl::string_view name);

struct FrameReaderOptions {
  std::optional<FilmFormat> raw;   // the stream has such frames, whatever they look like
  std::optional<Matrix> matrix;    // nullopt: BT.601 up to 576 rows, else BT.709
  std::optional<bool> full_range;  // nullopt: as the stream says, else limited
  bool resamples_chroma = false;   // INVALID_ARGUMENT for frames without chroma planes
};

// Frames of YUV4MPEG2, raw ones, or PNG or binary PPM and PGM files put together (ffmpeg's
// image2pipe). Errors are INVALID_ARGUMENT and name the frame, counted from 0; UNIMPLEMENTED for
// interlaced films and for formats of samples that are not read.
class FrameReader {
 public:
  static constexpr size_t kMaxFrameBytes = size_t{1} << 30;

  // Reads up to the first frame. `source` is borrowed.
  static absl::StatusOr<std::unique_ptr<FrameReader>> Open(ImageSource& source,
                                                           const FrameReaderOptions& options,
                                                           std::stop_token stop);
  virtual ~FrameReader() = default;
  const FilmFormat& format() const { return format_; }
  // The next frame's bytes as they stand in the stream; nullopt at its end.
  virtual absl::StatusOr<std::optional<std::string>> Next() = 0;

 protected:
  FilmFormat format_;

 private:
  static absl::StatusOr<std::unique_ptr<FrameReader>> OpenStream(ImageSource& source,
                                                                 const FrameReaderOptions& options,
                                                                 std::stop_token stop);
};

// Whether frames are samples without compression: equal bytes are then equal pixels.
bool HasPlainSamples(const FilmFormat& format);

// Writes the samples of the frame before over those of `frame`, in each block of 8x8 of a plane's
// pixels with all samples within `levels` of 255. Both have one size; the format is kY4m, kRawYuv
// or kRawRgb.
void HoldNoise(const FilmFormat& format, int levels, absl::string_view before, std::string& frame);

// The share of a frame's bytes with a change from the frame before, in blocks of 64; 1 if the
// frames have different sizes.
double ChangedShare(const FilmFormat& format, const std::string& before, const std::string& frame);

// The frame as a PNG, without loss: of a PNG its own bytes.
absl::StatusOr<std::string> FrameToPng(std::string frame, const FilmFormat& format);
// Several frames of one size, with plain samples, as an animated PNG.
absl::StatusOr<std::string> FramesToPng(std::span<const std::string> frames,
                                        const FilmFormat& format);

// The bytes before the first frame of a film in `format`; "" unless it is kY4m.
std::string FilmHeader(const FilmFormat& format);

// A result's bytes in the stream. All frames must have one size, except of kPng and kPpm; `size` of
// a kPng is not set.
struct FrameResult {
  Size size;
  std::string bytes;
};

// A result, a PNG, as a frame of a stream in the source's format. `frame` is the source's.
absl::StatusOr<FrameResult> FrameFromPng(std::string png, const std::string& frame,
                                         const FilmFormat& source);
// The results of FramesToPng, one for each of `frames`.
absl::StatusOr<std::vector<FrameResult>> FramesFromPng(const std::string& png,
                                                       std::span<const std::string> frames,
                                                       const FilmFormat& source);

}  // namespace upscaled::client
