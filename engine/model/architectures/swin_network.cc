#include "engine/model/architectures/swin_network.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/planes.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

constexpr float kSwinMean[] = {0.4488f, 0.4371f, 0.4040f};

// How features become the result, told from the names of the last modules.
enum class Ending {
  kRestore,        // added to the image
  kShuffle,        // pixel shuffles between two convolutions
  kDirectShuffle,  // one convolution and its pixel shuffle
  kNearest,        // doubled by nearest resizes, each with a convolution
};

bool HasKernel(const TensorFile& file, const std::string& name) {
  const TensorInfo* weight = file.Find(name + ".weight");
  return weight != nullptr && weight->shape.size() == 4;
}

Ending EndingOf(const TensorFile& file) {
  if (HasKernel(file, "conv_up1")) return Ending::kNearest;
  if (HasKernel(file, "conv_before_upsample.0")) return Ending::kShuffle;
  return HasKernel(file, "upsample.0") ? Ending::kDirectShuffle : Ending::kRestore;
}

int64_t PlaneCount(const TensorFile& file) {
  const TensorInfo* first = file.Find("conv_first.weight");
  return first == nullptr || first->shape.size() != 4 ? 0 : first->shape[1];
}

// The ending's factors, one after the other.
absl::StatusOr<std::vector<int>> FactorsOf(const TensorFile& file) {
  std::vector<int> factors;
  switch (EndingOf(file)) {
    case Ending::kRestore:
      break;
    case Ending::kNearest:
      for (int i = 1; HasKernel(file, absl::StrCat("conv_up", i)); ++i) factors.push_back(2);
      break;
    case Ending::kDirectShuffle: {
      const TensorInfo& weight = *file.Find("upsample.0.weight");
      ASSIGN_OR_RETURN(factors.emplace_back(), ScaleOfShuffle(weight.shape[0], PlaneCount(file)));
      break;
    }
    case Ending::kShuffle:
      for (int i = 0; HasKernel(file, absl::StrCat("upsample.", i)); i += 2) {
        const TensorInfo& weight = *file.Find(absl::StrCat("upsample.", i, ".weight"));
        ASSIGN_OR_RETURN(factors.emplace_back(), ScaleOfShuffle(weight.shape[0], weight.shape[1]));
      }
      break;
  }
  return factors;
}

int AddBody(NetworkBuilder& builder, int features, const SwinFrame& frame) {
  int x = features;
  if (!frame.first_projection.empty()) x = builder.Conv(x, frame.first_projection, {});
  x = AddNormIfThere(builder, x, frame.first_norm);
  for (int i = 0; builder.ok() && builder.file().Has(frame.group_mark(i)); ++i) {
    x = frame.add_group(builder, x, i);
  }
  x = builder.LayerNorm(x, "norm", kLayerNormEpsilon);
  return builder.Add(AddConvOrThree(builder, x, "conv_after_body"), features);
}

int AddEnding(NetworkBuilder& builder, int x, int normal, const std::vector<int>& factors) {
  constexpr NetworkBuilder::ConvOptions kBefore = {.activation = Activation::kLeakyRelu,
                                                   .slope = 0.01f};
  constexpr NetworkBuilder::ConvOptions kUp = {.activation = Activation::kLeakyRelu, .slope = 0.2f};
  switch (EndingOf(builder.file())) {
    case Ending::kRestore:
      return builder.Add(builder.Conv(x, "conv_last", {}), normal);
    case Ending::kDirectShuffle:
      return builder.PixelShuffle(builder.Conv(x, "upsample.0", {}), factors[0]);
    case Ending::kShuffle:
      x = builder.Conv(x, "conv_before_upsample.0", kBefore);
      for (size_t i = 0; i < factors.size(); ++i) {
        x = builder.PixelShuffle(builder.Conv(x, absl::StrCat("upsample.", 2 * i), {}), factors[i]);
      }
      return builder.Conv(x, "conv_last", {});
    case Ending::kNearest:
      x = builder.Conv(x, "conv_before_upsample.0", kBefore);
      for (size_t i = 1; i <= factors.size(); ++i) {
        x = builder.Conv(builder.Nearest(x, 2), absl::StrCat("conv_up", i), kUp);
      }
      return builder.Conv(builder.Conv(x, "conv_hr", kUp), "conv_last", {});
  }
  return x;
}

}  // namespace

std::string SwinGroup(int group) { return absl::StrCat("layers.", group, "."); }

int AddConvOrThree(NetworkBuilder& builder, int input, const std::string& name) {
  if (builder.file().Has(name + ".weight")) return builder.Conv(input, name, {});
  constexpr NetworkBuilder::ConvOptions kLeaky = {.activation = Activation::kLeakyRelu,
                                                  .slope = 0.2f};
  const int x = builder.Conv(builder.Conv(input, name + ".0", kLeaky), name + ".2", kLeaky);
  return builder.Conv(x, name + ".4", {});
}

bool HasSwinFrame(const TensorFile& file) {
  return HasKernel(file, "conv_first") &&
         (HasKernel(file, "conv_after_body") || HasKernel(file, "conv_after_body.0"));
}

absl::StatusOr<int> SwinFrameScale(const TensorFile& file) {
  ASSIGN_OR_RETURN(const std::vector<int> factors, FactorsOf(file));
  return ScaleOfFactors(factors);
}

void BuildSwinFrame(NetworkBuilder& builder, const SwinFrame& frame) {
  const absl::StatusOr<std::vector<int>> factors = FactorsOf(builder.file());
  if (!factors.ok()) return builder.Fail(factors.status());
  const absl::StatusOr<int> scale = ScaleOfFactors(*factors);
  if (!scale.ok()) return builder.Fail(scale.status());
  const int64_t planes = PlaneCount(builder.file());
  if (!builder.ok()) return;
  if (const absl::Status status = CheckPlanes(planes); !status.ok()) return builder.Fail(status);
  const int image = builder.Input();
  const int padded =
      frame.align_px == 1 ? image : builder.Pad(image, 0, PadMode::kReflect, frame.align_px);
  const int seen = PlanesOf(builder, padded, planes);
  std::vector<float> mean(static_cast<size_t>(planes), 0.0f), offset;
  if (planes == 3) mean.assign(std::begin(kSwinMean), std::end(kSwinMean));
  for (const float value : mean) offset.push_back(-value * frame.range);
  const std::vector<float> factor(mean.size(), frame.range), back(mean.size(), 1 / frame.range);
  const int normal = builder.Affine(seen, factor, std::move(offset));
  int x = AddBody(builder, builder.Conv(normal, "conv_first", {}), frame);
  x = AddEnding(builder, x, normal, *factors);
  x = builder.Affine(x, back, std::move(mean));
  RgbOf(builder, padded, x, planes, *scale);
}

}  // namespace upscaled
