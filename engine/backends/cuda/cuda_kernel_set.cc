#include "engine/backends/cuda/cuda_kernel_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/kernel_candidate.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/backends/cuda/kernels/elementwise_layer.h"
#include "engine/backends/cuda/kernels/input_channels.h"
#include "engine/backends/cuda/kernels/pack_weights.h"

namespace upscaled::cuda {
namespace {

constexpr KernelInfo kFirstConv{"first_conv", kFuseImage};
constexpr KernelInfo kElementwise{"elementwise"};

}  // namespace

std::string CudaKernelSet::device() const {
  const Device& device = context_->device();
  return absl::StrCat("cuda, ", device.model, ", driver of CUDA ", device.driver / 1000, ".",
                      device.driver % 1000 / 10);
}

std::vector<const KernelInfo*> CudaKernelSet::List() const {
  std::vector<const KernelInfo*> list = {&kFirstConv};
  for (const ConvKernel& kernel : ListConvKernels()) list.push_back(&kernel);
  list.push_back(&kElementwise);
  return list;
}

bool CudaKernelSet::Supports(const KernelInfo& kernel, const FusedLayers& layers) const {
  if (&kernel == &kFirstConv) return FirstConvSupports(*layers.main);
  if (&kernel == &kElementwise) return ElementwiseSupports(*layers.main);
  const auto& conv = static_cast<const ConvKernel&>(kernel);
  return (conv.seen || context_->Allows(conv.name)) &&
         conv.supports({layers.main, layers.shuffle}, precision_, context_->device().limits);
}

unsigned CudaKernelSet::Fuses(const KernelInfo& kernel, const Layer& main) const {
  if (&kernel == &kFirstConv || &kernel == &kElementwise) return kernel.fuses;
  const auto& conv = static_cast<const ConvKernel&>(kernel);
  const bool adds =
      conv.adds_residual == nullptr || conv.adds_residual({&main}, context_->device().limits);
  const bool gates = precision_ == Precision::kFast && context_->Allows(kFoldedGates) &&
                     (main.op == Op::kConv || main.op == Op::kConvTranspose) &&
                     main.in_channels <= kMaxGatedChannels;
  return (adds ? kernel.fuses : kernel.fuses & ~kFuseSum) | (gates ? kFuseGate : kFuseNothing);
}

// Filled up channels aside; groups are filled up with zeros.
size_t CudaKernelSet::PackedBytesBound(const Layer& layer) const {
  return 4 * layer.weights.size() * layer.groups * sizeof(float);
}

std::unique_ptr<LayerCandidate> CudaKernelSet::Try(const Layer& layer, const KernelChoice& choice,
                                                   Size input) const {
  return std::make_unique<KernelCandidate>(context_, layer, precision_,
                                           static_cast<const ConvKernel&>(*choice.info), input);
}

Size CudaKernelSet::TimedOutput(const Layer& layer) const {
  const int factor = layer.op == Op::kConv ? layer.stride_px : 1;
  return {std::max(640 / factor, 1), std::max(360 / factor, 1)};
}

Size CudaKernelSet::CheckedOutput(const Layer& layer) const {
  const int side = 35 * (layer.op == Op::kConvTranspose ? layer.stride_px : 1);
  return {side, side};
}

}  // namespace upscaled::cuda
