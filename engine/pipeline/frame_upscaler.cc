#include "engine/pipeline/frame_upscaler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/corrected_pass.h"
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

// Reads `rows` up to the end of a part, and copies the part. Work on the rows below ends with them.
absl::Status CopyPart(RowSource& rows, const Rect& part, MutableImageView to) {
  ImageSpec one_row = rows.spec();
  one_row.height_px = 1;
  Image row(one_row);
  for (int y = 0; y < part.bottom(); ++y) {
    RETURN_IF_ERROR(rows.ReadRows(row.mutable_view()));
    if (y < part.y) continue;
    const ImageView part_of_row = row.view().Crop({part.x, 0, part.width, 1});
    std::memcpy(to.row(y - part.y), part_of_row.data, part_of_row.spec.row_bytes());
  }
  return absl::OkStatus();
}

Rect Widen(const Rect& rect, int px, Size frame) {
  return Intersect({rect.x - px, rect.y - px, rect.width + 2 * px, rect.height + 2 * px},
                   {0, 0, frame.width, frame.height});
}

// The memory of two frames, their result, and a row of a part.
size_t KeptBytes(const UpscalePlan& local) {
  return 2 * ImageBytes(local.source) + ImageBytes(local.result) + local.result.row_bytes() +
         FrameChange::Bytes(local.source.size());
}

bool HasRoom(const UpscalePlan& local) {
  return KeptBytes(local) <= local.options.kept_frame_bytes;
}

// As KeptBytes, with the network's own result.
size_t KeptBytes(const UpscalePlan& local, const UpscalePlan& network) {
  return KeptBytes(local) + ImageBytes(network.result) + network.result.row_bytes();
}

// The network of a plan if its own result is kept, too.
std::optional<UpscalePlan> KeptNetwork(const UpscalePlan& local) {
  std::optional<UpscalePlan> network = NetworkPart(local);
  const bool fits = network && KeptBytes(local, *network) <= local.options.kept_frame_bytes;
  return fits ? network : std::nullopt;
}

}  // namespace

size_t FrameUpscaler::Bytes(const UpscalePlan& plan, int frames) {
  if (frames == 1) return 0;
  const UpscalePlan local = LocalPart(plan);
  if (!HasRoom(local)) return 0;
  const auto network = KeptNetwork(local);
  return network ? KeptBytes(local, *network) : KeptBytes(local);
}

FrameUpscaler::FrameUpscaler(const UpscalePlan& plan, int frames, TileExecutor& executor,
                             Cancellation* cancellation, UpscaleProgress progress)
    : local_(LocalPart(plan)),
      finish_(FinishOf(plan, local_)),
      frames_(frames),
      executor_(executor),
      cancellation_(cancellation),
      progress_(std::move(progress)) {
  if (frames == 1 || !HasRoom(local_)) return;
  const auto network = KeptNetwork(local_);
  network_ = network.value_or(local_);
  change_.emplace(plan.source.size(), LocalityOf(network_));
  frame_ = Image(plan.source);
  before_ = Image(plan.source);
  result_ = Image(local_.result);
  if (network) network_result_ = Image(network_.result);
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
  network_rows_.reset();
  if (change_.has_value()) {
    ASSIGN_OR_RETURN(local_rows_, NextKept(frame));
  } else {
    local_rows_ = MakeWhole(local_, frame);
  }
  ++number_;
  if (finish_.stages.empty()) return local_rows_.get();
  finished_rows_ = MakeUpscaler(finish_, *local_rows_, executor_, cancellation_);
  return finished_rows_.get();
}

absl::StatusOr<std::unique_ptr<RowSource>> FrameUpscaler::NextKept(RowSource& frame) {
  ASSIGN_OR_RETURN(const std::vector<ChangedPart> parts, Read(frame));
  ASSIGN_OR_RETURN(const std::vector<UpscalePlan> plans, PlanParts(parts));
  if (!ReplaceWhole(plans)) return MakeKept();
  int64_t unchanged_px = local_.source.size().Area();
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(Compute(plans[i], parts[i]));
    unchanged_px -= parts[i].cut_out.Area();
  }
  if (corrects())
    for (const ChangedPart& part : parts) RETURN_IF_ERROR(Correct(part.area));
  unchanged_px_ += std::max<int64_t>(unchanged_px, 0);
  unchanged_frames_ += parts.empty() ? 1 : 0;
  const UpscaleProgress progress = ProgressOfFrame();
  if (progress.on_tile) progress.on_tile(local_.tile_count, local_.tile_count);
  return std::make_unique<ViewRows>(result_.view());
}

