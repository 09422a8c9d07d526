#include "engine/backends/cpu/program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_kernel_set.h"
#include "engine/backends/cpu/kernels/samples.h"
#include "engine/base/status_macros.h"
#include "engine/graph/network_plan.h"
#include "engine/graph/pooling.h"
#include "engine/graph/weight_budget.h"
#include "engine/model/op.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

// Returns the layer's index.
int AppendLayer(Program& program, const Layer& layer, std::unique_ptr<LayerKernel> kernel,
                const KernelEntry* info, bool interleaved, bool half) {
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
  const KernelEntry* info = &ConversionKernel(half);
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

// `ranges`: what the layer reads, if known. Factors of one pixel stay floats.
int AppendKernel(Program& program, Layer layer, const KernelEntry& info, Isa isa, bool interleaved,
                 const InputRanges* ranges) {
  const bool half = info.precision == Precision::kFast;
  for (size_t n = 0; n < layer.inputs.size(); ++n) {
    int& input = layer.inputs[n];
    const bool factors = layer.op == Op::kMul && n > 0 && FindSinglePixels(program.network)[input];
    if (!factors) input = Converted(program, input, half, isa);
  }
  auto kernel = info.calibrated != nullptr && ranges != nullptr ? info.calibrated(layer, *ranges)
                                                                : info.create(layer, isa);
  return AppendLayer(program, layer, std::move(kernel), &info, interleaved, half);
}

// Appends the nodes of a plan, in order.
class NodeAppender {
 public:
  NodeAppender(const Network& source, const CpuKernelSet& kernels, Isa isa,
               const Calibration& calibration, Program& program)
      : source_(source),
        kernels_(kernels),
        isa_(isa),
        calibration_(calibration),
        program_(program) {
    program_.index_of.assign(source.layers.size(), -1);
  }

  absl::Status Append(const Node& node) {
    Layer layer = AsConvolution(FusedLayer(source_, node));
    for (int& input : layer.inputs) input = program_.index_of[input];
    int& index = program_.index_of[node.layer()];
    const auto* const info = static_cast<const KernelEntry*>(node.kernel.info);
    if (info == nullptr) {
      index = AppendLayer(program_, layer, nullptr, nullptr, layer.op == Op::kInput, false);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(budget_.Check(layer, kernels_.PackedBytesBound(layer)));
    const auto found = calibration_.find(node.layer());
    const InputRanges* const ranges = found != calibration_.end() ? &found->second : nullptr;
    if (info->prelude != nullptr) {
      layer.inputs = {AppendPrelude(info->prelude(layer), layer, ranges)};
    }
    index = AppendKernel(program_, layer, *info, isa_, false, ranges);
    return budget_.Add(layer, program_.weight_bytes - budget_.bytes());
  }

 private:
  int AppendPrelude(Layer prelude, const Layer& layer, const InputRanges* ranges) {
    prelude.inputs = layer.inputs;
    const KernelEntry& kernel = kernels_.PreludeKernel(prelude);
    return AppendKernel(program_, std::move(prelude), kernel, isa_, true, ranges);
  }

  const Network& source_;
  const CpuKernelSet& kernels_;
  const Isa isa_;
  const Calibration& calibration_;
  Program& program_;
  WeightBudget budget_;
};

// Chooses the products that become views, and gives their readers scratch for factors.
void ChooseScaledViews(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  const std::vector<bool> single_pixels = FindSinglePixels(program.network);
  program.scaled_view.resize(layers.size());
  for (size_t i = 1; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const bool scales = layer.op == Op::kMul && layer.activation == Activation::kNone &&
                        layer.out_channels > kMaxInterleavedChannels &&
                        single_pixels[layer.inputs[1]];
    if (!scales || program.scaled_view[layer.inputs[0]] || program.consumers[i].empty()) continue;
    size_t scratch_floats = 0;
    const bool all_can = std::ranges::all_of(program.consumers[i], [&](int consumer) {
      const LayerKernel* kernel = program.kernels[consumer].get();
      const std::optional<size_t> floats =
          kernel == nullptr ? std::nullopt : kernel->FactorScratchFloats();
      scratch_floats = std::max(scratch_floats, floats.value_or(0));
      return floats.has_value();
    });
    if (!all_can) continue;
    program.scaled_view[i] = true;
    program.kernels[i].reset();
    program.scratch_floats = std::max(program.scratch_floats, scratch_floats);
    Margin& margin = program.margin[layer.inputs[0]];
    margin.left_px = std::max(margin.left_px, program.margin[i].left_px);
    margin.right_px = std::max(margin.right_px, program.margin[i].right_px);
  }
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

// Whether each position of the result is that of all that `layer` reads of this input.
bool KeepsPositions(const Layer& layer, int input) {
  return input == layer.inputs[0] ? OperationOf(layer.op).pointwise : layer.crop_px == 0;
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
  program.cached.resize(layers.size());
  std::vector<bool> gathered(layers.size());  // computed in a pass before the last
  for (const int pooling : program.poolings) {
    const int pooled = layers[pooling].inputs[0];
    program.cached[pooled] = gathered[pooled] = true;
  }
  for (size_t i = layers.size() - 1; i > 0; --i) {
    if (!gathered[i] || layers[i].op == Op::kGlobalAveragePool) continue;
    if (layers[i].out_channels <= kMaxInterleavedChannels) program.cached[i] = true;
    for (const int input : layers[i].inputs) gathered[input] = true;
  }
  program.cached[0] = false;  // the source is there in every pass
}

}  // namespace

absl::StatusOr<Program> BuildProgram(const Network& source, Isa isa, const KernelEntry* forced,
                                     Precision precision, KernelChooser* chooser,
                                     const Calibration& calibration) {
  const CpuKernelSet kernels(isa, precision);
  ASSIGN_OR_RETURN(
      const NetworkPlan plan,
      PlanNetwork(source, kernels, forced, precision == Precision::kExact ? chooser : nullptr));
  Program program;
  program.precision = precision;
  program.sample_conversions = SampleConversionsFor(isa);
  program.pooled_sums = PooledSumsFor(isa);
  program.curve = CurveFunctionFor(isa);
  program.network.name = source.name;
  program.network.scale = source.scale;
  program.network.pad_px = source.pad_px;
  program.network.align_px = source.align_px;
  NodeAppender appender(source, kernels, isa, calibration, program);
  for (const Node& node : plan.nodes) RETURN_IF_ERROR(appender.Append(node));
  Connect(program);
  ChooseScaledViews(program);
  StaggerBlocks(program);
  ChooseCached(program);
  return program;
}

}  // namespace upscaled::cpu
