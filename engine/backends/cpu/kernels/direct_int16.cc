// The outputs are computed by cells: one output of a plain convolution, stride x stride of a
// transposed one, which is as many ordinary ones, its phases: output x of phase
// r = (x + padding) mod stride takes the taps r, r + stride, ... of the kernel from inputs
// (x + padding - tap) / stride. The source pixels of a chunk of cells are made integers once, for
// all of these:
//   V[row of taps][plane][column mod stride][column / stride][32]
// so that a tap of adjacent cells is adjacent. Of images:
//   V[row of taps][column][3]
// in which a row of taps is one run.
#include "engine/backends/cpu/kernels/direct_int16.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernels/direct.h"
#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/graph/tile_geometry.h"
#include "engine/image/image.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

// So many products are added up in integers: the fewer, the finer are their weights.
constexpr int kRunsPerSum = 4;
constexpr int kSlack = 1024;  // int16 that may be read or written behind V

bool Interleaved(int channels) { return channels <= kMaxInterleavedChannels; }

// The places of a layer's outputs and inputs.
struct CellGeometry {
  explicit CellGeometry(const Layer& layer)
      : transposed(layer.op == Op::kConvTranspose),
        kernel_px(layer.kernel_px),
        in_step(transposed ? 1 : layer.stride_px),
        out_step(transposed ? layer.stride_px : 1),
        taps(transposed ? CeilDiv(layer.kernel_px, layer.stride_px) : layer.kernel_px),
        lead(transposed ? taps - 1 : layer.padding_px),
        out_padding(transposed ? layer.padding_px : 0) {}

  // The kernel's tap at number `tap` of those of a phase, along one axis; -1: none.
  int KernelTap(int phase, int tap) const {
    const int at = transposed ? phase + (taps - 1 - tap) * out_step : tap;
    return at < kernel_px ? at : -1;
  }

  const bool transposed;
  const int kernel_px;
  const int in_step;   // source pixels from one cell to the next
  const int out_step;  // outputs a cell, on each axis
  const int taps;      // source pixels that a cell reads, on each axis
  const int lead;      // the first is so far before pixel cell * in_step
  const int out_padding;
};

// A value of a run and its weights.
struct RunValue {
  int place;
  int channel;
  int kernel_y, kernel_x;
};

// One phase: each output's summands.
struct Phase {
  std::vector<int> places;                    // of its runs, from a cell
  std::vector<std::vector<RunValue>> values;  // of its runs
  HugeBuffer weights;
  HugeBuffer scales;
};

