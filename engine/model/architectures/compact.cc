#include "engine/model/architectures/compact.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/planes.h"
#include "engine/model/architectures/shuffle_scale.h"

namespace upscaled {
namespace {

constexpr float kCompactSlope = 0.1f;

std::string Module(int index) { return absl::StrCat("body.", index); }

bool HasConv(const TensorFile& file, int index) {
  const TensorInfo* weight = file.Find(Module(index) + ".weight");
  return weight != nullptr && weight->shape.size() == 4;
}

// Convolutions are the modules of even index.
int LastModule(const TensorFile& file) {
  int last = 0;
  while (HasConv(file, last + 2)) last += 2;
  return last;
}

// Planes into the first convolution and out of the last one; 3 if they differ.
int64_t CompactPlanes(const TensorFile& file) {
  const int64_t planes = file.Find(Module(0) + ".weight")->shape[1];
  const int64_t last = file.Find(Module(LastModule(file)) + ".weight")->shape[0];
  return ArePlanes(planes) && ScaleOfShuffle(last, planes).ok() ? planes : 3;
}

void Build(NetworkBuilder& builder, Activation activation) {
  const absl::StatusOr<int> scale = CompactScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  const int64_t planes = CompactPlanes(builder.file());
  const int rgb = builder.Input();
  const int image = PlanesOf(builder, rgb, planes);
  int x = image;
  const int last = LastModule(builder.file());
  for (int i = 0; i < last; i += 2) {
    if (activation == Activation::kPRelu) {
      x = builder.PRelu(builder.Conv(x, Module(i), {}), Module(i + 1));
    } else {
      x = builder.Conv(x, Module(i), {.activation = activation, .slope = kCompactSlope});
    }
  }
  x = builder.PixelShuffle(builder.Conv(x, Module(last), {}), *scale);
  x = builder.Add(x, builder.Nearest(image, *scale));
  RgbOf(builder, rgb, x, planes, *scale);
}

}  // namespace

bool RecogniseCompact(const TensorFile& file) {
  const TensorInfo* slopes = file.Find("body.1.weight");
  return HasConv(file, 0) && HasConv(file, 2) && slopes != nullptr && slopes->shape.size() == 1;
}

absl::StatusOr<int> CompactScale(const TensorFile& file) {
  if (!HasConv(file, 0)) return absl::InvalidArgumentError("lacks the tensor 'body.0.weight'");
  return ScaleOfShuffle(file.Find(Module(LastModule(file)) + ".weight")->shape[0],
                        CompactPlanes(file));
}

void BuildCompact(NetworkBuilder& builder) { Build(builder, Activation::kPRelu); }
void BuildCompactRelu(NetworkBuilder& builder) { Build(builder, Activation::kRelu); }
void BuildCompactLeakyRelu(NetworkBuilder& builder) { Build(builder, Activation::kLeakyRelu); }

}  // namespace upscaled
