// Every kernel of this backend, best first. Plans, tests and benches read the same list.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/backends/cpu/kernels/int16_scales.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/graph/kernel_set.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::cpu {

// Kernels that fuse an addition add a second input to the activated result: a blocked tensor, or an
// image where the result is one. For a layer without its weights `create` makes a kernel with the
// same properties except these: it can be planned with and takes no time to pack, but cannot run.
struct KernelEntry : KernelInfo {
  bool (*supports)(const Layer& layer);
  std::unique_ptr<LayerKernel> (*create)(const Layer& layer, Isa isa);
  // Not null: the kernel computes `layer` from the result of this layer, which takes its inputs.
  // The result is interleaved.
  Layer (*prelude)(const Layer& layer) = nullptr;
  // kFast: for this precision only; blocked tensors are of halves.
  Precision precision = Precision::kExact;
  bool (*has)(Isa isa) = nullptr;  // null: any has it
  // Not null: the kernel is better made so, for inputs like those that `observer` saw: a kernel of
  // the layer in fp32 that raises the ranges to those of what it reads.
  std::unique_ptr<LayerKernel> (*calibrated)(const Layer& layer,
                                             const InputRanges& ranges) = nullptr;
  std::unique_ptr<LayerKernel> (*observer)(const Layer& layer, std::unique_ptr<LayerKernel> kernel,
                                           InputRanges& ranges) = nullptr;
  // With kFast: whether it can store floats, in one plane, instead of halves, as `dst.half` says.
  bool stores_floats = false;

  bool RunsOn(Isa isa) const { return has == nullptr || has(isa); }
};

std::span<const KernelEntry> ListKernels();

// Names of kernels missing in this build for want of a library.
std::span<const std::string_view> ListMissingKernels();

// null: no such kernel.
const KernelEntry* FindKernel(std::string_view name);

// The kernels from a blocked tensor of floats to halves, and back; not for networks' layers.
const KernelEntry& ConversionKernel(bool to_half);

}  // namespace upscaled::cpu
