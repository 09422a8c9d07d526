#include "engine/model/architectures/swinir.h"

#include <algorithm>
#include <iterator>
#include <string>
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

constexpr float kSwinIrMean[] = {0.4488f, 0.4371f, 0.4040f};
constexpr float kLayerNormEpsilon = 1e-5f;  // of PyTorch's LayerNorm
constexpr int kJpegWindowPx = 7;
constexpr float kJpegRange = 255;

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

// The factors by which the ending enlarges, one after the other.
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

std::string SwinGroup(int group) { return absl::StrCat("layers.", group, "."); }
std::string SwinBlock(int group, int block) {
  return absl::StrCat(SwinGroup(group), "residual_group.blocks.", block, ".");
}

// A block of Swin. Masks and indices follow from the window.
int AddSwinBlock(NetworkBuilder& builder, int x, const std::string& block, int window_px,
                 int rolled_px) {
  builder.Ignore(block + "attn_mask");
  builder.Ignore(block + "attn.relative_position_index");
  int y = builder.LayerNorm(x, block + "norm1", kLayerNormEpsilon);
  y = AttendInWindows(builder, y, block + "attn", window_px, rolled_px);
  x = builder.Add(y, x);
  y = builder.LayerNorm(x, block + "norm2", kLayerNormEpsilon);
  return builder.Add(Mlp(builder, y, block + "mlp.fc1", block + "mlp.fc2"), x);
}

// Blocks, every other one with its windows shifted by half, and a convolution or three.
int AddSwinGroup(NetworkBuilder& builder, int x, int group, int window_px) {
  int y = x;
  for (int i = 0; builder.ok() && builder.file().Has(SwinBlock(group, i) + "norm1.weight"); ++i) {
    y = AddSwinBlock(builder, y, SwinBlock(group, i), window_px, i % 2 == 0 ? 0 : window_px / 2);
  }
  const std::string conv = SwinGroup(group) + "conv";
  if (builder.file().Has(conv + ".weight")) return builder.Add(builder.Conv(y, conv, {}), x);
  constexpr NetworkBuilder::ConvOptions kLeaky = {.activation = Activation::kLeakyRelu,
                                                  .slope = 0.2f};
  y = builder.Conv(builder.Conv(y, conv + ".0", kLeaky), conv + ".2", kLeaky);
  return builder.Add(builder.Conv(y, conv + ".4", {}), x);
}

int AddBody(NetworkBuilder& builder, int features, int window_px) {
  int x = features;
  if (builder.file().Has("patch_embed.norm.weight")) {
    x = builder.LayerNorm(x, "patch_embed.norm", kLayerNormEpsilon);
  }
  for (int i = 0; builder.ok() && builder.file().Has(SwinBlock(i, 0) + "norm1.weight"); ++i) {
    x = AddSwinGroup(builder, x, i, window_px);
  }
  x = builder.LayerNorm(x, "norm", kLayerNormEpsilon);
  return builder.Add(builder.Conv(x, "conv_after_body", {}), features);
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

bool RecogniseSwinIr(const TensorFile& file) {
  return HasKernel(file, "conv_first") && HasKernel(file, "conv_after_body") &&
         file.Has(SwinBlock(0, 0) + "attn.relative_position_bias_table") &&
         file.Has(SwinBlock(0, 0) + "attn.qkv.weight") &&
         file.Has(SwinBlock(0, 0) + "mlp.fc1.weight") &&
         !file.Has(SwinBlock(0, 0) + "conv_block.cab.0.weight");  // HAT's
}

absl::StatusOr<int> SwinIrScale(const TensorFile& file) {
  ASSIGN_OR_RETURN(const std::vector<int> factors, FactorsOf(file));
  int64_t scale = 1;
  for (const int factor : factors) scale = std::min<int64_t>(scale * factor, kMaxScale + 1);
  if (scale <= kMaxScale) return static_cast<int>(scale);
  return absl::InvalidArgumentError(
      absl::StrCat("scales by ", scale, " or more, the limit is ", kMaxScale));
}

void BuildSwinIr(NetworkBuilder& builder) {
  const absl::StatusOr<std::vector<int>> factors = FactorsOf(builder.file());
  const absl::StatusOr<int> scale = SwinIrScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  const int window_px = WindowSide(builder, SwinBlock(0, 0) + "attn");
  const int64_t planes = PlaneCount(builder.file());
  if (builder.ok() && !ArePlanes(planes)) {
    return builder.Fail(
        absl::InvalidArgumentError(absl::StrCat("takes ", planes, " planes, must be 1, 3 or 4")));
  }
  if (!builder.ok()) return;
  const float range = window_px == kJpegWindowPx ? kJpegRange : 1;
  const int image = builder.Input();
  int x = builder.Pad(image, 0, PadMode::kReflect, window_px);
  const int padded = x;
  x = PlanesOf(builder, x, planes);
  std::vector<float> mean(static_cast<size_t>(planes), 0.0f), offset;
  if (planes == 3) mean.assign(std::begin(kSwinIrMean), std::end(kSwinIrMean));
  for (const float value : mean) offset.push_back(-value * range);
  const std::vector<float> factor(mean.size(), range), back(mean.size(), 1 / range);
  const int normal = builder.Affine(x, factor, std::move(offset));
  x = AddBody(builder, builder.Conv(normal, "conv_first", {}), window_px);
  x = AddEnding(builder, x, normal, *factors);
  x = builder.Affine(x, back, std::move(mean));
  RgbOf(builder, padded, x, planes, *scale);
}

}  // namespace upscaled
