#include "engine/backends/cpu/cpu_kernel_set.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel_candidate.h"
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/depthwise.h"
#include "engine/backends/cpu/kernels/window_attention.h"
#include "engine/base/cpu_info.h"
#include "engine/base/int_math.h"
#include "engine/base/string_view.h"

namespace upscaled::cpu {

std::string DeviceName(Isa isa) {
  return absl::StrCat("cpu, ", CpuModelName(), ", ", ToAbsl(IsaName(isa)));
}

Layer AsConvolution(Layer layer) {
  if (layer.op != Op::kFullyConnected) return layer;
  layer.op = Op::kConv;
  layer.kernel_px = layer.stride_px = 1;
  layer.padding_px = 0;
  return layer;
}

std::vector<const KernelInfo*> CpuKernelSet::List() const {
  std::vector<const KernelInfo*> list;
  for (const KernelEntry& info : ListKernels()) list.push_back(&info);
  return list;
}

bool CpuKernelSet::Supports(const KernelInfo& kernel, const FusedLayers& layers) const {
  const auto& own = static_cast<const KernelEntry&>(kernel);
  if (own.precision == Precision::kFast && precision_ != Precision::kFast) return false;
  // They cost nothing, and all pixels depend on them.
  if (own.precision == Precision::kFast && layers.per_image) return false;
  if (!own.RunsOn(isa_)) return false;
  return layers.main->op == Op::kFullyConnected ? own.supports(AsConvolution(*layers.main))
                                                : own.supports(*layers.main);
}

// Results that are images are interleaved: no convolution adds to them, nor do shuffles with an
// activation.
unsigned CpuKernelSet::Fuses(const KernelInfo& kernel, const Layer& main) const {
  if (main.op == Op::kAdd) return kernel.fuses;
  const bool thin = main.out_channels <= kMaxInterleavedChannels;
  const bool shuffles = main.op == Op::kPixelShuffle && main.activation == Activation::kNone;
  return thin && !shuffles ? kFuseNothing : kernel.fuses;
}

// Channels padded to the kernels' groups, 3x3 kernels transformed to 8x8 points, transposed ones
// split into phases of equal size, groups filled up with zeros.
size_t CpuKernelSet::PackedBytesBound(const Layer& layer) const {
  if (layer.weights.empty()) return 0;
  if (DepthwiseSupports(layer)) {
    return (layer.weights.size() + size_t{1} * kPlaneChannels * layer.kernel_px * layer.kernel_px) *
           sizeof(float);
  }
  if (WindowAttentionSupports(layer)) {
    // Rows of one bias for each query, up to whole planes.
    const size_t queries = size_t{1} * layer.window_x.window_px * layer.window_y.window_px;
    return (layer.weights.size() + layer.weights.size() / queries * (kPlaneChannels - 1)) *
           sizeof(float);
  }
  constexpr int kMaxOutGroup = 48;
  const int phases = layer.op == Op::kConvTranspose ? layer.stride_px : 1;
  const size_t side = layer.kernel_px == 3 ? 8 : RoundUp(layer.kernel_px, phases);
  return side * side * RoundUp(layer.in_channels, kPlaneChannels) *
         (layer.out_channels + kMaxOutGroup) * sizeof(float);
}

const KernelEntry& CpuKernelSet::PreludeKernel(const Layer& prelude) const {
  return static_cast<const KernelEntry&>(*RankKernels(*this, {&prelude}).front().info);
}

std::unique_ptr<LayerCandidate> CpuKernelSet::Try(const Layer& layer, const KernelChoice& choice,
                                                  Size input) const {
  return std::make_unique<KernelCandidate>(layer, static_cast<const KernelEntry&>(*choice.info),
                                           isa_, input);
}

}  // namespace upscaled::cpu
