#include "engine/backends/cuda/kernels/elementwise_layer.h"

#include <optional>

#include "engine/backends/cuda/kernels/layer_constants.h"
#include "engine/model/op.h"

namespace upscaled::cuda {
namespace {

std::optional<ElementwiseKind> KindOf(Op op) {
  switch (op) {
    case Op::kCrop:
    case Op::kActivation:
      return ElementwiseKind::kCrop;
    case Op::kAdd:
      return ElementwiseKind::kAdd;
    case Op::kMul:
      return ElementwiseKind::kMul;
    case Op::kAffine:
      return ElementwiseKind::kAffine;
    case Op::kResizeNearest:
      return ElementwiseKind::kResizeNearest;
    case Op::kResizeBilinear:
      return ElementwiseKind::kResizeBilinear;
    case Op::kPad:
      return ElementwiseKind::kPad;
    case Op::kPixelShuffle:
      return ElementwiseKind::kPixelShuffle;
    case Op::kConcat:
      return ElementwiseKind::kConcat;
    case Op::kSlice:
      return ElementwiseKind::kSlice;
    case Op::kPixelNorm:
      return ElementwiseKind::kPixelNorm;
    case Op::kGroupNorm:
      return ElementwiseKind::kGroupNorm;
    default:
      return std::nullopt;
  }
}

PadKind PadKindOf(PadMode mode) {
  switch (mode) {
    case PadMode::kConstant:
      return PadKind::kConstant;
    case PadMode::kReplicate:
      return PadKind::kReplicate;
    case PadMode::kReflect:
      return PadKind::kReflect;
    case PadMode::kWrap:  // not supported
      break;
  }
  return PadKind::kConstant;
}

}  // namespace

bool ElementwiseSupports(const Layer& layer) {
  return KindOf(layer.op).has_value() && !IsExactOnly(layer);
}

ElementwiseParams ElementwiseOf(const Layer& layer, bool one_pixel) {
  ElementwiseParams params;
  params.kind = KindOf(layer.op).value();
  if (params.kind == ElementwiseKind::kMul && one_pixel) {
    params.kind = ElementwiseKind::kMulChannels;
  }
  params.factor = layer.factor;
  params.crop_px = layer.crop_px;
  params.padding_px = layer.padding_px;
  params.sliced_channel = layer.first_channel;
  params.centred = layer.centred;
  params.group_channels = layer.in_channels / layer.groups;
  params.epsilon = layer.epsilon;
  params.pad = PadKindOf(layer.pad_mode);
  params.pad_value = layer.pad_value;
  params.activation = ActivationOf(layer);
  return params;
}

}  // namespace upscaled::cuda
