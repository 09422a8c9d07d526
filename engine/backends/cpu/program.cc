#include "engine/backends/cpu/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/candidates.h"
#include "engine/backends/cpu/kernels/samples.h"
#include "engine/backends/cpu/sums.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/graph/pooling.h"
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

// What a layer's weights take at most when packed: channels padded to the kernels' groups, 3x3
// kernels transformed to 8x8 points, transposed ones split into phases of equal size.
size_t PackedBytesBound(const Layer& layer) {
  if (layer.weights.empty()) return 0;
  constexpr int kMaxOutGroup = 48;
  const int phases = layer.op == Op::kConvTranspose ? layer.stride_px : 1;
  const size_t side = layer.kernel_px == 3 ? 8 : RoundUp(layer.kernel_px, phases);
  return side * side * RoundUp(layer.in_channels, kPlaneChannels) *
         (layer.out_channels + kMaxOutGroup) * sizeof(float);
}

absl::Status CheckPackedBytes(const Program& program, const Layer& layer) {
  const size_t bytes = program.weight_bytes + PackedBytesBound(layer);
  if (bytes <= kMaxPackedBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("layer '", layer.name,
                                                   "' brings the packed weights to ", bytes >> 20,
                                                   " MiB, the limit is ", kMaxPackedBytes >> 20));
}

absl::Status CheckPooling(const Program& program, const Layer& layer) {
  if (program.precision == Precision::kExact) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the cpu backend has no precision 'fast' for global poolings, as layer '", layer.name, "'"));
}

// Appends the source's layers with their kernels.
class LayerAppender {
 public:
  LayerAppender(const Network& source, Isa isa, const KernelInfo* forced, KernelChooser* chooser,
                Program& program)
      : layers_(source.layers),
        sums_(FindSums(source)),
        isa_(isa),
        forced_(forced),
        chooser_(chooser),
        program_(program),
        index_of_(layers_.size()),
        postponed_(layers_.size()) {}

  // Layers in order.
  absl::Status Append(int index) {
    const Layer& layer = layers_[index];
    if (sums_.cropped[index]) {
      index_of_[index] = index_of_[layer.inputs[0]];  // what its sum reads
      return absl::OkStatus();
    }
    if (layer.op == Op::kGlobalAveragePool) RETURN_IF_ERROR(CheckPooling(program_, layer));
    if (layer.op == Op::kInput || layer.op == Op::kGlobalAveragePool) {
      index_of_[index] =
          AppendLayer(program_, Connected(index), nullptr, nullptr, layer.op == Op::kInput, false);
      return absl::OkStatus();
    }
    const int first = sums_.inputs[index].first;
    const bool waited_for = layer.op == Op::kAdd && postponed_[first] != nullptr;
    return waited_for ? AppendWithResidual(index) : AppendComputed(index);
  }

 private:
  // With inputs of the program, and as a convolution what is fully connected.
  Layer Connected(int index) const {
    Layer layer = layers_[index];
    if (layer.op == Op::kAdd) {
      const auto [first, second] = sums_.inputs[index];
      layer.inputs = {first, second};
      if (sums_.cropped[second]) {
        layer.crop_px = layers_[second].crop_px;
        layer.name = absl::StrCat(layers_[second].name, "+", layer.name);
      }
    }
    for (int& input : layer.inputs) input = index_of_[input];
    if (layer.op == Op::kFullyConnected) {
      layer.op = Op::kConv;
      layer.kernel_px = layer.stride_px = 1;
      layer.padding_px = 0;
    }
    return layer;
  }

  absl::Status AppendComputed(int index) {
    Layer layer = Connected(index);
    RETURN_IF_ERROR(CheckPackedBytes(program_, layer));
    const KernelInfo* info = program_.precision == Precision::kFast
                                 ? ChooseKernel(layer, forced_, Precision::kFast)
                                 : ChooseKernel(layer, forced_, isa_, chooser_);
    if (info == nullptr) {
      return absl::UnimplementedError(absl::StrCat("the cpu backend cannot run layer '", layer.name,
                                                   "' (", ToAbsl(OpName(layer.op)), ")"));
    }
    if (info->adds_residual && MayWait(index)) {
      postponed_[index] = info;
      return absl::OkStatus();
    }
    if (info->prelude != nullptr) {
      Layer prelude = info->prelude(layer);
      prelude.inputs = layer.inputs;
      const KernelInfo* prelude_info = ChooseKernel(prelude, nullptr, program_.precision);
      layer.inputs = {AppendKernel(program_, prelude, *prelude_info, isa_, true)};
    }
    index_of_[index] = AppendKernel(program_, std::move(layer), *info, isa_, false);
    return absl::OkStatus();
  }

  // For its sum; not of images, and not for one that the forced kernel takes.
  bool MayWait(int index) const {
    const int sum = sums_.end_of[index];
    return sum >= 0 && layers_[index].out_channels > kMaxInterleavedChannels &&
           !(forced_ != nullptr && forced_->supports(layers_[sum]));
  }

  // A sum with the convolution that is its first input.
  absl::Status AppendWithResidual(int index) {
    const int first = sums_.inputs[index].first;
    const Layer sum = Connected(index);
    Layer layer = Connected(first);
    layer.name = absl::StrCat(layer.name, "+", sum.name);
    layer.inputs.push_back(sum.inputs[1]);
    layer.crop_px = sum.crop_px;
    RETURN_IF_ERROR(CheckPackedBytes(program_, layer));
    index_of_[index] = AppendKernel(program_, std::move(layer), *postponed_[first], isa_, false);
    return absl::OkStatus();
  }

  const std::vector<Layer>& layers_;
  const Sums sums_;
  const Isa isa_;
  const KernelInfo* const forced_;
  KernelChooser* const chooser_;
  Program& program_;
  std::vector<int> index_of_;                 // in program_.network
  std::vector<const KernelInfo*> postponed_;  // of convolutions that wait for their sum
};

// What follows from the layers' kernels and connections.
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

// Whether output positions are those of what `layer` reads of this input.
bool KeepsPositions(const Layer& layer, int input) {
  if (input != layer.inputs[0]) return layer.crop_px == 0;
  switch (layer.op) {
    case Op::kActivation:
    case Op::kAdd:
    case Op::kAffine:
    case Op::kConcat:
    case Op::kMul:
      return true;
    default:
      return false;
  }
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

// Chooses what tiles keep between the runs over an image.
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
  Program program;
  program.precision = precision;
  program.sample_conversions = SampleConversionsFor(isa);
  program.network.name = source.name;
  program.network.scale = source.scale;
  program.network.pad_px = source.pad_px;
  program.network.align_px = source.align_px;
  LayerAppender appender(source, isa, forced, chooser, program);
  for (size_t i = 0; i < source.layers.size(); ++i) {
    RETURN_IF_ERROR(appender.Append(static_cast<int>(i)));
  }
  const auto& infos = program.kernel_infos;
  if (forced != nullptr && std::find(infos.begin(), infos.end(), forced) == infos.end()) {
    return absl::UnimplementedError(
        absl::StrCat("kernel '", ToAbsl(forced->name), "' supports no layer of the network"));
  }
  Connect(program);
  StaggerBlocks(program);
  ChooseCached(program);
  return program;
}

}  // namespace upscaled::cpu
