// ncnn's layer types to move values, or to change sizes.
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/fractional_resize.h"
#include "engine/model/fuse.h"
#include "engine/model/limits.h"
#include "engine/model/ncnn_builder.h"
#include "engine/model/shapes.h"

namespace upscaled {
namespace {

// Networks resize images by fractions, and no features; each channel takes up to 9216 weights.
constexpr int kMaxResizedChannels = 512;

absl::Status CheckFactor(float factor) {
  if (factor >= 1 && factor <= kMaxFactor) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("factor is ", factor, ", outside 1..", kMaxFactor));
}

}  // namespace

absl::Status NcnnBuilder::AddPixelShuffle(NcnnLayer& source) {
  Layer layer = NewLayer(source, Op::kPixelShuffle);
  ASSIGN_OR_RETURN(layer.factor, source.params.Int(0, 1));
  ASSIGN_OR_RETURN(const int mode, source.params.Int(1, 0));
  RETURN_IF_ERROR(CheckFactor(layer.factor));
  if (layer.in_channels % (layer.factor * layer.factor) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot shuffle ", layer.in_channels, " channels by ", layer.factor, "x", layer.factor));
  }
  layer.out_channels = layer.in_channels / (layer.factor * layer.factor);
  if (mode != 0) {  // the channels of a pixel lie together
    const std::vector<int> order = DepthFirstOrder(layer.in_channels, layer.factor);
    if (inputs_[0].shared || !FusePermutation(order, network_.layers[inputs_[0].layer])) {
      Layer permutation = MakePermutation(order);
      permutation.inputs = layer.inputs;
      ASSIGN_OR_RETURN(layer.inputs[0], AppendUnnamed(source, std::move(permutation)));
    }
  }
  return Append(source, std::move(layer));
}

absl::Status NcnnBuilder::AddInterp(NcnnLayer& source) {
  NcnnParams& params = source.params;
  ASSIGN_OR_RETURN(const int type, params.Int(0, 0));
  if (type < 1 || type > 3) {
    return absl::UnimplementedError(absl::StrCat(
        "resize type ", type, " is not supported, only 1 (nearest), 2 (bilinear) and 3 (bicubic)"));
  }
  ASSIGN_OR_RETURN(const float factor, params.Float(1, 1));
  ASSIGN_OR_RETURN(const float horizontal, params.Float(2, 1));
  if (horizontal != factor) {
    return absl::UnimplementedError(absl::StrCat("horizontal factor ", horizontal,
                                                 " (parameter 2) is not supported, only ", factor));
  }
  RETURN_IF_ERROR(params.Expect(3, "fixed height", 0));
  RETURN_IF_ERROR(params.Expect(4, "fixed width", 0));
  RETURN_IF_ERROR(params.Expect(5, "dynamic size", 0));
  RETURN_IF_ERROR(params.Expect(6, "corner alignment", 0));
  if (type != 3 && factor == std::floor(factor)) {
    Layer layer = NewLayer(source, type == 1 ? Op::kResizeNearest : Op::kResizeBilinear);
    RETURN_IF_ERROR(CheckFactor(factor));
    layer.factor = static_cast<int>(factor);
    return Append(source, std::move(layer));
  }
  return AddFractionalResize(source, static_cast<Interpolation>(type - 1), factor);
}

absl::Status NcnnBuilder::AddFractionalResize(NcnnLayer& source, Interpolation interpolation,
                                              float factor) {
  const std::optional<Fraction> fraction = FractionOf(factor);
  if (!fraction) {
    return absl::UnimplementedError(
        absl::StrCat("factor ", factor, " is not supported, only fractions of numbers up to 8"));
  }
  int input = inputs_[0].layer;
  const int channels = network_.layers[input].out_channels;
  if (channels > kMaxResizedChannels) {
    return absl::UnimplementedError(absl::StrCat("resizes ", channels, " channels by ", factor,
                                                 "; the limit is ", kMaxResizedChannels));
  }
  std::vector<Layer> layers = MakeFractionalResize(interpolation, *fraction, channels);
  for (size_t i = 0; i + 1 < layers.size(); ++i) {
    layers[i].inputs = {input};
    ASSIGN_OR_RETURN(input, AppendUnnamed(source, std::move(layers[i])));
  }
  layers.back().inputs = {input};
  layers.back().name = source.name;
  return Append(source, std::move(layers.back()));
}

absl::Status NcnnBuilder::AddSplit(NcnnLayer& source) { return PassThrough(source); }

absl::Status NcnnBuilder::AddConcat(NcnnLayer& source) {
  if (inputs_.empty()) return absl::InvalidArgumentError("has no inputs");
  Layer layer = NewLayer(source, Op::kConcat);
  RETURN_IF_ERROR(source.params.Expect(0, "axis", 0));
  int64_t channels = 0;
  for (const Blob& blob : inputs_) channels += network_.layers[blob.layer].out_channels;
  if (channels > kMaxChannels) {
    return absl::InvalidArgumentError(
        absl::StrCat("gives ", channels, " channels, the limit is ", kMaxChannels));
  }
  layer.out_channels = static_cast<int>(channels);
  return Append(source, std::move(layer));
}