class DirectInt16Kernel final : public LayerKernel {
 public:
  DirectInt16Kernel(const Layer& layer, const InputRanges& ranges)
      : geometry_(layer),
        from_image_(Interleaved(layer.in_channels)),
        variant_(ChooseVariant(from_image_ ? kDirectVnniRgb : kDirectVnni, layer.out_channels)),
        src_channels_(layer.in_channels),
        cell_(from_image_ ? kRgbChannels : kHalfPlaneChannels),
        src_planes_(CeilDiv(layer.in_channels, cell_)),
        run_pairs_(CeilDiv(from_image_ ? geometry_.taps * kRgbChannels : cell_, 2)),
        columns_(variant_.chunk_px + geometry_.taps / geometry_.in_step),
        crop_px_(layer.crop_px),
        group_(variant_.out_vectors * kPlaneChannels),
        out_channels_(layer.out_channels),
        epilogue_(layer, RoundUp(layer.out_channels, group_)),
        src_scales_(SrcScales(ranges)) {
    for (int y = 0; y < geometry_.out_step; ++y) {
      for (int x = 0; x < geometry_.out_step; ++x) {
        phases_.push_back(from_image_ ? ImagePhase() : PlanePhase(y, x));
        PackWeights(layer, phases_.back());
      }
    }
  }

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    const float* scales = src_scales_.data();
    if (src[0].factors != nullptr) {
      float* const scaled = scratch + PlainScratchFloats();
      ScaleByFactors(src[0], scaled);
      scales = scaled;
    }
    const int step = geometry_.out_step, padding = geometry_.out_padding;
    const int end_row = (rows.bottom() - 1 + padding) / step + 1;
    const int end_cell = (rows.right() - 1 + padding) / step + 1;
    for (int row = (rows.y + padding) / step; row < end_row; ++row) {
      for (int cell = (rows.x + padding) / step; cell < end_cell; cell += variant_.chunk_px) {
        RunCells({src, scales, dst, rows, row, cell, std::min(variant_.chunk_px, end_cell - cell)},
                 reinterpret_cast<int16_t*>(scratch));
      }
    }
  }

  Margin margin() const override { return {geometry_.lead, geometry_.lead}; }
  size_t ScratchFloats() const override { return PlainScratchFloats(); }
  std::optional<size_t> FactorScratchFloats() const override {
    if (from_image_) return std::nullopt;
    return PlainScratchFloats() + src_scales_.size();
  }
  size_t WeightBytes() const override {
    size_t bytes = 0;
    for (const Phase& phase : phases_) bytes += phase.weights.bytes() + phase.scales.bytes();
    return bytes;
  }

 private:
  // Cells side by side, and the wanted part of their outputs.
  struct Chunk {
    std::span<const Tensor> src;
    const float* scales;  // of the source's values
    const Tensor& dst;
    const Rect& rows;
    int row;
    int first;
    int count;
  };

  // The most vectors at a time that divide those of the layer, but for two, which waste little of
  // many.
  static const DirectInt16Variant& ChooseVariant(std::span<const DirectInt16Variant, 3> variants,
                                                 int out_channels) {
    const int vectors = CeilDiv(out_channels, kPlaneChannels);
    if (vectors == 1) return variants[0];
    return variants[vectors % 2 != 0 && vectors % 3 == 0 ? 2 : 1];
  }

  // Columns of different residues, read by cells.
  int Residues() const { return std::min(geometry_.in_step, geometry_.taps); }
  // Where the columns of one residue, row of taps and plane begin in V.
  int ColumnsAt(int tap_y, int plane, int residue) const {
    return ((tap_y * src_planes_ + plane) * Residues() + residue) * columns_ * cell_;
  }

  size_t PlainScratchFloats() const {
    const int values = ColumnsAt(geometry_.taps, 0, 0);
    return RoundUp(values + kSlack, 2 * kPlaneFloats) / 2;
  }

  // The scales of values not yet multiplied by the tensor's factors.
  void ScaleByFactors(const Tensor& src, float* scales) const {
    for (int c = 0; c < src_planes_ * cell_; ++c) {
      const int plane = c / kPlaneChannels;
      const bool exists = c < src_channels_;
      const float factor =
          exists ? src.factors[plane * src.factor_plane_stride + c % kPlaneChannels] : 0.0f;
      scales[c] = src_scales_.data()[c] * factor;
    }
  }

  HugeBuffer SrcScales(const InputRanges& ranges) const {
    if (from_image_) {  // one for all
      HugeBuffer scale(1);
      SetInputScales({&*std::max_element(ranges.begin(), ranges.end()), 1}, scale.data());
      return scale;
    }
    HugeBuffer scales(static_cast<size_t>(src_planes_) * cell_);
    std::fill_n(scales.data(), scales.size(), 0.0f);
    SetInputScales(ranges, scales.data());
    return scales;
  }

  Phase ImagePhase() const {
    Phase phase;
    for (int y = 0; y < geometry_.taps; ++y) {
      phase.places.push_back(ColumnsAt(y, 0, 0));
      std::vector<RunValue>& values = phase.values.emplace_back();
      for (int i = 0; i < geometry_.taps * kRgbChannels; ++i) {
        values.push_back({i, i % kRgbChannels, y, i / kRgbChannels});
      }
    }
    return phase;
  }

  Phase PlanePhase(int phase_y, int phase_x) const {
    Phase phase;
    for (int y = 0; y < geometry_.taps; ++y) {
      for (int plane = 0; plane < src_planes_; ++plane) {
        for (int x = 0; x < geometry_.taps; ++x) {
          const int kernel_y = geometry_.KernelTap(phase_y, y);
          const int kernel_x = geometry_.KernelTap(phase_x, x);
          if (kernel_y < 0 || kernel_x < 0) continue;
          phase.places.push_back(ColumnsAt(y, plane, x % geometry_.in_step) +
                                 x / geometry_.in_step * cell_);
          std::vector<RunValue>& values = phase.values.emplace_back();
          const int first = plane * cell_;
          for (int c = first; c < std::min(first + cell_, src_channels_); ++c) {
            values.push_back({Int16PlaceOf(c - first), c, kernel_y, kernel_x});
          }
        }
      }
    }
    return phase;
  }

  double Weight(const Layer& layer, int out, const RunValue& value) const {
    const int in = value.channel, k = geometry_.kernel_px;
    const size_t pair = geometry_.transposed ? size_t{1} * in * out_channels_ + out
                                             : size_t{1} * out * src_channels_ + in;
    const float weight = layer.weights[(pair * k + value.kernel_y) * k + value.kernel_x];
    return double{weight} / src_scales_.data()[from_image_ ? 0 : in];
  }

  void PackWeights(const Layer& layer, Phase& phase) const {
    const int runs = static_cast<int>(phase.places.size());
    const int sums = CeilDiv(runs, kRunsPerSum), groups = CeilDiv(out_channels_, group_);
    const size_t run_weights = size_t{2} * run_pairs_ * group_;
    const size_t count = run_weights * runs * groups;
    phase.weights = HugeBuffer((count + 1) / 2);
    phase.scales = HugeBuffer(size_t{1} * sums * groups * group_);
    if (layer.weights.empty()) return;
    auto* const packed = reinterpret_cast<int16_t*>(phase.weights.data());
    std::fill_n(packed, count, int16_t{0});
    std::fill_n(phase.scales.data(), phase.scales.size(), 0.0f);
    for (int o = 0; o < out_channels_; ++o) {
      for (int sum = 0; sum < sums; ++sum) {
        const int first = sum * kRunsPerSum, end = std::min(first + kRunsPerSum, runs);
        std::vector<double> weights;
        for (int run = first; run < end; ++run) {
          for (const RunValue& value : phase.values[run]) {
            weights.push_back(Weight(layer, o, value));
          }
        }
        const double scale = Int16WeightScale(weights);
        const size_t group = o / group_;
        phase.scales.data()[(group * sums + sum) * group_ + o % group_] =
            static_cast<float>(1 / scale);
        size_t next = 0;
        for (int run = first; run < end; ++run) {
          for (const RunValue& value : phase.values[run]) {
            const size_t pair = value.place / 2;
            const size_t at = (group * runs + run) * run_weights +
                              (pair * group_ + o % group_) * 2 + value.place % 2;
            packed[at] = static_cast<int16_t>(std::lrint(weights[next++] * scale));
          }
        }
      }
    }
  }

  // V of a chunk; whether a value was clipped.
  bool Quantize(const Chunk& chunk, int16_t* v) const {
    const Tensor& src = chunk.src[0];
    const int x = chunk.first * geometry_.in_step - geometry_.lead;
    const int y = chunk.row * geometry_.in_step - geometry_.lead;
    bool clipped = false;
    for (int tap = 0; tap < geometry_.taps; ++tap) {
      const float* const row = src.At(y + tap, x);
      if (from_image_) {
        clipped |= QuantizeFloats(row, (chunk.count + geometry_.taps - 1) * kRgbChannels,
                                  *chunk.scales, v + ColumnsAt(tap, 0, 0));
        continue;
      }
      for (int plane = 0; plane < src_planes_; ++plane) {
        for (int residue = 0; residue < Residues(); ++residue) {
          const int count = chunk.count + (geometry_.taps - 1 - residue) / geometry_.in_step;
          clipped |= QuantizeHalves(row + plane * src.plane_stride + residue * kPlaneFloats,
                                    geometry_.in_step, count, chunk.scales + plane * cell_,
                                    v + ColumnsAt(tap, plane, residue));
        }
      }
    }
    return clipped;
  }

  void RunCells(const Chunk& chunk, int16_t* v) const {
    const bool clipped = Quantize(chunk, v);
    const int step = geometry_.out_step;
    for (int phase = 0; phase < step * step; ++phase) {
      const int y = chunk.row * step + phase / step - geometry_.out_padding;
      if (y >= chunk.rows.y && y < chunk.rows.bottom()) {
        RunPhase(chunk, phases_[phase], y, phase % step, v, clipped);
      }
    }
  }

  void RunPhase(const Chunk& chunk, const Phase& phase, int y, int phase_x, const int16_t* v,
                bool clipped) const {
    const int step = geometry_.out_step;
    int x = chunk.first * step + phase_x - geometry_.out_padding, skipped = 0;
    if (x < chunk.rows.x) {
      x += step;
      skipped = 1;
    }
    const int width = std::min(chunk.count - skipped, CeilDiv(chunk.rows.right() - x, step));
    if (width <= 0) return;
    const Tensor& dst = chunk.dst;
    const ResidualRow residual = ResidualRow::At(chunk.src, y + crop_px_, x + crop_px_);
    const DirectInt16Args args{
        .src = v + skipped * cell_,
        .runs = phase.places.data(),
        .run_count = static_cast<int>(phase.places.size()),
        .run_pairs = run_pairs_,
        .runs_per_sum = kRunsPerSum,
        .weights = reinterpret_cast<const int16_t*>(phase.weights.data()),
        .scales = phase.scales.data(),
        .dst_row = dst.At(y, x),
        .dst_channels = dst.half ? RoundUp(dst.channels, kPlaneChannels) : dst.channels,
        .dst_pixel_stride = dst.pixel_stride * step,
        .dst_plane_stride = dst.half ? dst.plane_stride : 0,
        .residual_row = residual.data,
        .residual_plane_stride = residual.plane_stride,
        .residual_factors = residual.factors,
        .residual_factor_plane_stride = residual.factor_plane_stride,
        .width_px = width,
        .epilogue = epilogue_.args()};
    variant_.run(args);
    if (clipped) MarkClipped(args, phase, dst.planes());
  }

  // Makes outputs of a clipped value NaN.
  void MarkClipped(const DirectInt16Args& args, const Phase& phase, int planes) const {
    constexpr uint32_t kNans = 0x7fff7fff;  // as a float and as two halves
    for (int n = 0; n < args.width_px; ++n) {
      if (!ReadsClipped(args.src + n * cell_, phase)) continue;
      for (int plane = 0; plane < planes; ++plane) {
        float* const pixel = args.dst_row + plane * args.dst_plane_stride +
                             static_cast<size_t>(n) * args.dst_pixel_stride;
        const int floats = args.dst_plane_stride > 0 ? kPlaneFloats : args.dst_channels;
        std::fill_n(reinterpret_cast<uint32_t*>(pixel), floats, kNans);
      }
    }
  }

  static bool ReadsClipped(const int16_t* cell, const Phase& phase) {
    for (size_t run = 0; run < phase.places.size(); ++run) {
      for (const RunValue& value : phase.values[run]) {
        const int v = cell[phase.places[run] + value.place];
        if (std::abs(v) >= std::numeric_limits<int16_t>::max()) return true;
      }
    }
    return false;
  }

  const CellGeometry geometry_;
  const bool from_image_;
  const DirectInt16Variant variant_;
  const int src_channels_;
  const int cell_;  // values
  const int src_planes_;
  const int run_pairs_;
  const int columns_;  // of a residue
  const int crop_px_;
  const int group_;  // outputs at a time
  const int out_channels_;
  const Epilogue epilogue_;
  const HugeBuffer src_scales_;
  std::vector<Phase> phases_;
};

