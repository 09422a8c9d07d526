#include "engine/backends/cpu/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_kernel_set.h"
#include "engine/backends/cpu/kernels/samples.h"
#include "engine/base/status_macros.h"
#include "engine/graph/network_plan.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_geometry.h"
#include "engine/graph/weight_budget.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

// Returns the layer's index.
int AppendLayer(Program& program, const Layer& layer, std::unique_ptr<LayerKernel> kernel,
                const KernelInfo* info, bool interleaved, bool half) {
  const bool thin = layer.out_channels <= kMaxInterleavedChannels;
  program.network.layers.push_back(WithoutWeights(layer));
  program.block_px.push_back(kernel ? kernel->block_px() : 1);
  program.weight_bytes += kernel ? kernel->WeightBytes() : 0;
  program.pixel_stride.push_back(thin || interleaved ? layer.out_channels : kPlaneChannels);
  program.half.push_back(half && !thin && !interleaved);
  program.kernels.push_back(std::move(kernel));
  program.kernel_infos.push_back(info);
  return static_cast<int>(program.network.layers.size()) - 1;
}

// The layer that holds what layer `source` does as halves or as floats.
int Converted(Program& program, int source, bool half, Isa isa) {
  const std::vector<Layer>& layers = program.network.layers;
  if (program.half[source] == half || layers[source].out_channels <= kMaxInterleavedChannels) {
    return source;
  }
  const KernelInfo* info = &ConversionKernel(half);
  for (size_t i = source + 1; i < layers.size(); ++i) {
    if (program.kernel_infos[i] == info && layers[i].inputs[0] == source)
      return static_cast<int>(i);
  }
  Layer layer;
  layer.op = Op::kActivation;
  layer.name = layers[source].name;
  layer.inputs = {source};
  layer.in_channels = layer.out_channels = layers[source].out_channels;
  return AppendLayer(program, layer, info->create(layer, isa), info, false, half);
}

int AppendKernel(Program& program, Layer layer, const KernelInfo& info, Isa isa, bool interleaved) {
  const bool half = info.precision == Precision::kFast;
  for (int& input : layer.inputs) input = Converted(program, input, half, isa);
  return AppendLayer(program, layer, info.create(layer, isa), &info, interleaved, half);
}

absl::Status CheckPoolings(const Network& network, const std::vector<int>& poolings,
                           Precision precision) {
  if (precision == Precision::kExact || poolings.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the cpu backend has no precision 'fast' for global poolings, as layer '",
                   network.layers[poolings.front()].name, "'"));
}

// Appends the nodes of a plan, in order; `index_of`: layers of the source in the program's network.
absl::Status AppendNode(const Network& source, const Node& node, const CpuKernelSet& kernels,
                        Isa isa, std::vector<int>& index_of, Program& program) {
  Layer layer = AsConvolution(FusedLayer(source, node));
  for (int& input : layer.inputs) input = index_of[input];
  int& index = index_of[node.layer()];
  const auto* const info = static_cast<const KernelInfo*>(node.kernel.info);
  if (info == nullptr) {
    index = AppendLayer(program, layer, nullptr, nullptr, layer.op == Op::kInput, false);
    return absl::OkStatus();
  }
  WeightBudget budget;
  budget.Add(program.weight_bytes);
  RETURN_IF_ERROR(budget.Check(layer, kernels.PackedBytesBound(layer)));
  if (info->prelude != nullptr) {
    Layer prelude = info->prelude(layer);
    prelude.inputs = layer.inputs;
    const KernelChoice first = RankKernels(kernels, {&prelude}).front();
    layer.inputs = {
        AppendKernel(program, prelude, static_cast<const KernelInfo&>(*first.info), isa, true)};
  }
  index = AppendKernel(program, std::move(layer), *info, isa, false);
  return absl::OkStatus();
}

