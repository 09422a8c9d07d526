#include "engine/pipeline/row_run.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace upscaled {
namespace {

// 50 ms of one AVX-512 core by the fastest kernels: the longest wait of another request's tile,
// unless a single step takes longer.
constexpr int64_t kSliceCost = 7'500'000'000;

int64_t CostOf(const PassSpec& pass) {
  const Size image = pass.source.size();
  return pass.executable->Plan({0, 0, image.width, image.height}, image).Cost(/*cached=*/false);
}

}  // namespace

RowRun::RowRun(const PassSpec& pass, TileRun& run)
    : executable_(pass.executable),
      image_(pass.source.size()),
      cost_(CostOf(pass)),
      parts_(PartCount(pass)),
      run_(run),
      stream_(executable_->CreateRowStream(image_)) {}

int64_t RowRun::PartCount(const PassSpec& pass) {
  return (CostOf(pass) + kSliceCost - 1) / kSliceCost;
}

void RowRun::Submit(TileTask band, std::shared_ptr<const RowParts> parts,
                    std::function<void()> finished) {
  {
    absl::MutexLock lock(&mutex_);
    bands_.push_back({std::move(band), std::move(parts), std::move(finished)});
    if (bands_.size() > 1) return;  // whoever finishes the one before goes on with it
  }
  GoOn();
}

void RowRun::GoOn() {
  while (true) {
    TileTask task;
    const RowParts* parts;  // the band's, which stays until it is finished
    {
      absl::MutexLock lock(&mutex_);
      task = bands_.front().task;
      parts = bands_.front().parts.get();
    }
    const int bottom = task.plan->tile.bottom() * executable_->network().scale;
    const int64_t cost = run_.status().ok() ? stream_->PlanSlice(bottom, kSliceCost, parts) : 0;
    if (cost > 0) {
      const double share = static_cast<double>(cost) / static_cast<double>(cost_);
      const auto px = static_cast<int64_t>(share * static_cast<double>(image_.Area()));
      task.slice = {.stream = stream_.get(), .cost = cost, .source_px = px};
      return run_.Submit(
          executable_, {std::move(task)},
          [this, cost](size_t, const absl::Status& status) {
            if (status.ok()) Count(cost);
            GoOn();
          },
          TileRun::Progress::kNone);
    }
    if (run_.status().ok()) CountBand(bottom);
    std::function<void()> finished;
    bool more;
    {
      absl::MutexLock lock(&mutex_);
      finished = std::move(bands_.front().finished);
      bands_.pop_front();
      more = !bands_.empty();
    }
    // Behind it this object may be gone, unless there are more bands.
    finished();
    if (!more) return;
  }
}

void RowRun::Count(int64_t cost) {
  spent_ += cost;
  const double share = static_cast<double>(spent_) / static_cast<double>(cost_);
  CountTo(std::min(parts_ - 1, static_cast<int64_t>(share * static_cast<double>(parts_))));
}

void RowRun::CountBand(int bottom) {
  const int height = image_.height * executable_->network().scale;
  CountTo(bottom == height ? parts_ : std::min(parts_ - 1, parts_ * bottom / height));
}

void RowRun::CountTo(int64_t parts) {
  if (parts <= parts_done_) return;
  run_.CountDone(static_cast<int>(parts - std::exchange(parts_done_, parts)));
}

}  // namespace upscaled
