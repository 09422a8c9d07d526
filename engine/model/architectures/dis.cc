#include "engine/model/architectures/dis.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/luma.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

constexpr char kHead[] = "head";

// A convolution and a pixel shuffle each.
struct Stage {
  std::string name;
  int factor;
};

int64_t FirstAxis(const TensorFile& file, const std::string& tensor) {
  const TensorInfo* info = file.Find(tensor);
  return info == nullptr || info->shape.empty() ? 0 : info->shape[0];
}

absl::StatusOr<std::vector<Stage>> StagesOf(const TensorFile& file) {
  std::vector<std::string> names;
  if (file.Has("upsampler.conv.weight")) names.emplace_back("upsampler");
  for (int i = 0; file.Has(absl::StrCat("upsampler.", i, ".conv.weight")); ++i) {
    names.push_back(absl::StrCat("upsampler.", i));
  }
  std::vector<Stage> stages;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const int factor, ScaleOfShuffle(FirstAxis(file, name + ".conv.weight"),
                                                      FirstAxis(file, name + ".act.weight")));
    stages.push_back({name, factor});
  }
  return stages;
}

int AddBlock(NetworkBuilder& builder, int x, const std::string& name) {
  const std::string depthwise = name + ".dw_conv.depthwise";
  if (!builder.file().Has(depthwise + ".weight")) {
    const int y = builder.PRelu(builder.Conv(x, name + ".conv1", {}), name + ".act");
    return builder.Add(builder.Conv(y, name + ".conv2", {}), x);
  }
  const int y = builder.Conv(x, depthwise, {.groups = builder.Channels(x)});
  return builder.Add(builder.PRelu(builder.Conv(y, name + ".dw_conv.pointwise", {}), name + ".act"),
                     x);
}

}  // namespace

bool RecogniseDis(const TensorFile& file) {
  return file.Has("head_act.weight") && file.Has("fusion.weight") && file.Has("tail.weight") &&
         (file.Has("body.0.conv1.weight") || file.Has("body.0.dw_conv.depthwise.weight"));
}

absl::StatusOr<int> DisScale(const TensorFile& file) {
  ASSIGN_OR_RETURN(const std::vector<Stage> stages, StagesOf(file));
  int scale = 1;
  for (const Stage& stage : stages) {
    scale *= stage.factor;
    if (scale > kMaxScale) {
      return absl::InvalidArgumentError(
          absl::StrCat("scales by ", scale, " or more, the limit is ", kMaxScale));
    }
  }
  return scale;
}

void BuildDis(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<std::vector<Stage>> stages = StagesOf(file);
  const absl::StatusOr<int> scale = DisScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const bool for_luma = IsForLuma(file, kHead);
  const int image = builder.Input();
  const int source = for_luma ? Luma(builder, image) : image;
  const int features = builder.PRelu(builder.Conv(source, kHead, {}), "head_act");
  int x = features;
  const auto block = [](int index) { return absl::StrCat("body.", index); };
  for (int i = 0; file.Has(block(i) + ".act.weight"); ++i) x = AddBlock(builder, x, block(i));
  x = builder.Add(builder.Conv(x, "fusion", {}), features);
  for (const Stage& stage : *stages) {
    x = builder.PixelShuffle(builder.Conv(x, stage.name + ".conv", {}), stage.factor);
    x = builder.PRelu(x, stage.name + ".act");
  }
  x = builder.Add(builder.Conv(x, "tail", {}), builder.Bilinear(source, *scale));
  if (for_luma) WithColour(builder, image, x, *scale);
}

}  // namespace upscaled
