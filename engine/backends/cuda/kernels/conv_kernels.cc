#include "engine/backends/cuda/kernels/conv_kernels.h"

#include "engine/backends/cuda/kernels/conv_choice.h"
#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/pack_weights.h"

namespace upscaled::cuda {
namespace {

// Tensor cores multiply halves. Fully connected layers, of one pixel, are left to fp32.
bool IsForTensorCores(const FusedConv& layers, Precision precision) {
  return precision == Precision::kFast && IsFusable(layers) &&
         layers.conv->op != Op::kFullyConnected;
}

constexpr unsigned kFuseAll = kFuseSum | kFuseShuffle;

constexpr ConvKernel kConv3x3Wgmma = {
    {"conv3x3_wgmma", kFuseAll},
    [](const FusedConv& layers, Precision precision, const DeviceLimits& device) {
      return IsForTensorCores(layers, precision) &&
             Conv3x3WgmmaColumns(ShapeOf(layers), device) > 0;
    },
    [](const FusedConv& layers, Precision, const DeviceLimits&) {
      return PackConv3x3Wgmma(layers);
    },
    [](const ConvParams& params, Precision, const DeviceLimits& device, cudaStream_t stream) {
      return LaunchConv3x3Wgmma(params, device, stream);
    },
    /*adds_sums=*/true};

// Shuffled results and samples are left to the others, as is the sum with a tensor of lower
// resolution.
constexpr ConvKernel kConv3x3Ws = {
    {"conv3x3_ws", kFuseAdd | kFuseCrop},
    [](const FusedConv& layers, Precision precision, const DeviceLimits& device) {
      return IsForTensorCores(layers, precision) && layers.shuffle == nullptr &&
             ActivationOf(layers).kind <= ActivationKind::kSloped &&
             Conv3x3WsColumns(ShapeOf(layers), device) > 0;
    },
    [](const FusedConv& layers, Precision, const DeviceLimits& device) {
      return PackConv3x3Ws(layers, Conv3x3WsColumns(ShapeOf(layers), device));
    },
    [](const ConvParams& params, Precision, const DeviceLimits& device, cudaStream_t stream) {
      return LaunchConv3x3Ws(params, device, stream);
    },
    /*adds_sums=*/false,
    [](const FusedConv& layers, const DeviceLimits& device) {
      return Conv3x3WsAdds(ShapeOf(layers), device);
    },
    [](const FusedConv& layers, const DeviceLimits& device) {
      return Conv3x3WsBlock(ShapeOf(layers), device);
    },
    /*seen=*/false};

constexpr ConvKernel kConv3x3Mma = {
    {"conv3x3_mma", kFuseAll},
    [](const FusedConv& layers, Precision precision, const DeviceLimits& device) {
      return IsForTensorCores(layers, precision) && Conv3x3MmaColumns(ShapeOf(layers), device) > 0;
    },
    [](const FusedConv& layers, Precision, const DeviceLimits& device) {
      return PackConv3x3Mma(layers, Conv3x3MmaColumns(ShapeOf(layers), device));
    },
    [](const ConvParams& params, Precision, const DeviceLimits& device, cudaStream_t stream) {
      return LaunchConv3x3Mma(params, Conv3x3MmaColumns(params.shape, device), device, stream);
    },
    /*adds_sums=*/true};

constexpr ConvKernel kColumnsMma = {
    {"columns_mma", kFuseSum},
    [](const FusedConv& layers, Precision precision, const DeviceLimits& device) {
      return IsForTensorCores(layers, precision) && layers.shuffle == nullptr &&
             ColumnsMmaColumns(ShapeOf(layers), device) > 0;
    },
    [](const FusedConv& layers, Precision, const DeviceLimits& device) {
      return PackColumnsMma(layers, ColumnsMmaColumns(ShapeOf(layers), device));
    },
    [](const ConvParams& params, Precision, const DeviceLimits& device, cudaStream_t stream) {
      return LaunchColumnsMma(params, ColumnsMmaColumns(params.shape, device), stream);
    }};

constexpr ConvKernel kIm2colMma = {
    {"im2col_mma", kFuseAll},
    [](const FusedConv& layers, Precision precision, const DeviceLimits& device) {
      return IsForTensorCores(layers, precision) && Im2colMmaColumns(ShapeOf(layers), device) > 0;
    },
    [](const FusedConv& layers, Precision, const DeviceLimits& device) {
      return PackIm2colMma(layers, Im2colMmaColumns(ShapeOf(layers), device));
    },
    [](const ConvParams& params, Precision, const DeviceLimits& device, cudaStream_t stream) {
      return LaunchIm2colMma(params, Im2colMmaColumns(params.shape, device), stream);
    },
    /*adds_sums=*/true};

constexpr ConvKernel kIm2colFfma = {
    {"im2col_ffma", kFuseAll},
    [](const FusedConv& layers, Precision, const DeviceLimits&) { return IsFusable(layers); },
    [](const FusedConv& layers, Precision, const DeviceLimits&) {
      return PackIm2colFfma(layers, Im2colFfmaColumns(ShapeOf(layers)));
    },
    [](const ConvParams& params, Precision precision, const DeviceLimits&, cudaStream_t stream) {
      return LaunchIm2colFfma(params, Im2colFfmaColumns(params.shape), precision, stream);
    }};

constexpr ConvKernel kKernels[] = {kColumnsMma, kConv3x3Ws, kConv3x3Wgmma,
                                   kConv3x3Mma, kIm2colMma, kIm2colFfma};

}  // namespace

std::span<const ConvKernel> ListConvKernels() { return kKernels; }

}  // namespace upscaled::cuda
