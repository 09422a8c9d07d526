#include "engine/backends/cpu/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_kernel_set.h"
#include "engine/backends/cpu/kernels/samples.h"
#include "engine/backends/cpu/program_passes.h"
#include "engine/base/status_macros.h"
#include "engine/graph/network_plan.h"
#include "engine/graph/weight_budget.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

// Returns the layer's index.
int AppendLayer(Program& program, const Layer& layer, std::unique_ptr<LayerKernel> kernel,
                const KernelEntry* info, bool interleaved, bool half) {
  const bool thin = layer.out_channels <= kMaxInterleavedChannels;
  program.network.layers.push_back(WithoutWeights(layer));
  program.weight_bytes += kernel ? kernel->WeightBytes() : 0;
  const int index = static_cast<int>(program.steps.size());
  program.steps.push_back({
      .kernel_entry = info,
      .block_px = kernel ? kernel->block_px() : 1,
      .pixel_stride = thin || interleaved ? layer.out_channels : kPlaneChannels,
      .half = half && !thin && !interleaved,
      .home = index,
  });
  program.steps.back().kernel = std::move(kernel);
  return index;
}

bool IsRead(const Program& program, int layer) {
  const std::vector<Layer>& layers = program.network.layers;
  return std::any_of(layers.begin() + layer + 1, layers.end(), [&](const Layer& reader) {
    return std::find(reader.inputs.begin(), reader.inputs.end(), layer) != reader.inputs.end();
  });
}

// The layer that holds what layer `source` does as halves or as floats.
int Converted(Program& program, int source, bool half, Isa isa) {
  const std::vector<Layer>& layers = program.network.layers;
  if (program.steps[source].half == half ||
      layers[source].out_channels <= kMaxInterleavedChannels) {
    return source;
  }
  // In one plane they take no more room. A later reader of halves converts.
  const bool one_plane = layers[source].out_channels <= kPlaneChannels;
  if (!half && one_plane && program.steps[source].kernel_entry->stores_floats &&
      !IsRead(program, source)) {
    program.steps[source].half = false;
    return source;
  }
  const KernelEntry* info = &ConversionKernel(half);
  for (size_t i = source + 1; i < layers.size(); ++i) {
    if (program.steps[i].kernel_entry == info && layers[i].inputs[0] == source)
      return static_cast<int>(i);
  }
  Layer layer;
  layer.op = Op::kActivation;
  layer.name = layers[source].name;
  layer.inputs = {source};
  layer.in_channels = layer.out_channels = layers[source].out_channels;
  return AppendLayer(program, layer, info->create(layer, isa), info, false, half);
}

// `ranges`: the layer's inputs, if known. Factors for the whole image stay floats.
int AppendKernel(Program& program, Layer layer, const KernelEntry& info, Isa isa, bool interleaved,
                 const InputRanges* ranges) {
  const bool half = info.precision == Precision::kFast;
  for (size_t n = 0; n < layer.inputs.size(); ++n) {
    int& input = layer.inputs[n];
    const bool factors = layer.op == Op::kMul && n > 0 && IsPerImage(program.network)[input];
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
    if (layer.op == Op::kConcat) TakeJoinedParts(node.layer(), layer);
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
    program_.index_of[node.main] = index;
    return budget_.Add(layer, program_.weight_bytes - budget_.bytes());
  }

 private:
  // Takes the parts that an earlier concatenation begins with from there: the inputs of a dense
  // block, each one part more than the one before, become planes of one tensor (PlaceParts).
  void TakeJoinedParts(int source_layer, Layer& layer) {
    const std::vector<int> parts = layer.inputs;
    for (size_t count = parts.size() - 1; count > 1; --count) {
      const auto joined = joined_.find({parts.begin(), parts.begin() + count});
      if (joined == joined_.end()) continue;
      layer.inputs.erase(layer.inputs.begin() + 1, layer.inputs.begin() + count);
      layer.inputs[0] = program_.index_of[joined->second];
      break;
    }
    if (layer.activation == Activation::kNone) joined_.emplace(parts, source_layer);
  }

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
  std::map<std::vector<int>, int> joined_;  // concatenations of the source by what they join
};

}  // namespace

absl::StatusOr<Program> BuildProgram(const Network& source, Isa isa, const KernelEntry* forced,
                                     Precision precision, KernelChooser* chooser,
                                     const Calibration& calibration, bool always_stages) {
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
  FuseGates(source, isa, program);
  Connect(program);
  ChooseScaledViews(program);
  StaggerBlocks(program);
  ChooseCached(program);
  ChooseCuts(always_stages, program);
  PlaceParts(program);
  return program;
}

}  // namespace upscaled::cpu
