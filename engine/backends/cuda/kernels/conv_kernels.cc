#include "engine/backends/cuda/kernels/conv_kernels.h"

#include "engine/backends/cuda/kernels/conv_choice.h"
#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/backends/cuda/kernels/ws_variant.h"

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

// The kinds of results of conv3x3_ws are kernels of their own: each has to prove itself.
const WsVariant* FindWs(const FusedConv& layers, WsResult result, const DeviceLimits& device,
                        bool adds = false) {
  const WsVariant* const variant = FindWsVariant(ShapeOf(layers), adds, device);
  return variant != nullptr && variant->result == result ? variant : nullptr;
}

template <WsResult kResult>
constexpr ConvKernel WsKernel(std::string_view name, unsigned fuses, bool adds_sums) {
  return {
      {name, fuses},
      [](const FusedConv& layers, Precision precision, const DeviceLimits& device) {
        return IsForTensorCores(layers, precision) &&
               ActivationOf(layers).kind <= ActivationKind::kSloped &&
               FindWs(layers, kResult, device) != nullptr;
      },
      [](const FusedConv& layers, Precision, const DeviceLimits& device) {
        return PackConv3x3Ws(layers, *FindWs(layers, kResult, device));
      },
      [](const ConvParams& params, Precision, const DeviceLimits& device, cudaStream_t stream) {
        return LaunchConv3x3Ws(params, device, stream);
      },
      adds_sums,
      kResult == WsResult::kThin
          ? nullptr
          : +[](const FusedConv& layers,
                const DeviceLimits&
                    device) { return FindWs(layers, kResult, device, /*adds=*/true) != nullptr; },
      [](const FusedConv& layers, const DeviceLimits& device) {
        return FindWs(layers, kResult, device)->pixels;
      },
      /*seen=*/false};
}
constexpr ConvKernel kConv3x3Ws =
    WsKernel<WsResult::kPlanes>("conv3x3_ws", kFuseAdd | kFuseCrop, /*adds_sums=*/true);
constexpr ConvKernel kThinWs = WsKernel<WsResult::kThin>("thin_ws", kFuseAll, /*adds_sums=*/false);
constexpr ConvKernel kEnlargeWs =
    WsKernel<WsResult::kEnlarged>("enlarge_ws", kFuseAdd | kFuseCrop, /*adds_sums=*/false);

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

constexpr ConvKernel kKernels[] = {kThinWs,       kColumnsMma, kConv3x3Ws, kEnlargeWs,
                                   kConv3x3Wgmma, kConv3x3Mma, kIm2colMma, kIm2colFfma};

}  // namespace

std::span<const ConvKernel> ListConvKernels() { return kKernels; }

}  // namespace upscaled::cuda
