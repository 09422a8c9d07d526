// Animated WebP, drawn by libwebp. Private to engine/image.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "engine/image/frame_canvas.h"
#include "engine/image/replay_source.h"

namespace upscaled {

// Whether the file's VP8X chunk states an animation. `prefix` must hold the chunk.
bool IsWebpAnimation(std::span<const uint8_t> prefix);

// As ParseHeaderFn, of an animation: walks the whole file.
absl::StatusOr<std::optional<ImageHeader>> ParseWebpAnimationHeader(std::span<const uint8_t> prefix,
                                                                    const DecodeLimits& limits,
                                                                    bool is_whole);

// Reads the frames of `source`. Its prefix is the file.
absl::StatusOr<std::unique_ptr<FrameReader>> OpenWebpFrames(std::unique_ptr<ReplaySource> source,
                                                            const DecodeLimits& limits);

}  // namespace upscaled
