#include "engine/model/architectures/spsr.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/esrgan.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

constexpr int kSpsrBranches = 4;         // places where the gradients' branch reads the image's
constexpr int kBlocksBetween = 5;        // of the image's branch, before each of them
constexpr double kGradientFloor = 1e-6;  // added to a gradient's square
constexpr NetworkBuilder::ConvOptions kSpsrLeaky = {.activation = Activation::kLeakyRelu,
                                                    .slope = 0.2f};

std::string TrunkModule(int index) { return absl::StrCat("model.1.sub.", index); }

bool HasBlock(const TensorFile& file, int index) {
  return file.Has(TrunkModule(index) + ".RDB1.conv1.0.weight");
}

// The doublings of either branch: each is a resize, a convolution and a curve of the sequence.
int Doublings(const TensorFile& file) {
  int doublings = 0;
  while (doublings < kMaxScale && file.Has(absl::StrCat("model.", 3 + 3 * doublings, ".weight"))) {
    ++doublings;
  }
  return doublings;
}

int AddDoublings(NetworkBuilder& builder, int x, const std::string& sequence, int first) {
  const int doublings = Doublings(builder.file());
  for (int i = 0; i < doublings; ++i) {
    x = builder.Conv(builder.Nearest(x, 2), absl::StrCat(sequence, first + 3 * i), kSpsrLeaky);
  }
  return x;
}

// sqrt(v^2 + h^2 + floor) of each plane, v and h its differences along both axes. The three numbers
// v, h and sqrt(floor), divided by the root of their mean square and multiplied by themselves, add
// up to sqrt(3) times the root.
int AddGradientLengths(NetworkBuilder& builder, int image) {
  constexpr int kPlanes = 3, kNumbers = 3, kTaps = 9;
  const std::vector<float> vertical = builder.Read("get_g_nopadding.weight_v", {1, 1, 3, 3}),
                           horizontal = builder.Read("get_g_nopadding.weight_h", {1, 1, 3, 3});
  if (!builder.ok()) return image;
  std::vector<int> products;
  for (int plane = 0; plane < kPlanes; ++plane) {
    Layer differences{.name = "gradients", .kernel_px = 3, .padding_px = 1};
    differences.weights.assign(size_t{1} * kNumbers * kPlanes * kTaps, 0.0f);
    std::copy(vertical.begin(), vertical.end(), &differences.weights[plane * kTaps]);
    std::copy(horizontal.begin(), horizontal.end(),
              &differences.weights[(kPlanes + plane) * kTaps]);
    differences.bias = {0, 0, static_cast<float>(std::sqrt(kGradientFloor))};
    const int numbers = builder.Conv(image, std::move(differences));
    Layer norm{.op = Op::kPixelNorm, .centred = false, .epsilon = 1e-12f};
    norm.weights.assign(kNumbers, 1.0f);
    norm.bias.assign(kNumbers, 0.0f);
    products.push_back(builder.Mul(numbers, builder.PixelNorm(numbers, std::move(norm))));
  }
  Layer lengths{.name = "gradient lengths"};
  lengths.bias.assign(kPlanes, 0.0f);
  for (int i = 0; i < kPlanes * kPlanes * kNumbers; ++i) {
    const bool own = i / (kPlanes * kNumbers) == i % (kPlanes * kNumbers) / kNumbers;
    lengths.weights.push_back(own ? static_cast<float>(1 / std::sqrt(double{kNumbers})) : 0.0f);
  }
  return builder.Conv(builder.Concat(std::move(products)), std::move(lengths));
}

}  // namespace

bool RecogniseSpsr(const TensorFile& file) {
  return file.Has("f_HR_conv1.0.weight") && file.Has("b_fea_conv.0.weight") && HasBlock(file, 0);
}

absl::StatusOr<int> SpsrScale(const TensorFile& file) {
  const int doublings = Doublings(file);
  if (doublings >= 1 && doublings <= 4) return 1 << doublings;
  return absl::InvalidArgumentError(
      absl::StrCat("has ", doublings, " doublings, must have 1 to 4"));
}

void BuildSpsr(NetworkBuilder& builder) {
  const absl::StatusOr<int> scale = SpsrScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  builder.Ignore("HR_conv0_new.");  // again, as part of `model`
  builder.Ignore("conv_w.");        // of a result for training
  const int image = builder.Input();
  const int first = builder.Conv(image, "model.0", {});
  std::vector<int> features;  // of the image's branch, for the other one
  int x = first, block = 0;
  for (; builder.ok() && HasBlock(builder.file(), block); ++block) {
    x = AddRrdb(builder, x, TrunkModule(block) + kRrdbConv);
    if ((block + 1) % kBlocksBetween == 0) features.push_back(x);
  }
  if (builder.ok() && std::ssize(features) < kSpsrBranches) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        "has ", block, " blocks, must have at least ", kSpsrBranches * kBlocksBetween)));
  }
  if (!builder.ok()) return;
  x = builder.Add(builder.Conv(x, TrunkModule(block), {}), first);
  x = AddDoublings(builder, x, "model.", 3);
  x = builder.Conv(x, absl::StrCat("model.", 2 + 3 * Doublings(builder.file())), kSpsrLeaky);
  x = builder.Conv(x, "HR_conv1_new.0", {});

  const int gradients = builder.Conv(AddGradientLengths(builder, image), "b_fea_conv.0", {});
  int y = gradients;
  for (int i = 0; i < kSpsrBranches && builder.ok(); ++i) {
    const std::string number = absl::StrCat(i + 1);
    y = AddRrdb(builder, builder.Concat({y, features[i]}), "b_block_" + number + kRrdbConv);
    y = builder.Conv(y, "b_concat_" + number + ".0", {});
  }
  y = builder.Add(builder.Conv(y, "b_LR_conv.0", {}), gradients);
  y = AddDoublings(builder, y, "b_module.", 1);
  const int behind = 3 * Doublings(builder.file());
  y = builder.Conv(y, absl::StrCat("b_module.", behind), kSpsrLeaky);
  y = builder.Conv(y, absl::StrCat("b_module.", behind + 2), {});

  x = AddRrdb(builder, builder.Concat({y, x}), std::string("f_block") + kRrdbConv);
  x = builder.Conv(x, "f_concat.0", {});
  builder.Conv(builder.Conv(x, "f_HR_conv0.0", kSpsrLeaky), "f_HR_conv1.0", {});
}

}  // namespace upscaled
