#include "engine/backends/opencl/conv.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/layer_constants.h"
#include "engine/backends/opencl/pack_weights.h"
#include "engine/backends/opencl/sources.h"
#include "engine/model/grouped_conv.h"

namespace upscaled::opencl {
namespace {

// The families differ in their function, in how weights are packed and in what a work-item covers.
struct Family {
  const char* function;
  std::vector<float> (*pack)(const Layer& layer);
  int block_px;       // the layer's: 4 where work-items compute whole blocks
  bool any_geometry;  // takes kernel size and stride
};

constexpr Family kWinograd{"winograd_row4", &PackWinogradRow4, 4, false};
constexpr Family kConv3x3{"conv3x3", &PackDirect, 1, false};
constexpr Family kConv{"conv", &PackDirect, 1, true};
constexpr Family kDepthwise{"depthwise", &PackDepthwise, 1, true};
constexpr Family kGrouped{"conv", &PackGrouped, 1, true};
constexpr Family kTransposed{"transposed", &PackDirect, 1, true};

size_t DivideUp(int value, int divisor) {
  return (static_cast<size_t>(value) + divisor - 1) / divisor;
}

class ConvKernel final : public LayerKernel {
 public:
  static MadeKernel Create(const Family& family, const cl::Program& program, Context& context,
                           const Layer& layer, const LaunchConfig& config) {
    auto kernel = std::make_unique<ConvKernel>(family, layer, config);
    kernel->function_ = {program, family.function};
    const std::vector<float> packed = family.pack(layer);
    kernel->weight_bytes_ = packed.size() * sizeof(float);
    ASSIGN_OR_RETURN(kernel->weights_, UploadFloats(context, packed));
    ASSIGN_OR_RETURN(kernel->constants_, LayerConstants::Upload(context, layer));
    return kernel;
  }

  ConvKernel(const Family& family, const Layer& layer, const LaunchConfig& config)
      : family_(family),
        config_(config),
        padding_(layer.padding_px),
        kernel_px_(layer.kernel_px),
        stride_(layer.stride_px),
        transposed_(layer.op == Op::kConvTranspose) {}

  absl::Status Enqueue(Launcher& launcher, std::span<const Tensor> src,
                       const Tensor& dst) const override {
    const WorkSize items = {ItemsAlongX(dst.region), static_cast<size_t>(dst.region.height),
                            static_cast<size_t>(dst.planes())};
    const ResultArguments result{dst, constants_};
    if (!family_.any_geometry) {
      return launcher.Launch(function_, items, config_.group, src[0], src[0].planes(), weights_,
                             result, padding_);
    }
    return launcher.Launch(function_, items, config_.group, src[0], src[0].planes(), weights_,
                           result, padding_, kernel_px_, stride_);
  }

  int block_px() const override { return family_.block_px; }
  size_t WeightBytes() const override { return weight_bytes_ + constants_.bytes; }
  LaunchConfig config() const override { return config_; }

 private:
  size_t ItemsAlongX(const Rect& region) const {
    if (!transposed_) return DivideUp(region.width, config_.pixels);
    return DivideUp(region.width, config_.pixels * stride_) * stride_;
  }

  const Family& family_;
  const LaunchConfig config_;
  const cl_int padding_, kernel_px_, stride_;
  const bool transposed_;
  KernelFunction function_;
  cl::Buffer weights_;
  size_t weight_bytes_ = 0;
  LayerConstants constants_;
};

MadeKernel MakeDirect(const Family& family, Context& context, const Layer& layer,
                      Precision precision, const LaunchConfig& config) {
  ASSIGN_OR_RETURN(const cl::Program program,
                   context.programs.Get(kConvSource, absl::StrCat("-DPIXELS=", config.pixels, " ",
                                                                  StorageOption(precision))));
  return ConvKernel::Create(family, program, context, layer, config);
}

}  // namespace

bool Conv3x3Supports(const Layer& layer) {
  return layer.op == Op::kConv && layer.kernel_px == 3 && layer.stride_px == 1;
}
bool WinogradSupports(const Layer& layer) { return Conv3x3Supports(layer); }
bool ConvSupports(const Layer& layer) {
  return layer.op == Op::kConv || layer.op == Op::kFullyConnected;
}
bool DepthwiseSupports(const Layer& layer) { return IsDepthwise(layer); }
bool GroupedSupports(const Layer& layer) { return layer.op == Op::kGroupedConv; }
bool TransposedSupports(const Layer& layer) { return layer.op == Op::kConvTranspose; }

MadeKernel MakeWinograd(Context& context, const Layer& layer, Precision precision,
                        const LaunchConfig& config) {
  ASSIGN_OR_RETURN(const cl::Program program,
                   context.programs.Get(kWinogradSource, StorageOption(precision)));
  return ConvKernel::Create(kWinograd, program, context, layer, config);
}

MadeKernel MakeConv3x3(Context& context, const Layer& layer, Precision precision,
                       const LaunchConfig& config) {
  return MakeDirect(kConv3x3, context, layer, precision, config);
}

MadeKernel MakeConv(Context& context, const Layer& layer, Precision precision,
                    const LaunchConfig& config) {
  return MakeDirect(kConv, context, layer, precision, config);
}

MadeKernel MakeDepthwise(Context& context, const Layer& layer, Precision precision,
                         const LaunchConfig& config) {
  return MakeDirect(kDepthwise, context, layer, precision, config);
}

MadeKernel MakeGrouped(Context& context, const Layer& layer, Precision precision,
                       const LaunchConfig& config) {
  return MakeDirect(kGrouped, context, layer, precision, config);
}

MadeKernel MakeTransposed(Context& context, const Layer& layer, Precision precision,
                          const LaunchConfig& config) {
  return MakeDirect(kTransposed, context, layer, precision, config);
}

}  // namespace upscaled::opencl