// Either offsets (0, 1) and a second input with the result's size, or slices (9 starts, 10 ends, 11
// axes). Only the same crop on all four sides is ours. The size is checked where the result meets
// the second input.
absl::Status NcnnBuilder::AddCrop(NcnnLayer& source) {
  NcnnParams& params = source.params;
  if (inputs_.empty() || inputs_.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", inputs_.size(), " inputs, must have 1 or 2"));
  }
  inputs_.resize(1);
  Layer layer = NewLayer(source, Op::kCrop);
  if (source.inputs.size() == 2) {
    ASSIGN_OR_RETURN(layer.crop_px, params.Int(0, 0));
    RETURN_IF_ERROR(params.Expect(1, "vertical offset", layer.crop_px));
    RETURN_IF_ERROR(params.Expect(2, "channel offset", 0));
    return Append(source, std::move(layer));
  }
  ASSIGN_OR_RETURN(const std::vector<float> starts, params.Array(9));
  ASSIGN_OR_RETURN(const std::vector<float> ends, params.Array(10));
  ASSIGN_OR_RETURN(const std::vector<float> axes, params.Array(11));
  const bool height_and_width =
      axes == std::vector<float>{-2, -1} || axes == std::vector<float>{1, 2};
  const bool same = starts.size() == 2 && ends.size() == 2 && starts[0] == starts[1] &&
                    ends[0] == -starts[0] && ends[1] == -starts[1];
  if (!height_and_width || !same || starts[0] < 0 || starts[0] > kMaxPadPx) {
    return absl::UnimplementedError(
        absl::StrCat("must cut the same number of pixels (0..", kMaxPadPx,
                     ") off every side; starts ", absl::StrJoin(starts, ","), " ends ",
                     absl::StrJoin(ends, ","), " axes ", absl::StrJoin(axes, ",")));
  }
  layer.crop_px = static_cast<int>(starts[0]);
  return Append(source, std::move(layer));
}

absl::Status NcnnBuilder::AddPadding(NcnnLayer& source) {
  NcnnParams& params = source.params;
  Layer layer = NewLayer(source, Op::kPad);
  ASSIGN_OR_RETURN(layer.padding_px, params.Int(0, 0));
  if (layer.padding_px < 0 || layer.padding_px > kMaxPadPx) {
    return absl::UnimplementedError(
        absl::StrCat("padding is ", layer.padding_px, " pixels, outside 0..", kMaxPadPx));
  }
  RETURN_IF_ERROR(params.Expect(1, "bottom padding", layer.padding_px));
  RETURN_IF_ERROR(params.Expect(2, "left padding", layer.padding_px));
  RETURN_IF_ERROR(params.Expect(3, "right padding", layer.padding_px));
  for (const int extra : {6, 7, 8}) {  // values of their own for channels; channels to add
    RETURN_IF_ERROR(params.Expect(extra, "value", 0));
  }
  ASSIGN_OR_RETURN(const int mode, params.Int(4, 0));
  ASSIGN_OR_RETURN(layer.pad_value, params.Float(5, 0));
  if (layer.padding_px == 0) return PassThrough(source);
  if (mode < 0 || mode > 2) {
    return absl::UnimplementedError(absl::StrCat(
        "mode ", mode, " is not supported, only 0 (constant), 1 (replicate) and 2 (reflect)"));
  }
  layer.pad_mode = mode == 0   ? PadMode::kConstant
                   : mode == 1 ? PadMode::kReplicate
                               : PadMode::kReflect;
  return Append(source, std::move(layer));
}

absl::Status NcnnBuilder::AddPooling(NcnnLayer& source) {
  RETURN_IF_ERROR(source.params.Expect(0, "pooling type", 1));
  ASSIGN_OR_RETURN(const int global, source.params.Int(4, 0));
  if (global != 1) {
    return absl::UnimplementedError(
        "windowed pooling is not supported, only global (parameter 4=1)");
  }
  return Append(source, NewLayer(source, Op::kGlobalAveragePool));
}

// Where it changes nothing: planes of unchanged size (0), and one value per channel; we hold these
// the same way in one dimension and in three.
absl::Status NcnnBuilder::AddReshape(NcnnLayer& source) {
  constexpr int kMissing = -233, kKeep = 0, kRest = -1;
  ASSIGN_OR_RETURN(const int width, source.params.Int(0, kMissing));
  ASSIGN_OR_RETURN(const int height, source.params.Int(1, kMissing));
  ASSIGN_OR_RETURN(const int channels, source.params.Int(2, kMissing));
  RETURN_IF_ERROR(source.params.Expect(3, "order", 0));
  RETURN_IF_ERROR(source.params.Expect(11, "depth", kMissing));
  const int given = network_.layers[inputs_[0].layer].out_channels;
  const auto all_channels = [given](int size) { return size == given || size == kRest; };
  const bool per_image = IsPerImage(network_)[inputs_[0].layer];
  const bool flat = all_channels(width) && height == kMissing && channels == kMissing;
  const bool deep = width == 1 && height == 1 && all_channels(channels);
  const bool kept =
      width == kKeep && height == kKeep && (channels == kKeep || all_channels(channels));
  if (kept || (per_image && (flat || deep))) return PassThrough(source);
  return absl::UnimplementedError(absl::StrCat("to ", width, " x ", height, " x ", channels,
                                               " is not supported, only where it changes nothing"));
}

}  // namespace upscaled
