#include "engine/backends/cpu/kernels/kernel_list.h"

#include "engine/backends/cpu/kernels/direct.h"
#include "engine/backends/cpu/kernels/elementwise.h"
#include "engine/backends/cpu/kernels/tap_sum.h"
#include "engine/backends/cpu/kernels/transposed.h"
#include "engine/backends/cpu/kernels/winograd.h"

namespace upscaled::cpu {
namespace {

// Kernels of plain code are the same on every instruction set.
template <std::unique_ptr<LayerKernel> (*kMake)(const Layer&)>
std::unique_ptr<LayerKernel> ForAnyIsa(const Layer& layer, Isa /*isa*/) {
  return kMake(layer);
}

constexpr KernelInfo kKernels[] = {
    {"winograd_f6", &WinogradSupports, &MakeWinogradF6},
    {"winograd_f4", &WinogradSupports, &MakeWinogradF4},
    {"tap_sum", &TapSumSupports, &ForAnyIsa<&MakeTapSum>, &TapProducts},
    {"direct", &DirectSupports, &MakeDirect},
    {"transposed", &TransposedSupports, &MakeTransposed},
    {"elementwise", &ElementwiseSupports, &ForAnyIsa<&MakeElementwise>},
};

}  // namespace

std::span<const KernelInfo> ListKernels() { return kKernels; }

const KernelInfo* FindKernel(std::string_view name) {
  for (const KernelInfo& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

const KernelInfo* ChooseKernel(const Layer& layer, const KernelInfo* forced) {
  if (forced != nullptr && forced->supports(layer)) return forced;
  for (const KernelInfo& kernel : kKernels) {
    if (kernel.supports(layer)) return &kernel;
  }
  return nullptr;
}

}  // namespace upscaled::cpu
