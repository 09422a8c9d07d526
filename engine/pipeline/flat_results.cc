#include "engine/pipeline/flat_results.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/pipeline/flat_cells.h"
#include "engine/pipeline/network_pass.h"

namespace upscaled {
namespace {

// Drawings and slides have few grounds; each costs a small image's computation and memory.
constexpr size_t kMaxResults = 4;

ImageSpec WithSize(ImageSpec spec, Size size) {
  spec.width_px = size.width;
  spec.height_px = size.height;
  return spec;
}

Size ResultSize(const PassSpec& pass, const SmallImage& small) {
  const int scale = pass.executable->network().scale;
  return {small.size().width * scale, small.size().height * scale};
}

}  // namespace

FlatResult::FlatResult(const PassSpec& pass, const SmallImage& small)
    : executable_(pass.executable),
      small_(small),
      block_px_(pass.source_repeat_px),
      scale_(pass.executable->network().scale),
      source_(WithSize(pass.source, small.size())),
      result_(WithSize(PassResult(pass), ResultSize(pass, small))) {
  if (pass.tta) tta_.emplace(small.size(), small.size(), scale_, pass.source.type);
}

bool FlatResult::IsOf(const ImageView& block) const {
  return !empty_ && RepeatsBlock(block, source_.view(), block_px_);
}

void FlatResult::Reset(const ImageView& block) {
  const MutableImageView source = source_.mutable_view();
  const size_t pixel_bytes = source.spec.pixel_bytes();
  for (int y = 0; y < source.height_px(); ++y) {
    for (int x = 0; x < source.width_px(); x += block_px_) {
      const int count = std::min(block_px_, source.width_px() - x);
      std::memcpy(source.row(y) + x * pixel_bytes, block.row(y % block_px_), count * pixel_bytes);
    }
  }
  empty_ = false;
  begun_ = false;
}

void FlatResult::Compute(TileRun& run, std::function<void()> finished) {
  UPSCALED_CHECK(!empty_ && !begun_);
  begun_ = true;
  const Rect all{0, 0, source_.spec().width_px, source_.spec().height_px};
  TileVariants variants = PlanVariants(*executable_, all, source_.spec().size(), tta_.has_value());
  if (tta_) {
    TtaTask task{std::move(variants), source_.view(), result_.mutable_view(), {}};
    return tta_->Start(run, executable_, {std::move(task)}, std::move(finished),
                       TileRun::Progress::kNone);
  }
  run.Submit(
      executable_, {{variants.plans.front(), source_.view(), all, result_.mutable_view()}},
      [finished = std::move(finished)](size_t, const absl::Status&) { finished(); },
      TileRun::Progress::kNone);
}

void FlatResult::CopyTo(const Rect& area, const MutableImageView& dst) const {
  const size_t pixel_bytes = dst.spec.pixel_bytes() * scale_;  // of a source pixel's results
  for (int row = 0; row < dst.height_px(); ++row) {
    const int y = area.y + row / scale_;
    const uint8_t* from = result_.view().row(small_.y.At(y) * scale_ + row % scale_);
    uint8_t* to = dst.row(row);
    for (int x = area.x; x < area.right();) {
      const int count = std::min(area.right() - x, small_.x.Adjacent(x));
      std::memcpy(to, from + small_.x.At(x) * pixel_bytes, count * pixel_bytes);
      to += count * pixel_bytes;
      x += count;
    }
  }
}

size_t FlatResult::Bytes(const PassSpec& pass, const SmallImage& small) {
  const size_t tta = pass.tta ? TtaTile::Bytes(small.size(), small.size(),
                                               pass.executable->network().scale, pass.source.type)
                              : 0;
  return sizeof(FlatResult) + ImageBytes(WithSize(pass.source, small.size())) +
         ImageBytes(WithSize(PassResult(pass), ResultSize(pass, small))) + tta;
}

FlatResult* FlatResults::Find(const ImageView& block, int band, int oldest_band) {
  FlatResult* found = nullptr;
  for (const auto& result : results_) {
    if (result->IsOf(block)) found = result.get();
  }
  if (found == nullptr && results_.size() < kMaxResults) {
    found = results_.emplace_back(std::make_unique<FlatResult>(pass_, small_)).get();
    found->Reset(block);
  } else if (found == nullptr) {
    found = std::min_element(results_.begin(), results_.end(), [](const auto& a, const auto& b) {
              return a->last_band < b->last_band;
            })->get();
    if (found->last_band >= oldest_band) return nullptr;
    found->Reset(block);
  }
  found->last_band = band;
  return found;
}

size_t FlatResults::Bytes(const PassSpec& pass, const SmallImage& small) {
  return kMaxResults * FlatResult::Bytes(pass, small);
}

}  // namespace upscaled
