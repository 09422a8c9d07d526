#include "engine/backends/opencl/elementwise.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/backends/opencl/layer_constants.h"
#include "engine/backends/opencl/sources.h"
#include "engine/model/op.h"

namespace upscaled::opencl {
namespace {

// As kernels/elementwise.cl numbers them.
cl_int PadModeNumber(PadMode mode) {
  switch (mode) {
    case PadMode::kConstant:
      return 0;
    case PadMode::kReplicate:
      return 1;
    case PadMode::kReflect:
      return 2;
    case PadMode::kWrap:  // not supported
      break;
  }
  return 0;
}

// The parameters that kernels take from a layer, except its constants.
struct Parameters {
  cl_int factor, crop_px, padding_px, pad_mode;
  cl_float pad_value;
  cl_int first_channel, centred, groups;
  cl_float epsilon;
};

// The computation of one layer's result.
struct Call {
  Launcher& launcher;
  const KernelFunction& function;
  const Parameters& layer;
  std::span<const Tensor> src;
  ResultArguments result;

  // Runs `kernel` over `planes` planes of the result.
  template <typename... Args>
  absl::Status Launch(const KernelFunction& kernel, int planes, const Args&... args) const {
    return launcher.Launch(kernel, ItemsOf(result.dst.region, planes), kItemGroup, args...);
  }
  // Runs the layer's function over the whole result, with the first input before `args`.
  template <typename... Args>
  absl::Status Run(const Args&... args) const {
    return Launch(function, result.dst.planes(), src[0], args...);
  }
};

absl::Status RunMul(const Call& call) {
  const bool by_channel = call.src[1].layer == Size{1, 1};
  const KernelFunction kernel{call.function.program,
                              by_channel ? "mul_channels" : call.function.name};
  return call.Launch(kernel, call.result.dst.planes(), call.src[0], call.src[1], call.result);
}

absl::Status RunConcat(const Call& call) {
  cl_int first = 0;
  for (const Tensor& input : call.src) {
    const int planes = PlaneCount(first % kPlaneChannels + input.channels);
    RETURN_IF_ERROR(
        call.Launch(call.function, planes, input, call.result, first, cl_int{input.channels}));
    first += input.channels;
  }
  return absl::OkStatus();
}

absl::Status RunCrop(const Call& call) { return call.Run(call.result, call.layer.crop_px); }

struct Row {
  Op op;
  const char* function;
  absl::Status (*run)(const Call&);
};

constexpr Row kRows[] = {
    {Op::kPixelShuffle, "pixel_shuffle",
     [](const Call& call) {
       return call.Run(call.result, call.layer.factor, cl_int{call.result.dst.channels});
     }},
    {Op::kResizeNearest, "resize_nearest",
     [](const Call& call) { return call.Run(call.result, call.layer.factor); }},
    {Op::kResizeBilinear, "resize_bilinear",
     [](const Call& call) { return call.Run(call.result, call.layer.factor, call.src[0].layer); }},
    {Op::kAdd, "add", [](const Call& call) { return call.Run(call.src[1], call.result); }},
    {Op::kMul, "mul", RunMul},
    {Op::kConcat, "concat", RunConcat},
    {Op::kCrop, "crop", RunCrop},
    {Op::kActivation, "crop", RunCrop},
    {Op::kPad, "pad",
     [](const Call& call) {
       const Parameters& p = call.layer;
       return call.Run(call.result, p.padding_px, p.pad_mode, p.pad_value, call.src[0].layer);
     }},
    {Op::kAffine, "affine", [](const Call& call) { return call.Run(call.result); }},
    {Op::kSlice, "slice",
     [](const Call& call) {
       return call.Run(call.result, call.layer.first_channel, cl_int{call.result.dst.channels});
     }},
    {Op::kPixelNorm, "pixel_norm",
     [](const Call& call) {
       const Parameters& p = call.layer;
       return call.Run(call.result, cl_int{call.result.dst.channels}, p.centred, p.epsilon);
     }},
    {Op::kGroupNorm, "group_norm",
     [](const Call& call) {
       const Parameters& p = call.layer;
       const cl_int channels = call.result.dst.channels;
       return call.Run(call.src[1], call.result, channels, channels / p.groups, p.epsilon);
     }},
};

// Null for layers of other files.
const Row* FindRow(Op op) {
  const auto row = std::ranges::find(kRows, op, &Row::op);
  return row == std::end(kRows) ? nullptr : &*row;
}

class ElementwiseKernel final : public LayerKernel {
 public:
  ElementwiseKernel(const Row& row, KernelFunction function, LayerConstants constants,
                    const Layer& layer)
      : row_(row),
        function_(std::move(function)),
        constants_(std::move(constants)),
        parameters_{
            layer.factor,    layer.crop_px,       layer.padding_px, PadModeNumber(layer.pad_mode),
            layer.pad_value, layer.first_channel, layer.centred,    layer.groups,
            layer.epsilon} {}

  absl::Status Enqueue(Launcher& launcher, std::span<const Tensor> src,
                       const Tensor& dst) const override {
    return row_.run({launcher, function_, parameters_, src, {dst, constants_}});
  }

  size_t WeightBytes() const override { return constants_.bytes; }
  LaunchConfig config() const override { return {1, kItemGroup}; }

 private:
  const Row& row_;
  const KernelFunction function_;
  const LayerConstants constants_;
  const Parameters parameters_;
};

}  // namespace

bool ElementwiseSupports(const Layer& layer) {
  return FindRow(layer.op) != nullptr && !IsExactOnly(layer);
}

absl::StatusOr<std::unique_ptr<LayerKernel>> MakeElementwise(Context& context, const Layer& layer,
                                                             Precision precision,
                                                             const LaunchConfig& /*config*/) {
  const Row& row = *FindRow(layer.op);
  ASSIGN_OR_RETURN(KernelFunction function, ElementwiseFunction(context, precision, row.function));
  ASSIGN_OR_RETURN(LayerConstants constants, LayerConstants::Upload(context, layer));
  return std::make_unique<ElementwiseKernel>(row, std::move(function), std::move(constants), layer);
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
