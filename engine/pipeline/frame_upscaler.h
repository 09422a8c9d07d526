// The frames of an animation, one after the other through one plan: of each, only the result that
// differs from the frame before is computed.
//
// A pixel of a local network's result depends on the source's pixels around it. So the result of a
// frame equals the frame before, except around changed pixels. Those parts are computed as cut-outs
// of the frame (FrameChange). The bytes are those of whole frames.
//
// Corrections look farther than most networks. So the network's own result is kept, too, if it
// fits: the network then computes only what its own view asks for, and corrections the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/cancellation.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/image/view_rows.h"
#include "engine/pipeline/frame_change.h"
#include "engine/pipeline/tile_executor.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {

class FrameUpscaler {
 public:
  // `executor` and `cancellation` (may be null) must outlive it. A single frame, and frames above
  // plan.options.kept_frame_bytes, are all computed whole.
  FrameUpscaler(const UpscalePlan& plan, int frames, TileExecutor& executor,
                Cancellation* cancellation, UpscaleProgress progress);

  // The rows of the next frame's result. `frame` has plan.source, and must outlive them; they live
  // until the next call.
  absl::StatusOr<RowSource*> Next(RowSource& frame);

  // Source pixels so far without a computation, and frames equal to the one before.
  int64_t unchanged_px() const { return unchanged_px_; }
  int unchanged_frames() const { return unchanged_frames_; }

  // Its memory in addition to plan.memory_bytes: two frames, the result of one and, if that fits,
  // the network's own. 0: no frame is kept.
  static size_t Bytes(const UpscalePlan& plan, int frames);

 private:
  // The rows of `local_`, of a kept frame.
  absl::StatusOr<std::unique_ptr<RowSource>> NextKept(RowSource& frame);
  // Reads a frame, and returns its parts to compute.
  absl::StatusOr<std::vector<ChangedPart>> Read(RowSource& frame);
  absl::StatusOr<std::vector<UpscalePlan>> PlanParts(const std::vector<ChangedPart>& parts) const;
  absl::StatusOr<UpscalePlan> PlanCutOut(Size size) const;
  // Whether the plans give the bytes of `network_`, for less work and within its memory.
  bool ReplaceWhole(const std::vector<UpscalePlan>& parts) const;
  // Computes a part of what `network_` gives.
  absl::Status Compute(const UpscalePlan& plan, const ChangedPart& part);
  // Corrects everything that depends on this part of the network's result.
  absl::Status Correct(const Rect& changed);
  std::unique_ptr<RowSource> MakeWhole(const UpscalePlan& plan, RowSource& frame) const;
  // The rows of the whole kept frame, kept in turn.
  std::unique_ptr<RowSource> MakeKept();
  UpscaleProgress ProgressOfFrame() const;
  bool corrects() const { return !network_.options.corrects; }

  // The stages up to a final resize, and the resize and those behind it.
  UpscalePlan local_, finish_;
  // If frames are kept: `local_` without its corrections if these are made apart, else `local_`.
  UpscalePlan network_;
  const int frames_;
  TileExecutor& executor_;
  Cancellation* const cancellation_;
  const UpscaleProgress progress_;
  std::optional<FrameChange> change_;  // set: frames are kept
  Image frame_, before_;               // this frame's source and the last one's
  Image result_;                       // that `local_` gives of the frame
  Image network_result_;               // that `network_` gives, if corrections are made apart
  // The rows of the frame, of its result by `network_`, by `local_`, and by `finish_` if `finish_`
  // has stages.
  std::vector<ViewRows> frame_rows_;
  std::unique_ptr<RowSource> network_rows_, local_rows_, finished_rows_;
  int number_ = 0;  // of the frame
  int64_t unchanged_px_ = 0;
  int unchanged_frames_ = 0;
};

}  // namespace upscaled
