#include "engine/model/architectures/swift_srgan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/batch_norm.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

constexpr int kDoubling = 2;

// A depthwise convolution and a pointwise one.
int AddSeparable(NetworkBuilder& builder, int x, const std::string& name) {
  const int channels = builder.ok() ? builder.Channels(x) : 1;
  x = builder.Conv(x, name + ".depthwise", {.groups = channels});
  return builder.Conv(x, name + ".pointwise", {});
}

int AddBlockConv(NetworkBuilder& builder, int x, const std::string& name) {
  x = AddBatchNorm(builder, AddSeparable(builder, x, name + ".cnn"), name + ".bn");
  return builder.file().Has(name + ".act.weight") ? builder.PRelu(x, name + ".act") : x;
}

std::string UpsampleName(int index) { return absl::StrCat("upsamples.", index); }

int CountUpsamples(const TensorFile& file) {
  int count = 0;
  while (file.Has(UpsampleName(count) + ".conv.pointwise.weight")) ++count;
  return count;
}

}  // namespace

bool RecogniseSwiftSrgan(const TensorFile& file) {
  return file.Has("initial.cnn.depthwise.weight") && file.Has("final_conv.pointwise.weight");
}

absl::StatusOr<int> SwiftSrganScale(const TensorFile& file) {
  const int doublings = CountUpsamples(file);
  if (doublings <= 4) return 1 << doublings;
  return absl::InvalidArgumentError(
      absl::StrCat("doubles ", doublings, " times, the limit is a scale of ", kMaxScale));
}

void BuildSwiftSrgan(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = SwiftSrganScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const int initial =
      builder.PRelu(AddSeparable(builder, builder.Input(), "initial.cnn"), "initial.act");
  int x = initial;
  const auto residual = [](int index) { return absl::StrCat("residuals.", index, ".block"); };
  for (int i = 0; builder.ok() && file.Has(residual(i) + "1.cnn.depthwise.weight"); ++i) {
    const int y = AddBlockConv(builder, x, residual(i) + "1");
    x = builder.Add(AddBlockConv(builder, y, residual(i) + "2"), x);
  }
  x = builder.Add(AddBlockConv(builder, x, "convblock"), initial);
  for (int i = 0; i < CountUpsamples(file); ++i) {
    const std::string name = UpsampleName(i);
    x = builder.PixelShuffle(AddSeparable(builder, x, name + ".conv"), kDoubling);
    x = builder.PRelu(x, name + ".act");
  }
  // (tanh(v) + 1) / 2 is the sigmoid of 2v.
  x = builder.Affine(AddSeparable(builder, x, "final_conv"), {2.0f}, {0.0f});
  builder.Activate(x, Activation::kSigmoid);
}

}  // namespace upscaled
