#include "engine/backends/cpu/program_passes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernels/gate.h"
#include "engine/base/int_math.h"
#include "engine/graph/inner_tile.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"

namespace upscaled::cpu {
namespace {

// Finds gates that elementwise kernels in fp32 compute.
class GateFinder {
 public:
  explicit GateFinder(const Program& program)
      : program_(program), readers_(program.network.layers.size()) {
    for (const Layer& layer : program.network.layers) {
      for (const int input : layer.inputs) ++readers_[input];
    }
  }

  struct Gate {
    int sum, affine, sigmoid;  // layers that nobody but the gate reads
    int a, b;
  };

  std::optional<Gate> Find(int product) const {
    if (!IsPlain(product, Op::kMul)) return std::nullopt;
    const std::vector<int>& inputs = LayerAt(product).inputs;
    for (const auto& [sum, affine] :
         {std::pair(inputs[0], inputs[1]), std::pair(inputs[1], inputs[0])}) {
      if (!IsInner(sum, Op::kAdd) || !IsInner(affine, Op::kAffine)) continue;
      const int sigmoid = LayerAt(affine).inputs[0];
      const bool curved = LayerAt(sigmoid).op == Op::kActivation && readers_[sigmoid] == 1 &&
                          LayerAt(sigmoid).activation == Activation::kSigmoid;
      const Layer& added = LayerAt(sum);
      if (!curved || added.crop_px != 0) continue;
      const int a = LayerAt(sigmoid).inputs[0];
      for (const size_t n : {0, 1}) {
        if (added.inputs[n] == a) return Gate{sum, affine, sigmoid, a, added.inputs[1 - n]};
      }
    }
    return std::nullopt;
  }

 private:
  const Layer& LayerAt(int index) const { return program_.network.layers[index]; }
  bool IsPlain(int index, Op op) const {
    return LayerAt(index).op == op && LayerAt(index).activation == Activation::kNone &&
           LayerAt(index).out_channels > kMaxInterleavedChannels && !program_.steps[index].half &&
           program_.steps[index].kernel != nullptr;
  }
  bool IsInner(int index, Op op) const { return IsPlain(index, op) && readers_[index] == 1; }

