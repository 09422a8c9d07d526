#include "engine/pipeline/choose_passes.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

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

// All sequences of `passes` and further factors above 1.
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

// For passes with a result too small: they do not lack the weights to go on.
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

absl::Status NoSuchLevel(const ModelCard& card, int noise_level) {
  return absl::InvalidArgumentError(absl::StrCat("model ", card.name, " has no noise level ",
                                                 noise_level, "; it has ",
                                                 absl::StrJoin(card.NoiseLevels(), ", ")));
}

bool HasLevel(const ModelCard& card, int noise_level) {
  const std::vector<int> levels = card.NoiseLevels();
  return std::find(levels.begin(), levels.end(), noise_level) != levels.end();
}

// A 1x model runs as it is: nothing but being named asks for it.
absl::StatusOr<Passes> ChooseOneX(const ModelCard& card, int noise_level) {
  const ModelVariant* variant = card.Find(1, noise_level);
  if (variant == nullptr && noise_level == kNoDenoise && card.variants.size() == 1) {
    variant = &card.variants.front();
  }
  if (variant == nullptr) return NoSuchLevel(card, noise_level);
  return Passes{variant};
}

// The passes of one model; empty: it need not run.
absl::StatusOr<Passes> ChooseOfModel(const ModelCard& card, Size source, Size result,
                                     int noise_level) {
  if (NativeScale(card) == 1) return ChooseOneX(card, noise_level);
  const bool denoise = noise_level != kNoDenoise;
  if (denoise && !HasLevel(card, noise_level)) return NoSuchLevel(card, noise_level);
  const bool enlarge = !Reaches({}, source, result);
  if (!enlarge && !denoise) {
    const ModelVariant* same_size = card.Find(1, kNoDenoise);
    return same_size == nullptr ? Passes{} : Passes{same_size};
  }

  std::vector<Passes> sequences;
  for (const int scale : card.Scales()) {
    const ModelVariant* first = card.Find(scale, noise_level);
    if (first != nullptr && (scale > 1 || denoise))
      AddSequences(card, {first}, source, result, sequences);
  }
  if (sequences.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", card.name, " cannot enlarge at noise level ", noise_level,
                     "; its noise levels are ", absl::StrJoin(card.NoiseLevels(), ", ")));
  }
  // The smallest product at or above the result, otherwise the largest; then the fewest passes;
  // then the smaller factors first, since they leave the later passes fewer pixels.
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

Size Times(Size size, int scale) { return {size.width * scale, size.height * scale}; }

std::string SizeText(Size size) { return absl::StrCat(size.width, "x", size.height); }

std::string Names(ModelLinks models) {
  return absl::StrJoin(models, ",", [](std::string* out, const ModelCard* card) {
    absl::StrAppend(out, card->name);
  });
}

// The model to remove the noise; the end if there is nothing to remove.
absl::StatusOr<ModelLinks::iterator> FindDenoiser(ModelLinks models, int noise_level) {
  if (noise_level == kNoDenoise) return models.end();
  const auto found = std::find_if(models.begin(), models.end(), [&](const ModelCard* card) {
    return HasLevel(*card, noise_level);
  });
  if (found != models.end()) return found;
  if (models.size() == 1) return NoSuchLevel(*models.front(), noise_level);
  return absl::InvalidArgumentError(
      absl::StrCat("none of the models ", Names(models), " has noise level ", noise_level));
}

absl::Status CheckProduct(ModelLinks models) {
  const int product = NativeScale(models);
  if (models.size() == 1 || product <= kMaxScaleProduct) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the models ", Names(models), " enlarge by ",
                                                 product, " together; the limit is ",
                                                 kMaxScaleProduct));
}

}  // namespace

int NativeScale(ModelLinks models) {
  int64_t product = 1;
  for (const ModelCard* card : models) {
    product = std::min<int64_t>(product * NativeScale(*card), std::numeric_limits<int>::max());
  }
  return static_cast<int>(product);
}

absl::StatusOr<ChosenPasses> ChoosePasses(ModelLinks models, Size source, Size result,
                                          int noise_level) {
  RETURN_IF_ERROR(CheckProduct(models));
  ASSIGN_OR_RETURN(const auto denoiser, FindDenoiser(models, noise_level));
  const auto enlarges = [](const ModelCard* card) { return NativeScale(*card) > 1; };
  const auto last_enlarging = std::find_if(models.rbegin(), models.rend(), enlarges);

  ChosenPasses chosen;
  Size size = source;
  for (auto link = models.begin(); link != models.end(); ++link) {
    const ModelCard& card = **link;
    const bool reached = Reaches({}, size, result);
    const bool may_repeat = last_enlarging != models.rend() && &*link == &*last_enlarging;
    const Size target = may_repeat ? result : reached ? size : Times(size, NativeScale(card));
    ASSIGN_OR_RETURN(
        const Passes passes,
        ChooseOfModel(card, size, target, link == denoiser ? noise_level : kNoDenoise));
    if (passes.empty()) {
      chosen.warnings.push_back(
          absl::StrCat("model ", card.name, " did not run: it enlarges, and the result of ",
                       SizeText(result), " is no larger than its source of ", SizeText(size)));
    }
    for (const ModelVariant* pass : passes) chosen.passes.push_back({&card, pass});
    size = Times(size, Product(passes));
  }
  if (last_enlarging == models.rend() && result != source) {
    chosen.warnings.push_back(absl::StrCat(
        Names(models),
        models.size() == 1 ? " is a 1x model: it keeps" : " are 1x models: they keep",
        " the size of ", SizeText(source), ", and a resize makes ", SizeText(result), " of it"));
  }
  return chosen;
}

}  // namespace upscaled