// Sets all that follows from the layers' kernels and connections.
void Connect(Program& program) {
  const size_t count = program.network.layers.size();
  program.margin.resize(count);
  program.consumers.resize(count);
  for (size_t i = 1; i < count; ++i) {
    if (program.kernels[i] == nullptr) continue;
    const LayerKernel& kernel = *program.kernels[i];
    program.scratch_floats = std::max(program.scratch_floats, kernel.ScratchFloats());
    const std::vector<int>& inputs = program.network.layers[i].inputs;
    Margin& margin = program.margin[inputs[0]];
    margin.left_px = std::max(margin.left_px, kernel.margin().left_px);
    margin.right_px = std::max(margin.right_px, kernel.margin().right_px);
    for (const int input : inputs) program.consumers[input].push_back(static_cast<int>(i));
  }
}

// Whether each position of the result is that of all that `layer`, no convolution, reads of this
// input.
bool KeepsPositions(const Layer& layer, int input) {
  constexpr int kFarInside = 1001, kSide = 1 << 20;
  const size_t number = input == layer.inputs[0] ? 0 : 1;
  const PixelRange read = InputRange(layer, {kFarInside, kFarInside}, kSide, number);
  return MultiplyAdds(layer, 1) == 0 && read.first == kFarInside && read.last == kFarInside;
}

// Staggers the blocks of zero-padded layers that follow each other: a reader's blocks read a pixel
// more on each side; were those here to begin at the same positions, that would be a whole block
// more on each side, and is half of one so.
void StaggerBlocks(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  program.block_origin_px.resize(layers.size());
  std::vector<bool> read_around(layers.size());  // multiples of blocks, with a border
  for (size_t i = layers.size(); i-- > 1;) {
    for (const int consumer : program.consumers[i]) {
      const bool padded = program.block_px[consumer] > 1 && layers[consumer].padding_px > 0;
      const int input = static_cast<int>(i);
      if (padded ? program.block_origin_px[consumer] == 0
                 : KeepsPositions(layers[consumer], input) && read_around[consumer]) {
        read_around[i] = true;
      }
    }
    if (read_around[i]) program.block_origin_px[i] = program.block_px[i] / 2;
  }
}

// Chooses the layers that tiles keep between the passes over an image.
void ChooseCached(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  program.poolings = ListPoolings(program.network);
  program.kept.resize(layers.size());
  std::vector<bool> gathered(layers.size());  // computed in a run before the last
  for (const int pooling : program.poolings) {
    const int pooled = layers[pooling].inputs[0];
    program.kept[pooled] = gathered[pooled] = true;
  }
  for (size_t i = layers.size() - 1; i > 0; --i) {
    if (!gathered[i] || layers[i].op == Op::kGlobalAveragePool) continue;
    if (layers[i].out_channels <= kMaxInterleavedChannels) program.kept[i] = true;
    for (const int input : layers[i].inputs) gathered[input] = true;
  }
  program.kept[0] = false;  // the source is there in every run
}

}  // namespace

absl::StatusOr<Program> BuildProgram(const Network& source, Isa isa, const KernelInfo* forced,
                                     Precision precision, KernelChooser* chooser) {
  RETURN_IF_ERROR(CheckPoolings(source, ListPoolings(source), precision));
  const CpuKernelSet kernels(isa, precision);
  ASSIGN_OR_RETURN(
      const NetworkPlan plan,
      PlanNetwork(source, kernels, forced, precision == Precision::kExact ? chooser : nullptr));
  Program program;
  program.precision = precision;
  program.sample_conversions = SampleConversionsFor(isa);
  program.network.name = source.name;
  program.network.scale = source.scale;
  program.network.pad_px = source.pad_px;
  program.network.align_px = source.align_px;
  std::vector<int> index_of(source.layers.size());
  for (const Node& node : plan.nodes) {
    RETURN_IF_ERROR(AppendNode(source, node, kernels, isa, index_of, program));
  }
  Connect(program);
  StaggerBlocks(program);
  ChooseCached(program);
  return program;
}

}  // namespace upscaled::cpu
