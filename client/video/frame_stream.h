// Frames that come out of a pipe one after the other, and go into one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/image_io.h"
#include "client/video/yuv.h"
#include "engine/image/image.h"

namespace upscaled::client {

enum class FrameKind : uint8_t { kY4m, kPng, kPpm };

// All that is said of a film before its first frame.
struct FilmFormat {
  FrameKind kind = FrameKind::kPng;
  // Only of kY4m, as the next one.
  YuvFormat yuv;
  std::string y4m_tags;  // those that stay as they are, such as " F24:1 A1:1"
};

struct FrameReaderOptions {
  std::optional<Matrix> matrix;    // nullopt: BT.601 up to 576 rows, else BT.709
  std::optional<bool> full_range;  // nullopt: as the stream says, else limited
};

// Frames of YUV4MPEG2, or of PNG or binary PPM and PGM files put together (ffmpeg's image2pipe).
// Errors are INVALID_ARGUMENT and name the frame, counted from 0; UNIMPLEMENTED for interlaced
// films and for formats of samples that are not read.
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
};

// The frame as a PNG, without loss: of a PNG its own bytes.
absl::StatusOr<std::string> FrameToPng(std::string frame, const FilmFormat& format);

// The bytes before the first frame of a film in `format`; "" unless it is kY4m.
std::string FilmHeader(const FilmFormat& format);

// A result's bytes in the stream. All frames of kY4m must have one size; `size` of a kPng is not
// set.
struct FrameResult {
  Size size;
  std::string bytes;
};

// A result, a PNG, as a frame of a stream in the source's format.
absl::StatusOr<FrameResult> FrameFromPng(std::string png, const FilmFormat& source);

}  // namespace upscaled::client
