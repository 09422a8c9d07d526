#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {
namespace {

// Larger results are reached by the final resize: no detail is left to gain.
constexpr int kMaxScaleProduct = 16;
// An extreme change of the aspect ratio must not blow up the images in between. Factors of two
// never need more where the ratio stays.
constexpr int64_t kMaxPixelsPerResultPixel = 4;

using Passes = std::vector<const ModelVariant*>;

int Product(const Passes& passes) {
  int product = 1;
  for (const ModelVariant* pass : passes) product *= pass->scale;
  return product;
}

// The passes after the first must not denoise again; a model without such a variant has its
// gentlest level take the place.
const ModelVariant* FollowUp(const ModelCard& card, int scale) {
  const ModelVariant* variant = card.Find(scale, kNoDenoise);
  return variant != nullptr ? variant : card.Find(scale, 0);
}

// Whether passes of this product so far may have one of `scale` follow. The first factor always
// may: the model has no smaller step.
bool MayFollow(int product, int scale, Size source, Size result) {
  if (product == 1) return true;
  product *= scale;
  return product <= kMaxScaleProduct &&
         product * product * source.Area() <= kMaxPixelsPerResultPixel * result.Area();
}

// All sequences that begin with `passes` and go on with factors above 1.
void AddSequences(const ModelCard& card, const Passes& passes, Size source, Size result,
                  std::vector<Passes>& all) {
  all.push_back(passes);
  for (const int scale : card.Scales()) {
    if (scale < 2 || !MayFollow(Product(passes), scale, source, result)) continue;
    const ModelVariant* next = FollowUp(card, scale);
    if (next == nullptr) continue;
    Passes longer = passes;
    longer.push_back(next);
    AddSequences(card, longer, source, result, all);
  }
}

bool Reaches(const Passes& passes, Size source, Size result) {
  const int64_t product = Product(passes);
  return source.width * product >= result.width && source.height * product >= result.height;
}

// For passes that end short of the result: that it is not for want of weights to go on with.
absl::Status CheckFollowUps(const ModelCard& card, int product, Size source, Size result) {
  for (const int scale : card.Scales()) {
    if (scale < 2 || !MayFollow(product, scale, source, result) || FollowUp(card, scale)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model ", card.name, " cannot go beyond scale ", product,
                     ": a further pass needs noise level -1 or 0 at scale ", scale,
                     ", but its noise levels are ", absl::StrJoin(card.NoiseLevels(), ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<const ModelVariant*>> ChoosePasses(const ModelCard& card, Size source,
                                                              Size result, int noise_level) {
  const std::vector<int> levels = card.NoiseLevels();
  const bool denoise = noise_level != kNoDenoise;
  if (denoise && std::find(levels.begin(), levels.end(), noise_level) == levels.end()) {
    return absl::InvalidArgumentError(absl::StrCat("model ", card.name, " has no noise level ",
                                                   noise_level, "; it has ",
                                                   absl::StrJoin(levels, ", ")));
  }
  const bool enlarge = !Reaches({}, source, result);
  if (!enlarge && !denoise) return Passes{};

  std::vector<Passes> sequences;
  for (const int scale : card.Scales()) {
    const ModelVariant* first = card.Find(scale, noise_level);
    if (first != nullptr && (scale > 1 || denoise))
      AddSequences(card, {first}, source, result, sequences);
  }
  if (sequences.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", card.name, " cannot enlarge at noise level ", noise_level,
                     "; its noise levels are ", absl::StrJoin(levels, ", ")));
  }
  // The smallest product that reaches the result, else the largest; then the fewest passes; then
  // the smaller factors first, which leaves the later passes fewer pixels.
  const auto rank = [&](const Passes& passes) {
    const bool reaches = Reaches(passes, source, result);
    std::vector<int> scales;
    for (const ModelVariant* pass : passes) scales.push_back(pass->scale);
    return std::tuple(!reaches, reaches ? Product(passes) : -Product(passes), passes.size(),
                      scales);
  };
  const Passes& best =
      *std::min_element(sequences.begin(), sequences.end(),
                        [&](const Passes& a, const Passes& b) { return rank(a) < rank(b); });
  if (!Reaches(best, source, result)) {
    RETURN_IF_ERROR(CheckFollowUps(card, Product(best), source, result));
  }
  return best;
}

}  // namespace upscaled