class ChannelObserver final : public LayerKernel {
 public:
  ChannelObserver(const Layer& layer, std::unique_ptr<LayerKernel> kernel, InputRanges& ranges)
      : kernel_(std::move(kernel)), layer_(WithoutWeights(layer)), ranges_(ranges) {
    ranges_.assign(layer.in_channels, 0.0f);
  }

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    const Tensor& in = src[0];
    const PixelRange y = Reads(Axis::kY, rows.y, rows.bottom(), in.layer_height_px);
    const PixelRange x = Reads(Axis::kX, rows.x, rows.right(), in.layer_width_px);
    for (int row = y.first; row <= y.last; ++row) {
      for (int c = 0; c < layer_.in_channels; ++c) {
        const float factor = Factor(in, c);
        const float* value = in.At(row, x.first) + in.ChannelOffset(c);
        for (int n = x.first; n <= x.last; ++n, value += in.pixel_stride) {
          ranges_[c] = std::max(ranges_[c], std::abs(*value * factor));
        }
      }
    }
    kernel_->Run(src, dst, rows, scratch);
  }

  int block_px() const override { return kernel_->block_px(); }
  Margin margin() const override { return kernel_->margin(); }
  size_t ScratchFloats() const override { return kernel_->ScratchFloats(); }
  std::optional<size_t> FactorScratchFloats() const override {
    return kernel_->FactorScratchFloats();
  }
  size_t WeightBytes() const override { return kernel_->WeightBytes(); }

 private:
  static float Factor(const Tensor& in, int channel) {
    if (in.factors == nullptr) return 1;
    return in.factors[channel / kPlaneChannels * in.factor_plane_stride + channel % kPlaneChannels];
  }
  // Inside the input, along one axis.
  PixelRange Reads(Axis axis, int first, int end, int side) const {
    const PixelRange range = InputRange(layer_, axis, {std::max(first, 0), end - 1}, side);
    return {std::max(range.first, 0), std::min(range.last, side - 1)};
  }

  const std::unique_ptr<LayerKernel> kernel_;
  const Layer layer_;
  InputRanges& ranges_;
};

}  // namespace

