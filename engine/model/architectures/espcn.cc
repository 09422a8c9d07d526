#include "engine/model/architectures/espcn.h"

#include <string>
#include <string_view>
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
constexpr std::string_view kResidualPrefix = "residual.";

// The names of a network's tensors, and how many convolutions it has.
struct Espcn {
  std::string prefix;
  int convs = 0;

  bool residual() const { return !prefix.empty(); }
  std::string Conv(int number) const { return absl::StrCat(prefix, "conv", number); }
  std::string Slopes(int number) const { return absl::StrCat(prefix, "prelu", number); }
};

bool HasConv(const TensorFile& file, const std::string& name) {
  const TensorInfo* weight = file.Find(name + ".weight");
  return weight != nullptr && weight->shape.size() == 4;
}

bool HasSlopes(const TensorFile& file, const std::string& name) {
  return file.Find(name + ".weight") != nullptr;
}

Espcn FindEspcn(const TensorFile& file) {
  Espcn found{.prefix = std::string(kResidualPrefix)};
  if (!HasConv(file, found.Conv(1))) found.prefix.clear();
  while (HasConv(file, found.Conv(found.convs + 1))) ++found.convs;
  return found;
}

bool IsConv(const Layer& layer, bool last) {
  const bool plain = layer.op == Op::kConv && layer.kernel_px == kKernelPx &&
                     layer.stride_px == 1 && layer.padding_px == 0;
  if (last) return plain && layer.activation == Activation::kNone;
  return plain &&
         (layer.activation == Activation::kPRelu || (layer.activation == Activation::kLeakyRelu &&
                                                     layer.slope == std::vector<float>{kSlope}));
}

// A layer with only this operation, of these layers' results.
bool IsPlain(const Layer& layer, Op op, const std::vector<int>& inputs) {
  return layer.op == op && layer.activation == Activation::kNone && layer.inputs == inputs;
}

// All layers after the shuffle behind `convs` convolutions add the enlarged middle of the image.
bool AddsEnlarged(const std::vector<Layer>& layers, int convs) {
  const int shuffle = convs + 1;
  return std::ssize(layers) == shuffle + 4 && IsPlain(layers[shuffle + 1], Op::kCrop, {0}) &&
         layers[shuffle + 1].crop_px == convs &&
         IsPlain(layers[shuffle + 2], Op::kResizeNearest, {shuffle + 1}) &&
         IsPlain(layers[shuffle + 3], Op::kAdd, {shuffle, shuffle + 2});
}

absl::Status NoneOfARow(const Layer& layer) {
  return absl::UnimplementedError(absl::StrCat(
      "layer ", Quote(layer.name), " (", ToAbsl(OpName(layer.op)),
      ") is none of a row of 3x3 convolutions with LeakyReLU 0.1 or PReLU and a pixel shuffle, "
      "with the enlarged image added or not, the only networks whose weights say alone what they "
      "are"));
}

}  // namespace

bool RecogniseEspcn(const TensorFile& file) {
  const Espcn espcn = FindEspcn(file);
  size_t tensors = 2 * static_cast<size_t>(espcn.convs);
  for (int i = 1; i < espcn.convs; ++i) tensors += HasSlopes(file, espcn.Slopes(i));
  return espcn.convs >= 2 && file.tensors().size() == tensors;
}

absl::StatusOr<int> EspcnScale(const TensorFile& file) {
  const Espcn espcn = FindEspcn(file);
  if (espcn.convs == 0) return absl::InvalidArgumentError("lacks the tensor 'conv1.weight'");
  return ScaleOfShuffle(file.Find(espcn.Conv(espcn.convs) + ".weight")->shape[0]);
}

void BuildEspcn(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = EspcnScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const Espcn espcn = FindEspcn(file);
  const int image = builder.Input();
  int x = image;
  for (int i = 1; i <= espcn.convs; ++i) {
    const std::string name = espcn.Conv(i), slopes = espcn.Slopes(i);
    const std::vector<int64_t> shape = builder.Shape(name + ".weight", 4);
    if (builder.ok() && (shape[2] != kKernelPx || shape[3] != kKernelPx)) {
      return builder.Fail(absl::InvalidArgumentError(absl::StrCat(
          "the tensor '", name, ".weight' has kernels of ", shape[2], "x", shape[3], ", not 3x3")));
    }
    if (i == espcn.convs) {
      x = builder.PixelShuffle(builder.Conv(x, name, {.padding_px = 0}), *scale);
    } else if (HasSlopes(file, slopes)) {
      x = builder.PRelu(builder.Conv(x, name, {.padding_px = 0}), slopes);
    } else {
      x = builder.Conv(x, name,
                       {.padding_px = 0, .activation = Activation::kLeakyRelu, .slope = kSlope});
    }
  }
  if (espcn.residual()) builder.Add(x, builder.Nearest(builder.Crop(image, espcn.convs), *scale));
}

absl::StatusOr<std::vector<NamedTensor>> EspcnTensors(const Network& network) {
  const std::vector<Layer>& layers = network.layers;
  Espcn espcn;
  while (espcn.convs + 2 < std::ssize(layers) && layers[espcn.convs + 1].op == Op::kConv) {
    ++espcn.convs;
  }
  const int shuffle = espcn.convs + 1;
  if (std::ssize(layers) <= shuffle) return NoneOfARow(layers.back());
  if (!IsPlain(layers[shuffle], Op::kPixelShuffle, {espcn.convs})) {
    return NoneOfARow(layers[shuffle]);
  }
  if (AddsEnlarged(layers, espcn.convs)) {
    espcn.prefix = kResidualPrefix;
  } else if (std::ssize(layers) > shuffle + 1) {
    return NoneOfARow(layers[shuffle + 1]);
  }
  std::vector<NamedTensor> tensors;
  for (int i = 1; i <= espcn.convs; ++i) {
    const Layer& layer = layers[i];
    if (layer.inputs != std::vector<int>{i - 1} || !IsConv(layer, i == espcn.convs)) {
      return NoneOfARow(layer);
    }
    tensors.push_back({espcn.Conv(i) + ".weight",
                       {layer.out_channels, layer.in_channels, kKernelPx, kKernelPx},
                       layer.weights});
    tensors.push_back({espcn.Conv(i) + ".bias", {layer.out_channels}, layer.bias});
    if (layer.activation != Activation::kPRelu) continue;
    tensors.push_back({espcn.Slopes(i) + ".weight", {layer.out_channels}, layer.slope});
  }
  return tensors;
}

}  // namespace upscaled
