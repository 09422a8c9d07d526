// How the pixels of a result depend on those of its source.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/pipeline/upscaler.h"

namespace upscaled {

// Pixels from `begin` up to and without `end` on an axis.
struct Extent {
  int begin = 0, end = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

// On each axis, in source pixels. Kernels compute whole blocks. So the view of a pixel of the
// result follows from its place in them, and repeats by a period.
class Locality {
 public:
  // Source pixels around a pixel's place for its result. Places are counted from the image's left
  // and upper side. A pixel behind another one never looks less far behind.
  struct Margin {
    int before_px = 0, behind_px = 0;
  };

  // The whole image is needed for each pixel.
  Locality() = default;
  // One margin for each place in the period.
  explicit Locality(std::vector<Margin> margins);

  bool local() const { return !margins_.empty(); }
  int period_px() const { return static_cast<int>(margins_.size()); }
  int reach_px() const { return std::max(before_px_, behind_px_); }
  double mean_margin_px() const;  // before and behind together

  // The source pixels behind these pixels, also beyond the image's sides.
  Extent InputOf(const Extent& pixels) const;
  // The pixels that depend on these source pixels.
  Extent DependentsOf(const Extent& source) const;

 private:
  const Margin& At(int pixel) const;

  std::vector<Margin> margins_;
  int before_px_ = 0, behind_px_ = 0;  // of the largest ones
};

// Not local if a network sums over the image. Images with sides that differ by multiples of the
// period are also padded by as much. The plan has no final resize (LocalPart).
Locality LocalityOf(const UpscalePlan& plan);

// The plan up to a final resize, since its pixels do not depend on places in the image by period.
UpscalePlan LocalPart(UpscalePlan plan);

// The plan of the network's own result, without the corrections that make `local`'s of it. nullopt
// unless `local` is one network, its corrections and nothing else.
std::optional<UpscalePlan> NetworkPart(const UpscalePlan& local);

// Whether stages look equally far around, apart from networks that see the whole image.
bool ReachAsFar(const std::vector<Stage>& some, const std::vector<Stage>& others);

}  // namespace upscaled
