#include "engine/model/architectures/srresnet.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/shuffle_scale.h"

namespace upscaled {
namespace {

constexpr NetworkBuilder::ConvOptions kLeakyConv = {.activation = Activation::kLeakyRelu,
                                                    .slope = 0.1f};

bool HasWeights(const TensorFile& file, const std::string& module) {
  const TensorInfo* weight = file.Find(module + ".weight");
  return weight != nullptr && weight->shape.size() == 4;
}

// The factor of each upconv's pixel shuffle.
absl::StatusOr<std::vector<int>> UpconvFactors(const TensorFile& file) {
  std::vector<int> factors;
  for (int i = 1; i <= 4 && HasWeights(file, absl::StrCat("upconv", i)); ++i) {
    const TensorInfo& weight = *file.Find(absl::StrCat("upconv", i, ".weight"));
    ASSIGN_OR_RETURN(factors.emplace_back(), ScaleOfShuffle(weight.shape[0], weight.shape[1]));
  }
  return factors;
}

}  // namespace

bool RecogniseSrResNet(const TensorFile& file) {
  for (const char* module :
       {"conv_first", "body.0.conv1", "body.0.conv2", "conv_hr", "conv_last"}) {
    if (!HasWeights(file, module)) return false;
  }
  return true;
}

absl::StatusOr<int> SrResNetScale(const TensorFile& file) {
  ASSIGN_OR_RETURN(const std::vector<int> factors, UpconvFactors(file));
  int64_t scale = 1;
  for (const int factor : factors) scale *= factor;
  if (scale <= kMaxScale) return static_cast<int>(scale);
  return absl::InvalidArgumentError(
      absl::StrCat("scales by ", scale, ", the limit is ", kMaxScale));
}

void BuildSrResNet(NetworkBuilder& builder) {
  const absl::StatusOr<std::vector<int>> factors = UpconvFactors(builder.file());
  const absl::StatusOr<int> scale = SrResNetScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  const int image = builder.Input();
  int x = builder.Conv(image, "conv_first", kLeakyConv);
  const auto block = [](int index) { return absl::StrCat("body.", index, "."); };
  for (int i = 0; builder.ok() && HasWeights(builder.file(), block(i) + "conv1"); ++i) {
    const int y = builder.Conv(x, block(i) + "conv1", {.activation = Activation::kRelu});
    x = builder.Add(builder.Conv(y, block(i) + "conv2", {}), x);
  }
  for (size_t i = 0; i < factors->size(); ++i) {
    // The activation stands behind the shuffle: a shuffle only moves values.
    x = builder.PixelShuffle(builder.Conv(x, absl::StrCat("upconv", i + 1), kLeakyConv),
                             (*factors)[i]);
  }
  x = builder.Conv(builder.Conv(x, "conv_hr", kLeakyConv), "conv_last", {});
  builder.Add(x, builder.Bilinear(image, *scale));
}

}  // namespace upscaled
