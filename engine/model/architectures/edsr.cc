#include "engine/model/architectures/edsr.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/shuffle_scale.h"

namespace upscaled {
namespace {

// The training's images, of values up to 255 around this mean.
constexpr float kMeanRgb[] = {0.4488f, 0.4371f, 0.4040f};
constexpr float kRange255 = 255;

// The names of the modules. Patterns: group, block.
struct EdsrNames {
  const char* head;
  const char* block;  // of EDSR, or of an RCAN's group
  const char* first;  // convolutions of a block
  const char* second;
  const char* squeeze;  // of an RCAN's channel attention
  const char* excite;
  const char* group_end;  // of an RCAN's group; $1 is the number of its blocks
  const char* body_end;   // $0 is the number of blocks or groups
  const char* up;         // numbers follow
  const char* last;
};

constexpr EdsrNames kEdsr[] = {
    {.head = "conv_first",
     .block = "body.$0",
     .first = ".conv1",
     .second = ".conv2",
     .body_end = "conv_after_body",
     .up = "upsample.",
     .last = "conv_last"},
    {.head = "head.0",
     .block = "body.$0",
     .first = ".body.0",
     .second = ".body.2",
     .body_end = "body.$0",
     .up = "tail.0.",
     .last = "tail.1"},
};

constexpr EdsrNames kRcan[] = {
    {.head = "conv_first",
     .block = "body.$0.residual_group.$1",
     .first = ".rcab.0",
     .second = ".rcab.2",
     .squeeze = ".rcab.3.attention.1",
     .excite = ".rcab.3.attention.3",
     .group_end = "body.$0.conv",
     .body_end = "conv_after_body",
     .up = "upsample.",
     .last = "conv_last"},
    {.head = "head.0",
     .block = "body.$0.body.$1",
     .first = ".body.0",
     .second = ".body.2",
     .squeeze = ".body.3.conv_du.0",
     .excite = ".body.3.conv_du.2",
     .group_end = "body.$0.body.$1",
     .body_end = "body.$0",
     .up = "tail.0.",
     .last = "tail.1"},
};

std::string Name(const char* pattern, int first, int second = 0) {
  return absl::Substitute(pattern, first, second);
}

bool HasConv4(const TensorFile& file, const std::string& name) {
  const TensorInfo* weight = file.Find(name + ".weight");
  return weight != nullptr && weight->shape.size() == 4;
}

bool HasBlock(const TensorFile& file, const EdsrNames& names, int group, int block) {
  const std::string module = Name(names.block, group, block);
  return HasConv4(file, module + names.first) && HasConv4(file, module + names.second) &&
         (names.squeeze == nullptr || HasConv4(file, module + names.squeeze));
}

template <size_t kSize>
const EdsrNames* FindNames(const TensorFile& file, const EdsrNames (&spellings)[kSize]) {
  const auto found = std::ranges::find_if(spellings, [&file](const EdsrNames& names) {
    return HasConv4(file, names.head) && HasConv4(file, names.last) && HasBlock(file, names, 0, 0);
  });
  return found == std::end(spellings) ? nullptr : &*found;
}

// The factors of the pixel shuffles, by the convolutions before them.
absl::StatusOr<std::vector<int>> ShufflesOf(const TensorFile& file, const EdsrNames& names) {
  std::vector<int> factors;
  int scale = 1;
  for (int i = 0; HasConv4(file, absl::StrCat(names.up, i)); i += 2) {
    const TensorInfo& weight = *file.Find(absl::StrCat(names.up, i, ".weight"));
    ASSIGN_OR_RETURN(factors.emplace_back(), ScaleOfShuffle(weight.shape[0], weight.shape[1]));
    scale *= factors.back();
    if (scale > kMaxScale) {
      return absl::InvalidArgumentError(
          absl::StrCat("scales by ", scale, " or more, the limit is ", kMaxScale));
    }
  }
  return factors;
}

// sub_mean and add_mean are 1x1 convolutions of values up to 255; files without them go by the
// published mean.
int BeginMean(NetworkBuilder& builder, int image) {
  if (builder.file().Has("sub_mean.weight")) {
    return builder.Conv(builder.Affine(image, {kRange255}, {0.0f}), "sub_mean", {});
  }
  return builder.Affine(
      image, {kRange255},
      {-kMeanRgb[0] * kRange255, -kMeanRgb[1] * kRange255, -kMeanRgb[2] * kRange255});
}

int EndMean(NetworkBuilder& builder, int x) {
  if (builder.file().Has("add_mean.weight")) {
    return builder.Affine(builder.Conv(x, "add_mean", {}), {1 / kRange255}, {0.0f});
  }
  return builder.Affine(x, {1 / kRange255}, {kMeanRgb[0], kMeanRgb[1], kMeanRgb[2]});
}

int AddResidual(NetworkBuilder& builder, const EdsrNames& names, int x, const std::string& block,
                float factor) {
  int y = builder.Conv(x, block + names.first, {.activation = Activation::kRelu});
  y = builder.Conv(y, block + names.second, {.factor = factor});
  if (names.squeeze != nullptr) {
    int share = builder.GlobalAveragePool(y);
    share = builder.FullyConnected(share, block + names.squeeze, Activation::kRelu);
    share = builder.FullyConnected(share, block + names.excite, Activation::kSigmoid);
    y = builder.Mul(y, share);
  }
  return builder.Add(y, x);
}

int AddGroup(NetworkBuilder& builder, const EdsrNames& names, int x, int group) {
  int y = x, block = 0;
  for (; builder.ok() && HasBlock(builder.file(), names, group, block); ++block) {
    y = AddResidual(builder, names, y, Name(names.block, group, block), 1);
  }
  return builder.Add(builder.Conv(y, Name(names.group_end, group, block), {}), x);
}

void BuildResidual(NetworkBuilder& builder, const EdsrNames& names) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<std::vector<int>> shuffles = ShufflesOf(file, names);
  if (!shuffles.ok()) return builder.Fail(shuffles.status());
  const int features = builder.Conv(BeginMean(builder, builder.Input()), names.head, {});
  constexpr int kLargeFeatures = 256;
  const float factor = builder.ok() && builder.Channels(features) == kLargeFeatures ? 0.1f : 1.0f;
  int x = features, count = 0;
  for (; builder.ok() && HasBlock(file, names, count, 0); ++count) {
    x = names.group_end != nullptr
            ? AddGroup(builder, names, x, count)
            : AddResidual(builder, names, x, Name(names.block, count), factor);
  }
  x = builder.Add(builder.Conv(x, Name(names.body_end, count), {}), features);
  for (size_t i = 0; i < shuffles->size(); ++i) {
    x = builder.PixelShuffle(builder.Conv(x, absl::StrCat(names.up, 2 * i), {}), (*shuffles)[i]);
  }
  EndMean(builder, builder.Conv(x, names.last, {}));
}

}  // namespace

