#include "engine/backends/opencl/elementwise.h"

#include <utility>

#include "engine/backends/opencl/layer_constants.h"
#include "engine/backends/opencl/sources.h"

namespace upscaled::opencl {
namespace {

// Null for what this file does not run.
const char* FunctionOf(Op op) {
  switch (op) {
    case Op::kPixelShuffle:
      return "pixel_shuffle";
    case Op::kResizeNearest:
      return "resize_nearest";
    case Op::kResizeBilinear:
      return "resize_bilinear";
    case Op::kAdd:
      return "add";
    case Op::kMul:
      return "mul";
    case Op::kConcat:
      return "concat";
    case Op::kCrop:
    case Op::kActivation:
      return "crop";
    case Op::kPad:
      return "pad";
    case Op::kAffine:
      return "affine";
    default:
      return nullptr;
  }
}

// As kernels/elementwise.cl numbers them.
cl_int PadModeNumber(PadMode mode) {
  switch (mode) {
    case PadMode::kConstant:
      return 0;
    case PadMode::kReplicate:
      return 1;
    case PadMode::kReflect:
      return 2;
  }
  return 0;
}

class ElementwiseKernel final : public LayerKernel {
 public:
  ElementwiseKernel(KernelFunction function, LayerConstants constants, const Layer& layer)
      : function_(std::move(function)),
        by_channel_{function_.program, "mul_channels"},
        constants_(std::move(constants)),
        op_(layer.op),
        factor_(layer.factor),
        crop_px_(layer.crop_px),
        padding_px_(layer.padding_px),
        pad_mode_(PadModeNumber(layer.pad_mode)),
        pad_value_(layer.pad_value) {}

  absl::Status Enqueue(Launcher& launcher, std::span<const Tensor> src,
                       const Tensor& dst) const override {
    const auto launch = [&](const auto&... args) {
      return launcher.Launch(function_, ItemsOf(dst.region, dst.planes()), kItemGroup, args...);
    };
    const ResultArguments result{dst, constants_};
    switch (op_) {
      case Op::kPixelShuffle:
        return launch(src[0], result, factor_, cl_int{dst.channels});
      case Op::kResizeNearest:
        return launch(src[0], result, factor_);
      case Op::kResizeBilinear:
        return launch(src[0], result, factor_, src[0].layer);
      case Op::kAdd:
      case Op::kMul:
        return launcher.Launch(
            op_ == Op::kMul && src[1].layer == Size{1, 1} ? by_channel_ : function_,
            ItemsOf(dst.region, dst.planes()), kItemGroup, src[0], src[1], result);
      case Op::kConcat:
        return EnqueueConcat(launcher, src, result);
      case Op::kPad:
        return launch(src[0], result, padding_px_, pad_mode_, pad_value_, src[0].layer);
      case Op::kAffine:
        return launch(src[0], result);
      default:  // kCrop, kActivation
        return launch(src[0], result, crop_px_);
    }
  }

  size_t WeightBytes() const override { return constants_.bytes; }
  LaunchConfig config() const override { return {1, kItemGroup}; }

 private:
  absl::Status EnqueueConcat(Launcher& launcher, std::span<const Tensor> src,
                             const ResultArguments& result) const {
    cl_int first = 0;
    for (const Tensor& input : src) {
      const int planes = PlaneCount(first % kPlaneChannels + input.channels);
      RETURN_IF_ERROR(launcher.Launch(function_, ItemsOf(result.dst.region, planes), kItemGroup,
                                      input, result, first, cl_int{input.channels}));
      first += input.channels;
    }
    return absl::OkStatus();
  }

  const KernelFunction function_;
  const KernelFunction by_channel_;  // for kMul, when the second input has one pixel
  const LayerConstants constants_;
  const Op op_;
  const cl_int factor_, crop_px_, padding_px_, pad_mode_;
  const cl_float pad_value_;
};

}  // namespace

bool ElementwiseSupports(const Layer& layer) { return FunctionOf(layer.op) != nullptr; }

absl::StatusOr<std::unique_ptr<LayerKernel>> MakeElementwise(Context& context, const Layer& layer,
                                                             Precision precision,
                                                             const LaunchConfig& /*config*/) {
  ASSIGN_OR_RETURN(KernelFunction function,
                   ElementwiseFunction(context, precision, FunctionOf(layer.op)));
  ASSIGN_OR_RETURN(LayerConstants constants, LayerConstants::Upload(context, layer));
  return std::make_unique<ElementwiseKernel>(std::move(function), std::move(constants), layer);
}

absl::StatusOr<KernelFunction> ElementwiseFunction(Context& context, Precision precision,
                                                   const char* name) {
  ASSIGN_OR_RETURN(cl::Program program,
                   context.programs.Get(kElementwiseSource, StorageOption(precision)));
  return KernelFunction{std::move(program), name};
}

WorkSize ItemsOf(const Rect& region, int planes) {
  return {static_cast<size_t>(region.width), static_cast<size_t>(region.height),
          static_cast<size_t>(planes)};
}

absl::Status EnqueueZero(Launcher& launcher, const KernelFunction& zero, const cl::Buffer& buffer,
                         size_t values) {
  const Rect all{0, 0, static_cast<int>(values / kPlaneChannels), 1};
  return launcher.Launch(zero, ItemsOf(all, 1), kItemGroup, buffer, all, all, cl_int{1});
}

absl::Status EnqueueHalo(Launcher& launcher, const KernelFunction& zero, const Tensor& tensor) {
  const Rect& all = tensor.rect;
  const Rect& inner = tensor.region;
  const Rect strips[] = {
      {all.x, all.y, all.width, inner.y - all.y},
      {all.x, inner.bottom(), all.width, all.bottom() - inner.bottom()},
      {all.x, inner.y, inner.x - all.x, inner.height},
      {inner.right(), inner.y, all.right() - inner.right(), inner.height},
  };
  for (const Rect& strip : strips) {
    if (strip.empty()) continue;
    RETURN_IF_ERROR(launcher.Launch(zero, ItemsOf(strip, tensor.planes()), kItemGroup, tensor,
                                    strip, cl_int{tensor.planes()}));
  }
  return absl::OkStatus();
}

}  // namespace upscaled::opencl
