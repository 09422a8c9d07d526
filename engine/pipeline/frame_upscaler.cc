#include "engine/pipeline/frame_upscaler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/view_rows.h"
#include "engine/pipeline/locality.h"
#include "engine/pipeline/stages.h"

namespace upscaled {
namespace {

// The stages of `plan` behind those of `local`.
UpscalePlan FinishOf(const UpscalePlan& plan, const UpscalePlan& local) {
  UpscalePlan finish{.source = local.result, .result = plan.result, .options = plan.options};
  const auto begin = plan.stages.begin() + static_cast<ptrdiff_t>(local.stages.size());
  finish.stages.assign(begin, plan.stages.end());
  return finish;
}

// Scratch memory of a stream that a server reserves for a pass of frames.
size_t ScratchBytes(const PassSpec& pass) {
  const Executable& executable = *pass.executable;
  const Size preferred = executable.PreferredTile();
  return std::max(pass.rows ? pass.rows->scratch_bytes : executable.WorkspaceBytes(pass.tile),
                  executable.WorkspaceBytes(preferred));
}

// Gives the rows of another source, and keeps them in an image.
class KeptRows final : public RowSource {
 public:
  KeptRows(std::unique_ptr<RowSource> rows, MutableImageView kept)
      : rows_(std::move(rows)), kept_(kept) {}

  const ImageSpec& spec() const override { return rows_->spec(); }
  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(rows_->ReadRows(rows));
    for (int y = 0; y < rows.height_px(); ++y, ++next_row_)
      std::memcpy(kept_.row(next_row_), rows.row(y), rows.spec.row_bytes());
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<RowSource> rows_;
  const MutableImageView kept_;
  int next_row_ = 0;
};

}  // namespace

size_t FrameUpscaler::Bytes(const UpscalePlan& plan, int frames) {
  if (frames == 1) return 0;
  const ImageSpec result = LocalPart(plan).result;
  const size_t bytes = 2 * ImageBytes(plan.source) + ImageBytes(result) + result.row_bytes() +
                       FrameChange::Bytes(plan.source.size());
  return bytes <= plan.options.kept_frame_bytes ? bytes : 0;
}

FrameUpscaler::FrameUpscaler(const UpscalePlan& plan, int frames, TileExecutor& executor,
                             Cancellation* cancellation, UpscaleProgress progress)
    : local_(LocalPart(plan)),
      finish_(FinishOf(plan, local_)),
      frames_(frames),
      executor_(executor),
      cancellation_(cancellation),
      progress_(std::move(progress)) {
  if (Bytes(plan, frames) == 0) return;
  change_.emplace(plan.source.size(), LocalityOf(local_));
  frame_ = Image(plan.source);
  before_ = Image(plan.source);
  result_ = Image(local_.result);
}

UpscaleProgress FrameUpscaler::ProgressOfFrame() const {
  if (!progress_.on_tile || frames_ == 1) return progress_;
  return {.on_tile = [this, before = number_ * local_.tile_count](
                         int64_t done,
                         int64_t total) { progress_.on_tile(before + done, frames_ * total); },
          .on_spared = progress_.on_spared};
}

absl::StatusOr<RowSource*> FrameUpscaler::Next(RowSource& frame) {
  finished_rows_.reset();
  local_rows_.reset();
  if (change_.has_value()) {
    ASSIGN_OR_RETURN(local_rows_, NextKept(frame));
  } else {
    local_rows_ = MakeWhole(frame);
  }
  ++number_;
  if (finish_.stages.empty()) return local_rows_.get();
  finished_rows_ = MakeUpscaler(finish_, *local_rows_, executor_, cancellation_);
  return finished_rows_.get();
}

absl::StatusOr<std::unique_ptr<RowSource>> FrameUpscaler::NextKept(RowSource& frame) {
  ASSIGN_OR_RETURN(const std::vector<ChangedPart> parts, Read(frame));
  ASSIGN_OR_RETURN(const std::vector<UpscalePlan> plans, PlanParts(parts));
  if (!ReplaceWhole(plans)) {
    frame_rows_ = std::make_unique<ViewRows>(frame_.view());
    return std::make_unique<KeptRows>(MakeWhole(*frame_rows_), result_.mutable_view());
  }
  int64_t unchanged_px = local_.source.size().Area();
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(Compute(plans[i], parts[i]));
    unchanged_px -= parts[i].cut_out.Area();
  }
  unchanged_px_ += std::max<int64_t>(unchanged_px, 0);
  unchanged_frames_ += parts.empty() ? 1 : 0;
  const UpscaleProgress progress = ProgressOfFrame();
  if (progress.on_tile) progress.on_tile(local_.tile_count, local_.tile_count);
  return std::make_unique<ViewRows>(result_.view());
}

