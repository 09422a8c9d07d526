#include "engine/model/architectures/plksr.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/dysample.h"
#include "engine/model/architectures/shuffle_scale.h"

namespace upscaled {
namespace {

// RealPLKSR's; no tensor tells it.
constexpr int kNormGroups = 4;
constexpr float kNormEpsilon = 1e-5f;
constexpr char kPlkSampleEnd[] = "to_img";

std::string PlkBlock(int index) { return absl::StrCat("feats.", index, "."); }

bool IsPlkBlock(const TensorFile& file, int index) {
  return file.Has(PlkBlock(index) + "lk.conv.weight");
}

// The last convolution, behind a dropout in RealPLKSR: the number leaves a place for it.
std::string LastPlkConv(const TensorFile& file) {
  int behind = 1;
  while (IsPlkBlock(file, behind)) ++behind;
  const std::string next = absl::StrCat("feats.", behind);
  return file.Has(next + ".weight") ? next : absl::StrCat("feats.", behind + 1);
}

// The convolution of the first channels, and the others as they are.
int AddPartialConv(NetworkBuilder& builder, int x, const std::string& name) {
  const int channels = builder.Channels(x);
  const auto first = static_cast<int>(builder.Shape(name + ".weight", 4)[0]);
  if (!builder.ok() || first >= channels) return builder.Conv(x, name, {});
  return builder.Concat({builder.Conv(builder.Slice(x, 0, first), name, {}),
                         builder.Slice(x, first, channels - first)});
}

// Appends each channel `times` times.
int AddRepeated(NetworkBuilder& builder, int x, int times) {
  if (!builder.ok()) return 0;
  const size_t channels = builder.Channels(x), results = channels * times;
  Layer repeat{.name = "repeated"};
  repeat.weights.assign(results * channels, 0.0f);
  for (size_t i = 0; i < results; ++i) repeat.weights[i * channels + i / times] = 1.0f;
  repeat.bias.assign(results, 0.0f);
  return builder.Conv(x, std::move(repeat));
}

int AddPlkBlock(NetworkBuilder& builder, int x, int index) {
  const TensorFile& file = builder.file();
  const std::string block = PlkBlock(index);
  // As they are spelt: PLKSR's with GELU, RealPLKSR's with Mish.
  const bool real = file.Has(block + "channel_mixer.0.weight");
  const std::string mixer = block + (real ? "channel_mixer." : "channe_mixer.");
  int y =
      builder.Conv(x, mixer + "0", {.activation = real ? Activation::kMish : Activation::kGelu});
  y = AddPartialConv(builder, builder.Conv(y, mixer + "2", {}), block + "lk.conv");
  if (file.Has(block + "attn.f.0.weight")) {
    const int gate = builder.Conv(y, block + "attn.f.0", {.activation = Activation::kSigmoid});
    y = builder.Mul(y, gate);
  }
  y = builder.Conv(y, block + "refine", {});
  if (file.Has(block + "norm.weight")) {
    y = builder.GroupNorm(y, block + "norm", kNormGroups, kNormEpsilon);
  }
  return builder.Add(y, x);
}

}  // namespace

bool RecognisePlksr(const TensorFile& file) {
  return file.Has("feats.0.weight") && IsPlkBlock(file, 1) && file.Has("feats.1.refine.weight");
}

absl::StatusOr<int> PlksrScale(const TensorFile& file) {
  const TensorInfo* last = file.Find(LastPlkConv(file) + ".weight");
  return ScaleOfShuffle(last == nullptr || last->shape.empty() ? 0 : last->shape[0]);
}

void BuildPlksr(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = PlksrScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const int image = builder.Input();
  int x = builder.Conv(image, "feats.0", {});
  for (int i = 1; IsPlkBlock(file, i) && builder.ok(); ++i) x = AddPlkBlock(builder, x, i);
  x = builder.Conv(x, LastPlkConv(file), {});
  if (HasDySample(file, kPlkSampleEnd)) {
    AddDySample(builder, builder.Add(x, AddRepeated(builder, image, *scale * *scale)),
                kPlkSampleEnd);
    return;
  }
  x = builder.PixelShuffle(x, *scale);
  builder.Add(x, builder.Nearest(image, *scale));
}

}  // namespace upscaled
