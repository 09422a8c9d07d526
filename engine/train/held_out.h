// How well parameters do on images never trained on.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/train/learner.h"
#include "engine/train/patches.h"

namespace upscaled::train {

// Looks at patches spread over the first 32 images, reduced and spoilt as the recipe says, at most
// some 100 in all.
class HeldOut {
 public:
  // Borrows the images; there must be some.
  HeldOut(std::span<const TrainingImage> images, const PatchShape& shape, const Recipe& recipe);

  // dB of RGB in 0..1: the mean over images and reductions, each by the mean error of its patches.
  double PsnrDb(Learner& learner, std::span<const float> parameters) const;
  // The PSNR of the same patches enlarged by Lanczos-3.
  absl::StatusOr<double> LanczosPsnrDb() const;

 private:
  double MeanPsnrDb(std::span<const double> squared_errors) const;

  const std::span<const TrainingImage> images_;
  const PatchShape shape_;
  const int per_image_;
  const std::vector<Patch> patches_;
};

}  // namespace upscaled::train