  const Program& program_;
  std::vector<int> readers_;
};

void Widen(Margin& margin, const Margin& other) {
  margin.left_px = std::max(margin.left_px, other.left_px);
  margin.right_px = std::max(margin.right_px, other.right_px);
}

// Whether each position of the result is that of all that `layer` reads of input number `input`.
bool KeepsPositions(const Layer& layer, size_t input) {
  return input > 0 ? layer.crop_px == 0 && layer.residual_factor == 1
                   : OperationOf(layer.op).pointwise;
}

// Networks of more packed weights than this run in stages: fewer stay in a cache that cores share.
constexpr size_t kStagedWeightBytes = size_t{64} << 20;
// At least a stage's own values, and at most the kept values for each source pixel behind it: they
// go through memory.
constexpr size_t kMinStageWeightBytes = size_t{4} << 20;
constexpr double kMaxKeptValues = 256;

// Tiles of a network of more global poolings keep all inputs of later passes, and not only the
// pooled layers: what lies between would be computed again in each of many passes.
constexpr size_t kMaxPoolingsWithoutStages = 8;

// The values for each source pixel that layers up to each one leave to layers behind it.
std::vector<double> KeptValues(const Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  const std::vector<double> densities = LayerDensities(program.network);
  std::vector<double> kept(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (program.steps[i].consumers.empty()) continue;
    const int last = program.steps[i].consumers.back();
    for (int at = static_cast<int>(i); at < last; ++at) {
      kept[at] += layers[i].out_channels * densities[i];
    }
  }
  return kept;
}

// `min_weight_bytes`: of each stage.
void CutWhereLittleIsKept(size_t min_weight_bytes, Program& program) {
  const std::vector<double> kept = KeptValues(program);
  size_t stage_bytes = 0;
  for (size_t i = 1; i + 1 < kept.size(); ++i) {
    stage_bytes += program.steps[i].kernel ? program.steps[i].kernel->WeightBytes() : 0;
    if (stage_bytes < min_weight_bytes || kept[i] > kMaxKeptValues || kept[i] >= kept[i + 1]) {
      continue;
    }
    program.cuts.push_back(static_cast<int>(i));
    stage_bytes = 0;
  }
}

// Unless a layer is pooled twice, or before one that an earlier pass is for.
void CutBehindPooled(Program& program) {
  for (const int pooling : program.poolings) {
    const int pooled = program.network.layers[pooling].inputs[0];
    if (!program.cuts.empty() && pooled <= program.cuts.back()) return program.cuts.clear();
    program.cuts.push_back(pooled);
  }
}

// Whether `layer` may write its result into planes of `joined`, a concatenation that it is a part
// of from channel `first` on. Not where others read it, too, maybe long before or after: all planes
// would have to stay for as long.
bool CanBePlaced(const Program& program, int layer, int joined, int first) {
  const std::vector<Layer>& layers = program.network.layers;
  const auto has_planes = [&](int of) {
    return program.steps[of].pixel_stride == kPlaneChannels && !program.steps[of].half &&
           !program.steps[of].cached && !program.steps[of].crosses;
  };
  const bool read_elsewhere =
      program.steps[layer].consumers.size() > 1 && layers[layer].op != Op::kConcat;
  return program.steps[layer].kernel != nullptr && program.steps[layer].home == layer &&
         !read_elsewhere && has_planes(layer) && has_planes(joined) &&
         first % kPlaneChannels == 0 && layers[layer].out_channels % kPlaneChannels == 0;
}

// Along x the blocks of zero-padded layers that follow each other alternate by half a block: the
// surroundings of a tile are the same on its left and on its right.
void HalveColumns(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  std::vector<bool> read_around(layers.size());  // multiples of blocks, with a border
  const auto reads_around = [&](int consumer, size_t input) {
    const Layer& layer = layers[consumer];
    const bool padded = input == 0 && program.steps[consumer].block_px > 1 && layer.padding_px > 0;
    return padded ? program.steps[consumer].block_origin.x_px == 0
                  : KeepsPositions(layer, input) && read_around[consumer];
  };
  for (size_t i = layers.size(); i-- > 1;) {
    for (const int consumer : program.steps[i].consumers) {
      const std::vector<int>& inputs = layers[consumer].inputs;
      for (size_t n = 0; n < inputs.size(); ++n) {
        if (inputs[n] == static_cast<int>(i) && reads_around(consumer, n)) read_around[i] = true;
      }
    }
    if (read_around[i]) program.steps[i].block_origin.x_px = program.steps[i].block_px / 2;
  }
}

// Along y a layer's blocks end where its reader's stop reading: no layer is ahead of its reader by
// more rows than that reads below a block, and a ring holds hardly more than one block's input.
// Where several layers read one, it is the one furthest ahead that counts.
void LagRows(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  // A pixel far from all sides of an image, where blocks of the result may begin.
  const InnerTile pixel(Size{1, 1});
  const std::vector<Size> sizes = LayerSizes(program.network, pixel.image);
  std::vector<int> end(layers.size());  // behind the rows that are read for those above the pixel
  end.back() = pixel.rect.y * program.network.scale;
  for (size_t i = layers.size(); i-- > 1;) {
    const Layer& layer = layers[i];
    const int block = program.steps[i].block_px;
    program.steps[i].block_origin.y_px = end[i] - FloorDiv(end[i], block) * block;
    if (layer.op == Op::kGlobalAveragePool) continue;
    for (size_t n = 0; n < layer.inputs.size(); ++n) {
      const int input = layer.inputs[n];
      if (ReadsPerImage(layer, n, sizes[input])) continue;
      const PixelRange rows =
          InputRange(layer, Axis::kY, {end[i] - 1, end[i] - 1}, sizes[input].height, n);
      end[input] = std::max(end[input], rows.last + 1);
    }
  }
}

}  // namespace

void FuseGates(const Network& source, Isa isa, Program& program) {
  std::vector<Layer>& layers = program.network.layers;
  const GateFinder finder(program);
  for (size_t i = 1; i < layers.size(); ++i) {
    const auto gate = finder.Find(static_cast<int>(i));
    if (!gate.has_value()) continue;
    const auto affine = std::find(program.index_of.begin(), program.index_of.end(), gate->affine);
    layers[i].inputs = {gate->a, gate->b};
    program.steps[i].kernel = MakeGate(source.layers[affine - program.index_of.begin()], isa);
    program.steps[i].kernel_entry = &GateKernel();
    for (const int part : {gate->sum, gate->affine, gate->sigmoid})
      program.steps[part].kernel.reset();
  }
}

void Connect(Program& program) {
  const size_t count = program.network.layers.size();
  for (size_t i = 1; i < count; ++i) {
    if (program.steps[i].kernel == nullptr) continue;
    const LayerKernel& kernel = *program.steps[i].kernel;
    program.scratch_floats = std::max(program.scratch_floats, kernel.ScratchFloats());
    const std::vector<int>& inputs = program.network.layers[i].inputs;
    Widen(program.steps[inputs[0]].margin, kernel.margin());
    for (const int input : inputs) program.steps[input].consumers.push_back(static_cast<int>(i));
  }
}

void ChooseScaledViews(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  const std::vector<bool> per_image = IsPerImage(program.network);
  // Sums are those of computed rows. A pooling has no kernel, and so is no consumer.
  std::vector<bool> pooled(layers.size());
  for (const int pooling : ListPoolings(program.network)) pooled[layers[pooling].inputs[0]] = true;
  for (size_t i = 1; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const bool scales = layer.op == Op::kMul && layer.activation == Activation::kNone &&
                        layer.out_channels > kMaxInterleavedChannels && per_image[layer.inputs[1]];
    if (!scales || pooled[i] || program.steps[layer.inputs[0]].scaled_view ||
        program.steps[i].consumers.empty()) {
      continue;
    }
    size_t scratch_floats = 0;
    const bool all_can = std::ranges::all_of(program.steps[i].consumers, [&](int consumer) {
      const LayerKernel* kernel = program.steps[consumer].kernel.get();
      const std::optional<size_t> floats =
          kernel == nullptr ? std::nullopt : kernel->FactorScratchFloats();
      scratch_floats = std::max(scratch_floats, floats.value_or(0));
      return floats.has_value();
    });
    if (!all_can) continue;
    program.steps[i].scaled_view = true;
    program.steps[i].kernel.reset();
    program.scratch_floats = std::max(program.scratch_floats, scratch_floats);
    Widen(program.steps[layer.inputs[0]].margin, program.steps[i].margin);
  }
}

void StaggerBlocks(Program& program) {
  HalveColumns(program);
  LagRows(program);
}

void ChooseCached(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  program.poolings = ListPoolings(program.network);
  std::vector<bool> gathered(layers.size());  // computed in a pass before the last
  for (const int pooling : program.poolings) {
    const int pooled = layers[pooling].inputs[0];
    program.steps[pooled].cached = gathered[pooled] = true;
  }
  for (size_t i = layers.size() - 1; i > 0; --i) {
    if (!gathered[i] || layers[i].op == Op::kGlobalAveragePool) continue;
    if (layers[i].out_channels <= kMaxInterleavedChannels) program.steps[i].cached = true;
    for (const int input : layers[i].inputs) gathered[input] = true;
  }
  program.steps[0].cached = false;  // the source is there in every pass
}

void ChooseCuts(bool always, Program& program) {
  if (!program.poolings.empty()) {
    if (always || program.poolings.size() > kMaxPoolingsWithoutStages) CutBehindPooled(program);
  } else if (always || program.weight_bytes > kStagedWeightBytes) {
    CutWhereLittleIsKept(always ? 1 : kMinStageWeightBytes, program);
  }
  for (int i = 0; i < static_cast<int>(program.steps.size()); ++i) {
    program.steps[i].crosses =
        !program.steps[i].scaled_view && program.LastStageOf(i) > program.StageOf(i);
  }
  if (program.HasStageForEachPass()) {
    for (Step& step : program.steps) step.cached = step.crosses;
  }
}

void PlaceParts(Program& program) {
  const std::vector<Layer>& layers = program.network.layers;
  for (size_t i = layers.size() - 1; i > 0; --i) {
    if (layers[i].op != Op::kConcat || layers[i].activation != Activation::kNone) continue;
    const int home = program.steps[i].home;
    bool all_placed = !program.steps[i].consumers.empty();
    int first = 0;  // channel
    for (const int part : layers[i].inputs) {
      const bool placed = CanBePlaced(program, part, static_cast<int>(i), first);
      if (placed) {
        program.steps[part].home = home;
        program.steps[part].home_plane = program.steps[i].home_plane + first / kPlaneChannels;
        Widen(program.steps[home].margin, program.steps[part].margin);
      }
      all_placed = all_placed && placed;
      first += layers[part].out_channels;
    }
    program.steps[i].joined_view = all_placed;
    if (all_placed) program.steps[i].kernel.reset();
  }
}

}  // namespace upscaled::cpu