std::unique_ptr<RowSource> FrameUpscaler::MakeWhole(const UpscalePlan& plan,
                                                    RowSource& frame) const {
  return MakeUpscaler(plan, frame, executor_, cancellation_, ProgressOfFrame());
}

std::unique_ptr<RowSource> FrameUpscaler::MakeKept() {
  const PassSpec* const corrected = corrects() ? &local_.passes.front() : nullptr;
  const int readers = corrected != nullptr ? Corrections::SourceReaders(*corrected) : 0;
  frame_rows_.assign(static_cast<size_t>(1 + readers), ViewRows(frame_.view()));
  std::unique_ptr<RowSource> rows = MakeWhole(network_, frame_rows_[0]);
  if (corrected != nullptr) {
    network_rows_ = std::make_unique<KeptRows>(std::move(rows), network_result_.mutable_view());
    rows = std::make_unique<Corrections>(*corrected, *network_rows_, [this](int i) -> RowSource& {
      return frame_rows_[static_cast<size_t>(1 + i)];
    });
  }
  return std::make_unique<KeptRows>(std::move(rows), result_.mutable_view());
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
    const bool is_whole = part.cut_out.size() == network_.source.size();
    if (is_whole) {
      plans.push_back(network_);
    } else {
      ASSIGN_OR_RETURN(plans.emplace_back(), PlanCutOut(part.cut_out.size()));
    }
  }
  return plans;
}

absl::StatusOr<UpscalePlan> FrameUpscaler::PlanCutOut(Size size) const {
  ImageSpec source = network_.source;
  source.width_px = size.width;
  source.height_px = size.height;
  const int scale = network_.result.width_px / network_.source.width_px;
  std::vector<std::shared_ptr<const Executable>> executables;
  for (const PassSpec& pass : network_.passes) executables.push_back(pass.executable);
  UpscaleOptions options = network_.options;
  options.result_type = network_.result.type;
  ASSIGN_OR_RETURN(UpscalePlan plan, PlanUpscale(source, {size.width * scale, size.height * scale},
                                                 std::move(executables), options));
  plan.result.channels = network_.result.channels;
  plan.stages = PlanStages(plan);
  return plan;
}

bool FrameUpscaler::ReplaceWhole(const std::vector<UpscalePlan>& parts) const {
  int64_t cost = 0;
  for (const UpscalePlan& part : parts) {
    cost += part.cost;
    if (part.memory_bytes > network_.memory_bytes || !ReachAsFar(part.stages, network_.stages))
      return false;
    for (size_t i = 0; i < part.passes.size(); ++i)
      if (ScratchBytes(part.passes[i]) > ScratchBytes(network_.passes[i])) return false;
  }
  return parts.empty() || cost < network_.cost;
}

absl::Status FrameUpscaler::Compute(const UpscalePlan& plan, const ChangedPart& part) {
  const int scale = plan.result.width_px / plan.source.width_px;
  ViewRows cut_out(frame_.view().Crop(part.cut_out));
  const auto rows =
      MakeUpscaler(plan, cut_out, executor_, cancellation_, {.on_spared = progress_.on_spared});
  Image& result = corrects() ? network_result_ : result_;
  return CopyPart(*rows, Scale(Shift(part.area, -part.cut_out.x, -part.cut_out.y), scale),
                  result.mutable_view().Crop(Scale(part.area, scale)));
}

absl::Status FrameUpscaler::Correct(const Rect& changed) {
  const PassSpec& pass = local_.passes.front();
  const int scale = pass.executable->network().scale, border_px = CorrectionBorderPx(pass);
  const Rect area = Widen(changed, border_px, frame_.spec().size());
  const Rect cut_out = Widen(area, border_px, frame_.spec().size());
  ViewRows network(network_result_.view().Crop(Scale(cut_out, scale)));
  std::vector<ViewRows> source(static_cast<size_t>(Corrections::SourceReaders(pass)),
                               ViewRows(frame_.view().Crop(cut_out)));
  Corrections rows(pass, network,
                   [&source](int i) -> RowSource& { return source[static_cast<size_t>(i)]; });
  return CopyPart(rows, Scale(Shift(area, -cut_out.x, -cut_out.y), scale),
                  result_.mutable_view().Crop(Scale(area, scale)));
}

}  // namespace upscaled
