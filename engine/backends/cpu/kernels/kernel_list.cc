#include "engine/backends/cpu/kernels/kernel_list.h"

#include "engine/backends/cpu/baselines/naive.h"
#include "engine/backends/cpu/kernels/channel_attention.h"
#include "engine/backends/cpu/kernels/convert.h"
#include "engine/backends/cpu/kernels/depthwise.h"
#include "engine/backends/cpu/kernels/direct.h"
#include "engine/backends/cpu/kernels/direct_int16.h"
#include "engine/backends/cpu/kernels/elementwise.h"
#include "engine/backends/cpu/kernels/image_shuffle.h"
#include "engine/backends/cpu/kernels/multiply_half.h"
#include "engine/backends/cpu/kernels/pixel_norm.h"
#include "engine/backends/cpu/kernels/sample.h"
#include "engine/backends/cpu/kernels/shift_add.h"
#include "engine/backends/cpu/kernels/transposed.h"
#include "engine/backends/cpu/kernels/window_attention.h"
#include "engine/backends/cpu/kernels/winograd.h"
#include "engine/backends/cpu/kernels/winograd_int16.h"
#ifdef UPSCALED_KN2ROW
#include "engine/backends/cpu/baselines/kn2row.h"
#endif

namespace upscaled::cpu {
namespace {

constexpr unsigned kFuseSum = kFuseAdd | kFuseCrop;

constexpr KernelEntry kKernels[] = {
#ifdef UPSCALED_FP16
    {{"winograd_f4_fp16"},
     &WinogradSupports,
     &MakeWinogradF4Fp16,
     nullptr,
     Precision::kFast,
     &HasFp16},
#endif
#ifdef UPSCALED_VNNI
    {{"winograd_f4_int16"},
     &WinogradInt16Supports,
     &MakeWinogradF4Int16,
     nullptr,
     Precision::kFast,
     &HasVnni,
     &MakeCalibratedWinogradF4Int16,
     &MakeRangeObserver,
     /*stores_floats=*/true},
#endif
    {{"winograd_f6", kFuseSum}, &WinogradSupports, &MakeWinogradF6},
    {{"winograd_f4", kFuseSum}, &WinogradSupports, &MakeWinogradF4},
    {{"shift_add"}, &ShiftAddSupports, &MakeShiftAdd, &TapProducts},
#ifdef UPSCALED_VNNI
    {{"direct_int16", kFuseSum},
     &DirectInt16Supports,
     &MakeDirectInt16,
     nullptr,
     Precision::kFast,
     &HasVnni,
     &MakeCalibratedDirectInt16,
     &MakeChannelObserver},
#endif
#ifdef UPSCALED_FP16
    {{"direct_fp16"}, &DirectFp16Supports, &MakeDirectFp16, nullptr, Precision::kFast, &HasFp16},
    {{"transposed_fp16"},
     &TransposedFp16Supports,
     &MakeTransposedFp16,
     nullptr,
     Precision::kFast,
     &HasFp16},
#endif
    {{"direct", kFuseSum}, &DirectSupports, &MakeDirect},
    {{"transposed", kFuseSum}, &TransposedSupports, &MakeTransposed},
    {{"depthwise"}, &DepthwiseSupports, &MakeDepthwise},
    {{"pixel_norm"}, &PixelNormSupports, &MakePixelNorm},
    {{"window_attention"}, &WindowAttentionSupports, &MakeWindowAttention},
    {{"attention_products"}, &ChannelProductsSupports, &MakeChannelProducts},
    {{"channel_attention"}, &ChannelAttentionSupports, &MakeChannelAttention},
    {{"part_attention"}, &PartAttentionSupports, &MakePartAttention},
    {{"sample"}, &SampleSupports, &MakeSample},
    {{"grouped", kFuseSum}, &GroupedSupports, &MakeGrouped},
#ifdef UPSCALED_VNNI
    {{"multiply_half"},
     &MultiplyHalfSupports,
     &MakeMultiplyHalf,
     nullptr,
     Precision::kFast,
     &HasVnni},
#endif
    {{"image_shuffle", kFuseSum | kFuseResize}, &ImageShuffleSupports, &MakeImageShuffle},
    {{"elementwise", kFuseCrop}, &ElementwiseSupports, &MakeElementwise},
#ifdef UPSCALED_KN2ROW
    {{"kn2row", kFuseNothing, /*baseline=*/true}, &Kn2rowSupports, &MakeKn2row},
#endif
    {{"naive", kFuseNothing, /*baseline=*/true}, &NaiveSupports, &MakeNaive},
};

}  // namespace

std::span<const KernelEntry> ListKernels() { return kKernels; }

std::span<const std::string_view> ListMissingKernels() {
#ifdef UPSCALED_KN2ROW
  return {};
#else
  static constexpr std::string_view kMissing[] = {"kn2row"};
  return kMissing;
#endif
}

const KernelEntry* FindKernel(std::string_view name) {
  for (const KernelEntry& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

const KernelEntry& ConversionKernel(bool to_half) {
  static constexpr KernelEntry kToHalf = {{"to_half"}, nullptr, &MakeToHalf};
  static constexpr KernelEntry kToFloat = {{"to_float"}, nullptr, &MakeToFloat};
  return to_half ? kToHalf : kToFloat;
}

}  // namespace upscaled::cpu