std::unique_ptr<RowSource> FrameUpscaler::MakeWhole(RowSource& frame) const {
  return MakeUpscaler(local_, frame, executor_, cancellation_, ProgressOfFrame());
}

absl::StatusOr<std::vector<ChangedPart>> FrameUpscaler::Read(RowSource& frame) {
  std::swap(frame_, before_);
  RETURN_IF_ERROR(frame.ReadRows(frame_.mutable_view()));
  const Size size = local_.source.size();
  const Rect all{0, 0, size.width, size.height};
  if (number_ == 0) return std::vector<ChangedPart>{{all, all}};
  return change_->PartsOf(before_.view(), frame_.view());
}

absl::StatusOr<std::vector<UpscalePlan>> FrameUpscaler::PlanParts(
    const std::vector<ChangedPart>& parts) const {
  std::vector<UpscalePlan> plans;
  for (const ChangedPart& part : parts) {
    const bool is_whole = part.cut_out.size() == local_.source.size();
    if (is_whole) {
      plans.push_back(local_);
    } else {
      ASSIGN_OR_RETURN(plans.emplace_back(), PlanCutOut(part.cut_out.size()));
    }
  }
  return plans;
}

absl::StatusOr<UpscalePlan> FrameUpscaler::PlanCutOut(Size size) const {
  ImageSpec source = local_.source;
  source.width_px = size.width;
  source.height_px = size.height;
  const int scale = local_.result.width_px / local_.source.width_px;
  std::vector<std::shared_ptr<const Executable>> executables;
  for (const PassSpec& pass : local_.passes) executables.push_back(pass.executable);
  UpscaleOptions options = local_.options;
  options.result_type = local_.result.type;
  ASSIGN_OR_RETURN(UpscalePlan plan, PlanUpscale(source, {size.width * scale, size.height * scale},
                                                 std::move(executables), options));
  plan.result.channels = local_.result.channels;
  plan.stages = PlanStages(plan);
  return plan;
}

bool FrameUpscaler::ReplaceWhole(const std::vector<UpscalePlan>& parts) const {
  int64_t cost = 0;
  for (const UpscalePlan& part : parts) {
    cost += part.cost;
    if (part.memory_bytes > local_.memory_bytes || !ReachAsFar(part.stages, local_.stages))
      return false;
    for (size_t i = 0; i < part.passes.size(); ++i)
      if (ScratchBytes(part.passes[i]) > ScratchBytes(local_.passes[i])) return false;
  }
  return parts.empty() || cost < local_.cost;
}

absl::Status FrameUpscaler::Compute(const UpscalePlan& plan, const ChangedPart& part) {
  const int scale = plan.result.width_px / plan.source.width_px;
  ViewRows cut_out(frame_.view().Crop(part.cut_out));
  const auto rows =
      MakeUpscaler(plan, cut_out, executor_, cancellation_, {.on_spared = progress_.on_spared});
  ImageSpec one_row = plan.result;
  one_row.height_px = 1;
  Image row(one_row);
  const Rect kept = Scale(Shift(part.area, -part.cut_out.x, -part.cut_out.y), scale);
  const MutableImageView result = result_.mutable_view().Crop(Scale(part.area, scale));
  // The rows below are not needed; work on them ends with `rows`.
  for (int y = 0; y < kept.bottom(); ++y) {
    RETURN_IF_ERROR(rows->ReadRows(row.mutable_view()));
    if (y < kept.y) continue;
    const ImageView part_of_row = row.view().Crop({kept.x, 0, kept.width, 1});
    std::memcpy(result.row(y - kept.y), part_of_row.data, part_of_row.spec.row_bytes());
  }
  return absl::OkStatus();
}

}  // namespace upscaled