bool DirectInt16Supports(const Layer& layer) {
  if (layer.op == Op::kConvTranspose) {
    return layer.in_channels > kMaxInterleavedChannels && layer.kernel_px <= DirectArgs::kMaxKernel;
  }
  if (!DirectSupports(layer)) return false;
  return !Interleaved(layer.in_channels) ||
         (layer.in_channels == kRgbChannels && layer.stride_px == 1 &&
          !Interleaved(layer.out_channels));
}

std::unique_ptr<LayerKernel> MakeDirectInt16(const Layer& layer, Isa /*isa*/) {
  constexpr double kLargestInput = 8;
  return MakeCalibratedDirectInt16(
      layer, InputRanges(layer.in_channels, static_cast<float>(kLargestInput / kInt16Margin)));
}

std::unique_ptr<LayerKernel> MakeCalibratedDirectInt16(const Layer& layer,
                                                       const InputRanges& ranges) {
  return std::make_unique<DirectInt16Kernel>(layer, ranges);
}

std::unique_ptr<LayerKernel> MakeChannelObserver(const Layer& layer,
                                                 std::unique_ptr<LayerKernel> kernel,
                                                 InputRanges& ranges) {
  return std::make_unique<ChannelObserver>(layer, std::move(kernel), ranges);
}

}  // namespace upscaled::cpu
