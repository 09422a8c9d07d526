#include "engine/train/held_out.h"

#include <algorithm>
#include <cmath>

#include "engine/base/status_macros.h"

namespace upscaled::train {
namespace {

constexpr size_t kMaxImages = 32;
constexpr size_t kMaxPatches = 96;
constexpr size_t kMaxPatchesPerImage = 8;
constexpr double kMinError = 1e-10;  // 100 dB stands for equal

double SquaredError(ImageView a, ImageView b) {
  double sum = 0;
  for (int y = 0; y < a.height_px(); ++y) {
    for (int i = 0; i < 3 * a.width_px(); ++i) {
      const double error = (a.row(y)[i] - b.row(y)[i]) / 255.0;
      sum += error * error;
    }
  }
  return sum / static_cast<double>(3 * a.spec.size().Area());
}

}  // namespace

HeldOut::HeldOut(std::span<const TrainingImage> images, const PatchShape& shape,
                 const Recipe& recipe)
    : images_(images.first(std::min(images.size(), kMaxImages))),
      shape_(shape),
      per_image_(
          static_cast<int>(std::clamp(kMaxPatches / (images_[0].reduced.size() * images_.size()),
                                      size_t{1}, kMaxPatchesPerImage))),
      patches_(SpreadPatches(images_, shape_, recipe, per_image_)) {}

double HeldOut::MeanPsnrDb(std::span<const double> squared_errors) const {
  double sum = 0;
  for (size_t first = 0; first < squared_errors.size(); first += per_image_) {
    double error = 0;
    for (int i = 0; i < per_image_; ++i) error += squared_errors[first + i] / per_image_;
    sum += -10 * std::log10(std::max(error, kMinError));
  }
  return sum * per_image_ / static_cast<double>(squared_errors.size());
}

double HeldOut::PsnrDb(Learner& learner, std::span<const float> parameters) const {
  return MeanPsnrDb(learner.SquaredErrors(
      parameters,
      [&](int patch, int image, Tensor<float>& input, Tensor<float>& target) {
        CutPatch(images_, shape_, patches_[patch], image, input, target);
      },
      static_cast<int>(patches_.size())));
}

absl::StatusOr<double> HeldOut::LanczosPsnrDb() const {
  std::vector<double> errors;
  const auto enlarged_part = [&](int x, int y) {
    return Scale({x, y, shape_.side_px, shape_.side_px}, shape_.scale);
  };
  for (const Patch& patch : patches_) {
    const SpoiltPatch spoilt = CutSpoiltPatch(images_, shape_, patch);
    ASSIGN_OR_RETURN(const Image enlarged, Enlarge(spoilt.image, shape_.scale));
    errors.push_back(
        SquaredError(enlarged.view().Crop(enlarged_part(spoilt.x, spoilt.y)),
                     images_[patch.image].original.view().Crop(enlarged_part(patch.x, patch.y))));
  }
  return MeanPsnrDb(errors);
}

}  // namespace upscaled::train
