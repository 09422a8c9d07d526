#include "engine/backends/cpu/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernels/activation.h"
#include "engine/base/string_view.h"

namespace upscaled::cpu {
namespace {

void Append(Program& program, const Layer& layer, std::unique_ptr<LayerKernel> kernel,
            const KernelInfo* info, bool interleaved) {
  const bool thin = layer.out_channels <= kMaxInterleavedChannels;
  program.network.layers.push_back(WithoutWeights(layer));
  program.block_px.push_back(kernel ? kernel->block_px() : 1);
  program.pixel_stride.push_back(thin || interleaved ? layer.out_channels : kPlaneChannels);
  program.kernels.push_back(std::move(kernel));
  program.kernel_infos.push_back(info);
}

absl::Status AppendLayer(Program& program, Layer layer, Isa isa, const KernelInfo* forced) {
  if (layer.op == Op::kInput) {
    Append(program, layer, nullptr, nullptr, true);
    return absl::OkStatus();
  }
  const KernelInfo* info = ChooseKernel(layer, forced);
  if (info == nullptr) {
    return absl::UnimplementedError(absl::StrCat("the cpu backend cannot run layer '", layer.name,
                                                 "' (", ToAbsl(OpName(layer.op)), ")"));
  }
  if (info->prelude != nullptr) {
    Layer prelude = info->prelude(layer);
    prelude.inputs = layer.inputs;
    const KernelInfo* prelude_info = ChooseKernel(prelude, nullptr);
    Append(program, prelude, prelude_info->create(prelude, isa), prelude_info, true);
    layer.inputs = {static_cast<int>(program.network.layers.size()) - 1};
  }
  Append(program, layer, info->create(layer, isa), info, false);
  return absl::OkStatus();
}

// What follows from the layers' kernels and connections.
void Connect(Program& program) {
  const size_t count = program.network.layers.size();
  program.margin.resize(count);
  program.consumers.resize(count);
  for (size_t i = 1; i < count; ++i) {
    const LayerKernel& kernel = *program.kernels[i];
    program.scratch_floats = std::max(program.scratch_floats, kernel.ScratchFloats());
    program.weight_bytes += kernel.WeightBytes();
    for (const int input : program.network.layers[i].inputs) {
      Margin& margin = program.margin[input];
      margin.left_px = std::max(margin.left_px, kernel.margin().left_px);
      margin.right_px = std::max(margin.right_px, kernel.margin().right_px);
      program.consumers[input].push_back(static_cast<int>(i));
    }
  }
}

}  // namespace

absl::StatusOr<Program> BuildProgram(const Network& source, Isa isa, const KernelInfo* forced) {
  Program program;
  program.network.name = source.name;
  program.network.scale = source.scale;
  program.network.pad_px = source.pad_px;
  program.network.align_px = source.align_px;
  std::vector<int> index_of(source.layers.size());  // in program.network
  for (size_t i = 0; i < source.layers.size(); ++i) {
    Layer layer = source.layers[i];
    for (int& input : layer.inputs) input = index_of[input];
    if (absl::Status status = AppendLayer(program, std::move(layer), isa, forced); !status.ok()) {
      return status;
    }
    index_of[i] = static_cast<int>(program.network.layers.size()) - 1;
  }
  Connect(program);
  return program;
}

}  // namespace upscaled::cpu