bool RecogniseEdsr(const TensorFile& file) { return FindNames(file, kEdsr) != nullptr; }
bool RecogniseRcan(const TensorFile& file) { return FindNames(file, kRcan) != nullptr; }

absl::StatusOr<int> EdsrScale(const TensorFile& file) {
  const EdsrNames* names = FindNames(file, kRcan);
  if (names == nullptr) names = FindNames(file, kEdsr);
  if (names == nullptr) return absl::InvalidArgumentError("lacks the tensors of the first block");
  ASSIGN_OR_RETURN(const std::vector<int> shuffles, ShufflesOf(file, *names));
  int scale = 1;
  for (const int factor : shuffles) scale *= factor;
  return scale;
}

void BuildEdsr(NetworkBuilder& builder) {
  const EdsrNames* names = FindNames(builder.file(), kEdsr);
  if (names == nullptr) {
    return builder.Fail(absl::InvalidArgumentError("lacks the tensors of the first block"));
  }
  BuildResidual(builder, *names);
}

void BuildRcan(NetworkBuilder& builder) {
  const EdsrNames* names = FindNames(builder.file(), kRcan);
  if (names == nullptr) {
    return builder.Fail(absl::InvalidArgumentError("lacks the tensors of the first block"));
  }
  BuildResidual(builder, *names);
}

}  // namespace upscaled
