#include "engine/image/animation_encoder.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"

namespace upscaled {

absl::Status AnimationEncoder::BeginFrame(FrameDelay delay) {
  if (frames_begun_ > 0) RETURN_IF_ERROR(EndFrame());
  ++frames_begun_;
  delay_ = delay;
  return absl::OkStatus();
}

absl::Status AnimationEncoder::WriteRows(ImageView rows) {
  RETURN_IF_ERROR(CheckRows(spec_, delta_.rows_added(), rows.spec));
  delta_.AddRows(rows);
  return absl::OkStatus();
}

absl::Status AnimationEncoder::EndFrame() {
  RETURN_IF_ERROR(CheckAllWritten(spec_, delta_.rows_added()));
  const Rect place = step_px_ == kWholeFrames ? Rect{0, 0, spec_.width_px, spec_.height_px}
                                              : delta_.Changed(step_px_);
  RETURN_IF_ERROR(AddFrame(delay_, place, delta_.frame().Crop(place)));
  delta_.Advance();
  return absl::OkStatus();
}

absl::Status AnimationEncoder::Finish() {
  if (frames_begun_ != animation_.frames)
    return absl::FailedPreconditionError(
        absl::StrCat("frame ", frames_begun_, " of ", animation_.frames, " was the last one"));
  RETURN_IF_ERROR(EndFrame());
  return WriteEnd();
}

}  // namespace upscaled
