// Animations as their files store them: frames on one canvas, each over the remains of the one
// before. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"

namespace upscaled {

// The fate of a frame's place on the canvas when its time is over.
enum class Disposal : uint8_t {
  kKeep,      // it stays
  kClear,     // the place becomes transparent
  kPrevious,  // the place becomes as it was before the frame
};

struct StoredFrame {
  Rect place;  // on the canvas; may be empty
  FrameDelay delay;
  Disposal disposal = Disposal::kKeep;
};

// Reads the frames of one file in order.
class FrameReader {
 public:
  virtual ~FrameReader() = default;

  // Returns the next frame. Called once for each frame of the header.
  virtual absl::StatusOr<StoredFrame> Next() = 0;
  // Draws it on `place`, its part of the canvas.
  virtual absl::Status Draw(MutableImageView place) = 0;

  // Members as of ImageDecoder.
  ImageMetadata metadata, late_metadata;
  std::vector<std::string> warnings;
};

// Bounds an animation while its file is walked, before anything is drawn.
class FrameCounter {
 public:
  // `format` is for errors: "GIF". `limits` must outlive it.
  FrameCounter(const char* format, Size canvas, const DecodeLimits& limits)
      : format_(format), canvas_(canvas), limits_(limits) {}

  // Counts a frame with `stored_px` stored pixels. RESOURCE_EXHAUSTED beyond the limits on frames
  // and on the pixels of all of them.
  absl::Status Add(int64_t stored_px);

 private:
  const char* const format_;
  const Size canvas_;
  const DecodeLimits& limits_;
  int frames_ = 0;
  int64_t pixels_ = 0;
};

// RESOURCE_EXHAUSTED if an animation of more bytes than `seen_bytes` is larger than the limit.
absl::Status CheckAnimationBytes(const char* format, size_t seen_bytes, const DecodeLimits& limits);

// Makes `header`, with a canvas decoder's spec, describe a file of these frames: all if
// limits.frame is 0, or one. INVALID_ARGUMENT if there is no such frame.
absl::Status DescribeFrames(const char* format, const Animation& animation,
                            const DecodeLimits& limits, ImageHeader& header);

// Memory of a canvas decoder without its reader.
size_t CanvasBytes(const ImageHeader& header);

// Draws the frames of `reader` on a canvas of StoredSpec(header) and gives them upright: all of
// them, or the one of limits.frame. `cancellation` (may be null) must outlive it.
std::unique_ptr<ImageDecoder> MakeCanvasDecoder(const ImageHeader& header,
                                                std::unique_ptr<FrameReader> reader,
                                                const DecodeLimits& limits,
                                                const Cancellation* cancellation);

}  // namespace upscaled
