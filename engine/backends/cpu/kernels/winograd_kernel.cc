#include "engine/backends/cpu/kernels/winograd_kernel.h"

#include <algorithm>
#include <utility>

namespace upscaled::cpu {
namespace {

int PlaneChannels(const WinogradVariant& variant) {
  return variant.half ? kHalfPlaneChannels : kPlaneChannels;
}

}  // namespace

WinogradKernel::WinogradKernel(const Layer& layer, int outputs, const WinogradVariant& variant,
                               size_t cache_bytes, WinogradWeights weights)
    : outputs_(outputs),
      variant_(variant),
      cache_bytes_(cache_bytes),
      padding_px_(layer.padding_px),
      crop_px_(layer.crop_px),
      src_planes_(CeilDiv(layer.in_channels, PlaneChannels(variant))),
      src_channels_(RoundUp(layer.in_channels, variant.in_multiple)),
      dst_channels_(RoundUp(layer.out_channels, variant.out_multiple)),
      epilogue_(layer, RoundUp(dst_channels_, variant.out_channels)),
      weights_(std::move(weights)) {}

void WinogradKernel::Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
                         float* scratch) const {
  WinogradArgs args{};
  args.src_plane_stride = src[0].plane_stride;
  args.src_planes = src_planes_;
  args.src_channels = src_channels_;
  args.prefetch_src = SrcBytes(rows.width) > cache_bytes_ / 3;
  args.dst_plane_stride = dst.plane_stride;
  args.residual_plane_stride = src.size() > 1 ? src[1].plane_stride : 0;
  args.dst_channels = dst_channels_;
  args.dst_half = dst.half;
  args.dst_first_px = std::max(-rows.x, 0);
  args.dst_end_px = rows.width;
  args.weights = weights_.values.data();
  args.src_scale = weights_.src_scale.data();
  args.dst_scale = weights_.dst_scale.data();
  args.epilogue = epilogue_.args();
  args.scratch = scratch;
  for (int y = rows.y; y < rows.bottom(); y += outputs_) {
    args.dst_first_row = std::max(-y, 0);
    args.dst_end_row = std::min(outputs_, rows.bottom() - y);
    for (int i = 0; i < outputs_ + 2; ++i) {
      args.src_rows[i] = src[0].At(y - padding_px_ + i, rows.x - padding_px_);
    }
    for (int i = 0; i < outputs_; ++i) {
      args.dst_rows[i] = dst.At(y + i, rows.x);
      if (src.size() > 1) args.residual_rows[i] = src[1].At(y + i + crop_px_, rows.x + crop_px_);
    }
    variant_.run(args);
  }
}

}  // namespace upscaled::cpu
