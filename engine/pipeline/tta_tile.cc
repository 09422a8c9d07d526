#include "engine/pipeline/tta_tile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/image_run.h"

namespace upscaled {
namespace {

template <typename T>
void CopySamples(const ImageView& src, Dihedral transform, T* dst) {
  const Size size = transform.Apply(src.spec.size());
  const auto walk = transform.WalkOver(
      src.spec.size(), static_cast<ptrdiff_t>(src.spec.pixel_bytes()), src.stride_bytes);
  for (int v = 0; v < size.height; ++v) {
    const uint8_t* from = src.data + walk.origin + v * walk.step_v;
    for (int u = 0; u < size.width; ++u, dst += kRgbChannels, from += walk.step_u) {
      std::copy_n(reinterpret_cast<const T*>(from), kRgbChannels, dst);
    }
  }
}

template <typename T>
void WriteRounded(const float* src, float factor, float max, const MutableImageView& dst) {
  const int channels = dst.spec.channels;
  for (int y = 0; y < dst.height_px(); ++y) {
    T* to = dst.row_as<T>(y);
    for (int x = 0; x < dst.width_px(); ++x, to += channels, src += kRgbChannels) {
      for (int c = 0; c < kRgbChannels; ++c) {
        const float value = std::min(std::max(0.0f, src[c] * factor), 1.0f);
        to[c] = static_cast<T>(value * max + 0.5f);
      }
    }
  }
}

}  // namespace

void CopyTransformed(const ImageView& src, Dihedral variant, uint8_t* dst) {
  if (src.spec.type == SampleType::kU8) {
    CopySamples(src, variant, dst);
  } else {
    CopySamples(src, variant, reinterpret_cast<uint16_t*>(dst));
  }
}

TileVariants PlanVariants(const Executable& executable, const Rect& tile, Size image, bool tta) {
  TileVariants variants;
  const int count = tta ? Dihedral::kCount : 1;
  variants.plans.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const Dihedral transform(i);
    const TilePlan& plan = *variants.plans.emplace_back(std::make_shared<const TilePlan>(
        executable.Plan(transform.Apply(tile, image), transform.Apply(image))));
    variants.input = Cover(variants.input, transform.Undo(plan.input, image));
  }
  return variants;
}

size_t TtaTile::Bytes(Size tile, Size input, int scale, SampleType source_type) {
  const size_t result = kRgbChannels * static_cast<size_t>(tile.Area()) * scale * scale;
  const size_t source = kRgbChannels * static_cast<size_t>(input.Area());
  return 2 * result * sizeof(float) + source * SampleBytes(source_type) +
         3 * AlignedBuffer<float>::kAlignmentBytes;
}

TtaTile::TtaTile(Size tile, Size input, int scale, SampleType source_type)
    : source_(kRgbChannels * static_cast<size_t>(input.Area()) * SampleBytes(source_type)),
      result_(kRgbChannels * static_cast<size_t>(tile.Area()) * scale * scale),
      sum_(result_.size()) {}

void TtaTile::Start(TileRun& run, const std::shared_ptr<const Executable>& executable,
                    std::vector<TtaTask> tasks, std::function<void()> finished,
                    TileRun::Progress progress) {
  run_ = &run;
  executable_ = executable;
  tasks_ = std::move(tasks);
  next_task_ = 0;
  finished_ = std::move(finished);
  progress_ = progress;
  StartTask();
}

void TtaTile::StartTask() {
  task_ = std::move(tasks_[next_task_++]);
  variant_ = 0;
  UPSCALED_CHECK(kRgbChannels * static_cast<size_t>(task_.src.spec.size().Area()) *
                     SampleBytes(task_.src.spec.type) <=
                 source_.size());
  UPSCALED_CHECK(kRgbChannels * static_cast<size_t>(task_.dst.spec.size().Area()) <=
                 result_.size());
  SubmitVariant();
}

void TtaTile::SubmitVariant() {
  const Dihedral transform(variant_);
  TileTask task;
  task.plan = task_.variants.plans[static_cast<size_t>(variant_)];
  task.src_rect = task.plan->input;

  Rect input = transform.Undo(task.src_rect, task_.variants.plans.front()->image);
  input.x -= task_.variants.input.x;
  input.y -= task_.variants.input.y;
  const ImageView src = task_.src.Crop(input);
  CopyTransformed(src, transform, source_.data());
  const ImageSpec src_spec{task.src_rect.width, task.src_rect.height, kRgbChannels, src.spec.type};
  task.src = ImageView(source_.data(), src_spec, static_cast<ptrdiff_t>(src_spec.row_bytes()));

  const Size result = transform.Apply(task_.dst.spec.size());
  const ImageSpec dst_spec{result.width, result.height, kRgbChannels, SampleType::kF32};
  task.dst = MutableImageView(reinterpret_cast<uint8_t*>(result_.data()), dst_spec,
                              static_cast<ptrdiff_t>(dst_spec.row_bytes()));
  if (!task_.passes.empty()) task.pooling = &task_.passes[static_cast<size_t>(variant_)];

  const auto done = [this](size_t, const absl::Status& status) {
    if (!status.ok()) return Finish();
    AddToSum();
    if (++variant_ < Dihedral::kCount) return SubmitVariant();
    WriteMean();
    progress_ = TileRun::Progress::kNone;
    if (next_task_ < tasks_.size()) return StartTask();
    Finish();
  };
  if (!task_.is_image) return run_->Submit(executable_, {std::move(task)}, done, progress_);
  const auto submit = [this](std::vector<TileTask> tiles, TileExecutor::TileDone tile_done) {
    run_->Submit(executable_, std::move(tiles), std::move(tile_done), progress_);
  };
  ImageRun::Start(std::make_shared<ImageRun>(*executable_, std::vector{std::move(task)},
                                             /*cached_tiles=*/1),
                  submit, [done](const absl::Status& status) { done(0, status); });
}

void TtaTile::Finish() {
  executable_.reset();
  tasks_ = {};
  task_ = {};
  // Moved out: the object may start its next tile, or be gone, before the call returns.
  const auto finished = std::move(finished_);
  finished();
}

void TtaTile::AddToSum() {
  const Dihedral transform(variant_);
  const Size size = task_.dst.spec.size();
  const Size transformed = transform.Apply(size);
  const auto walk = transform.WalkOver(size, kRgbChannels, ptrdiff_t{kRgbChannels} * size.width);
  const float* from = result_.data();
  for (int v = 0; v < transformed.height; ++v) {
    float* to = sum_.data() + walk.origin + v * walk.step_v;
    for (int u = 0; u < transformed.width; ++u, from += kRgbChannels, to += walk.step_u) {
      for (int c = 0; c < kRgbChannels; ++c) to[c] = variant_ == 0 ? from[c] : to[c] + from[c];
    }
  }
}

void TtaTile::WriteMean() const {
  constexpr float kShare = 1.0f / Dihedral::kCount;
  if (task_.dst.spec.type == SampleType::kU8) {
    WriteRounded<uint8_t>(sum_.data(), kShare, 255.0f, task_.dst);
  } else {
    WriteRounded<uint16_t>(sum_.data(), kShare, 65535.0f, task_.dst);
  }
}

}  // namespace upscaled
