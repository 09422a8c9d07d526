// Animated PNG: the frames of a file, and each of them as a PNG file of its own. Private to
// engine/image. Source: PNG specification (third edition), section 11.3.6.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"
#include "engine/image/frame_canvas.h"
#include "engine/image/replay_source.h"
#include "engine/image/stored_image.h"

namespace upscaled {

inline constexpr size_t kAcTlBytes = 8;  // of an animation control chunk

struct PngFrame {
  StoredFrame stored;
  bool blends = false;                           // over the canvas; otherwise it replaces its place
  std::vector<std::span<const uint8_t>> pixels;  // chunks, IDAT or fdAT; the last may be cut off
  bool is_cut = false;
};

// Spans are of the file.
struct PngAnimation {
  Size canvas;
  Animation animation;
  std::span<const uint8_t> ihdr;
  std::vector<std::span<const uint8_t>> head, late;  // chunks before and behind the first pixels
  std::vector<PngFrame> frames;
  bool needs_alpha = false;           // for parts of the canvas that no frame covers
  std::vector<std::string> warnings;  // about frames that are not there, or too many
};

// Walks an animated file with a checked header. nullopt: more bytes are needed. `is_whole`: as of
// ParseHeaderFn.
absl::StatusOr<std::optional<PngAnimation>> ParsePngAnimation(std::span<const uint8_t> prefix,
                                                              const DecodeLimits& limits,
                                                              bool is_whole);

// The number of frames in acTL; 0: no animation.
uint32_t StatedPngFrames(std::span<const uint8_t> prefix);

// A PNG file of frame number `index`, from 0. The first one has the head's metadata, and
// `has_late` the chunks behind the pixels.
std::vector<uint8_t> PngOfFrame(const PngAnimation& animation, size_t index, bool has_late);

// Reads the frames of `source`. Its prefix is the file.
absl::StatusOr<std::unique_ptr<FrameReader>> OpenPngFrames(std::unique_ptr<ReplaySource> source,
                                                           PngAnimation animation,
                                                           const DecodeLimits& limits,
                                                           const Cancellation* cancellation);

// In png_decoder.cc: one PNG file as it is stored, ready for its first row.
absl::StatusOr<std::unique_ptr<StoredImage>> OpenStoredPng(std::unique_ptr<ReplaySource> source,
                                                           const ImageSpec& spec,
                                                           const DecodeLimits& limits,
                                                           const Cancellation* cancellation);

}  // namespace upscaled
