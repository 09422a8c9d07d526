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

// The names of a file's tensors.
class EspcnNames {
 public:
  explicit EspcnNames(bool residual) : prefix_(residual ? "residual." : "") {}
  static EspcnNames Of(const TensorFile& file) {
    const EspcnNames residual(true);
    return HasConv(file, residual, 1) ? residual : EspcnNames(false);
  }

  bool residual() const { return !prefix_.empty(); }
  std::string Conv(int number) const { return absl::StrCat(prefix_, "conv", number); }
  std::string Slopes(int number) const { return absl::StrCat(prefix_, "prelu", number); }

  static bool HasConv(const TensorFile& file, const EspcnNames& names, int number) {
    const TensorInfo* weight = file.Find(names.Conv(number) + ".weight");
    return weight != nullptr && weight->shape.size() == 4;
  }

 private:
  std::string prefix_;
};

bool HasSlopes(const TensorFile& file, const EspcnNames& names, int number) {
  return file.Find(names.Slopes(number) + ".weight") != nullptr;
}

int CountConvs(const TensorFile& file, const EspcnNames& names) {
  int count = 0;
  while (EspcnNames::HasConv(file, names, count + 1)) ++count;
  return count;
}

bool IsConv(const Layer& layer, bool last) {
  const bool plain = layer.op == Op::kConv && layer.kernel_px == kKernelPx &&
                     layer.stride_px == 1 && layer.padding_px == 0;
  if (last) return plain && layer.activation == Activation::kNone;
  return plain &&
         (layer.activation == Activation::kPRelu || (layer.activation == Activation::kLeakyRelu &&
                                                     layer.slope == std::vector<float>{kSlope}));
}

// A layer that does nothing but this, of these layers' results.
bool IsPlain(const Layer& layer, Op op, const std::vector<int>& inputs) {
  return layer.op == op && layer.activation == Activation::kNone && layer.inputs == inputs;
}

// The image is enlarged and added to `shuffle`, the layer behind `convs` convolutions; by the
// layers behind it, and no others.
bool AddsEnlarged(const Network& network, int convs, int shuffle) {
  const std::vector<Layer>& layers = network.layers;
  return std::ssize(layers) == shuffle + 4 && IsPlain(layers[shuffle + 1], Op::kCrop, {0}) &&
         layers[shuffle + 1].crop_px == convs &&
         IsPlain(layers[shuffle + 2], Op::kResizeNearest, {shuffle + 1}) &&
         IsPlain(layers[shuffle + 3], Op::kAdd, {shuffle, shuffle + 2});
}

}  // namespace

bool RecogniseEspcn(const TensorFile& file) {
  const EspcnNames names = EspcnNames::Of(file);
  const int convs = CountConvs(file, names);
  size_t tensors = 2 * static_cast<size_t>(convs);
  for (int i = 1; i < convs; ++i) tensors += HasSlopes(file, names, i);
  return convs >= 2 && file.tensors().size() == tensors;
}

absl::StatusOr<int> EspcnScale(const TensorFile& file) {
  const EspcnNames names = EspcnNames::Of(file);
  const int convs = CountConvs(file, names);
  if (convs == 0) return absl::InvalidArgumentError("lacks the tensor 'conv1.weight'");
  return ScaleOfShuffle(file.Find(names.Conv(convs) + ".weight")->shape[0]);
}

void BuildEspcn(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = EspcnScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const EspcnNames names = EspcnNames::Of(file);
  const int image = builder.Input();
  int x = image;
  const int convs = CountConvs(file, names);
  for (int i = 1; i < convs; ++i) {
    if (HasSlopes(file, names, i)) {
      x = builder.PRelu(builder.Conv(x, names.Conv(i), {.padding_px = 0}), names.Slopes(i));
    } else {
      x = builder.Conv(x, names.Conv(i),
                       {.padding_px = 0, .activation = Activation::kLeakyRelu, .slope = kSlope});
    }
  }
  x = builder.PixelShuffle(builder.Conv(x, names.Conv(convs), {.padding_px = 0}), *scale);
  if (names.residual()) builder.Add(x, builder.Nearest(builder.Crop(image, convs), *scale));
}

absl::StatusOr<std::vector<NamedTensor>> EspcnTensors(const Network& network) {
  const std::vector<Layer>& layers = network.layers;
  int convs = 0;
  while (convs + 2 < std::ssize(layers) && layers[convs + 1].op == Op::kConv) ++convs;
  const int shuffle = convs + 1;
  const bool residual = AddsEnlarged(network, convs, shuffle);
  const int end = residual ? shuffle + 1 : static_cast<int>(layers.size());
  std::vector<NamedTensor> tensors;
  const EspcnNames names(residual);
  for (int i = 1; i < end; ++i) {
    const Layer& layer = layers[i];
    const bool fits = i < shuffle
                          ? layer.inputs == std::vector<int>{i - 1} && IsConv(layer, i == convs)
                          : i == shuffle && IsPlain(layer, Op::kPixelShuffle, {i - 1});
    if (!fits) {
      return absl::UnimplementedError(absl::StrCat(
          "layer ", Quote(layer.name), " (", ToAbsl(OpName(layer.op)),
          ") is none of a row of 3x3 convolutions with LeakyReLU 0.1 or PReLU and a pixel shuffle, "
          "with the enlarged image added or not, the only networks whose weights say alone what "
          "they are"));
    }
    if (i >= shuffle) continue;
    tensors.push_back({names.Conv(i) + ".weight",
                       {layer.out_channels, layer.in_channels, kKernelPx, kKernelPx},
                       layer.weights});
    tensors.push_back({names.Conv(i) + ".bias", {layer.out_channels}, layer.bias});
    if (layer.activation != Activation::kPRelu) continue;
    tensors.push_back({names.Slopes(i) + ".weight", {layer.out_channels}, layer.slope});
  }
  return tensors;
}

}  // namespace upscaled
