#include "engine/model/architectures/espcn.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr int kKernelPx = 3;
constexpr float kSlope = 0.1f;

std::string ConvName(int number) { return absl::StrCat("conv", number); }

bool HasNumberedConv(const TensorFile& file, int number) {
  const TensorInfo* weight = file.Find(ConvName(number) + ".weight");
  return weight != nullptr && weight->shape.size() == 4;
}

int CountConvs(const TensorFile& file) {
  int count = 0;
  while (HasNumberedConv(file, count + 1)) ++count;
  return count;
}

bool IsConv(const Layer& layer, bool last) {
  const bool plain = layer.op == Op::kConv && layer.kernel_px == kKernelPx &&
                     layer.stride_px == 1 && layer.padding_px == 0;
  if (last) return plain && layer.activation == Activation::kNone;
  return plain && layer.activation == Activation::kLeakyRelu &&
         layer.slope == std::vector<float>{kSlope};
}

}  // namespace

bool RecogniseEspcn(const TensorFile& file) {
  const int convs = CountConvs(file);
  return convs >= 2 && file.tensors().size() == 2 * static_cast<size_t>(convs);
}

absl::StatusOr<int> EspcnScale(const TensorFile& file) {
  const int convs = CountConvs(file);
  if (convs == 0) return absl::InvalidArgumentError("lacks the tensor 'conv1.weight'");
  return ScaleOfShuffle(file.Find(ConvName(convs) + ".weight")->shape[0]);
}

void BuildEspcn(NetworkBuilder& builder) {
  const absl::StatusOr<int> scale = EspcnScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  int x = builder.Input();
  const int convs = CountConvs(builder.file());
  for (int i = 1; i < convs; ++i) {
    x = builder.Conv(x, ConvName(i),
                     {.padding_px = 0, .activation = Activation::kLeakyRelu, .slope = kSlope});
  }
  builder.PixelShuffle(builder.Conv(x, ConvName(convs), {.padding_px = 0}), *scale);
}

absl::StatusOr<std::vector<NamedTensor>> EspcnTensors(const Network& network) {
  const int convs = static_cast<int>(network.layers.size()) - 2;
  std::vector<NamedTensor> tensors;
  for (int i = 1; i <= convs + 1; ++i) {
    const Layer& layer = network.layers[i];
    const bool in_a_row = layer.inputs == std::vector<int>{i - 1};
    const bool fits = i <= convs
                          ? IsConv(layer, i == convs)
                          : layer.op == Op::kPixelShuffle && layer.activation == Activation::kNone;
    if (!in_a_row || !fits) {
      return absl::UnimplementedError(absl::StrCat(
          "layer ", Quote(layer.name), " (", ToAbsl(OpName(layer.op)),
          ") is none of a row of 3x3 convolutions with LeakyReLU 0.1 and a pixel shuffle, the only "
          "networks whose weights say alone what they are"));
    }
    if (i > convs) break;
    tensors.push_back({ConvName(i) + ".weight",
                       {layer.out_channels, layer.in_channels, kKernelPx, kKernelPx},
                       layer.weights});
    tensors.push_back({ConvName(i) + ".bias", {layer.out_channels}, layer.bias});
  }
  return tensors;
}

}  // namespace upscaled
