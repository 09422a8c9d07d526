// An encoder of animations. It stores the changed part of each frame. Private to engine/image.
#pragma once

#include "absl/status/status.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"
#include "engine/image/frame_delta.h"
#include "engine/image/image.h"

namespace upscaled {

class AnimationEncoder : public ImageEncoder {
 public:
  // As a step: all of each frame is stored.
  static constexpr int kWholeFrames = 0;
  // `options.animation` has a value. Places of parts are multiples of `step_px`.
  AnimationEncoder(const EncodeOptions& options, const ImageSpec& spec, int step_px)
      : spec_(spec),
        animation_(*options.animation),
        frame_options_(options),
        step_px_(step_px),
        delta_(spec) {
    frame_options_.animation.reset();
  }

  absl::Status BeginFrame(FrameDelay delay) final;
  absl::Status WriteRows(ImageView rows) final;
  absl::Status Finish() final;

 protected:
  // Adds a frame: `part`, at `place`, replaces the pixels there.
  virtual absl::Status AddFrame(FrameDelay delay, const Rect& place, ImageView part) = 0;
  // Writes the rest, behind the last frame.
  virtual absl::Status WriteEnd() = 0;

  const ImageSpec& spec() const { return spec_; }
  const Animation& animation() const { return animation_; }
  // The options without an animation, for the file of a single frame.
  const EncodeOptions& frame_options() const { return frame_options_; }

 private:
  absl::Status EndFrame();

  const ImageSpec spec_;
  const Animation animation_;
  EncodeOptions frame_options_;
  const int step_px_;
  FrameDelta delta_;
  int frames_begun_ = 0;
  FrameDelay delay_;
};

}  // namespace upscaled
