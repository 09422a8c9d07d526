#include "engine/backends/reference/convolution.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/int_math.h"

namespace upscaled::reference {
namespace {

// Outputs are computed side by side, in four vectors of 128 bits, which every processor has; the
// compiler spills longer ones.
constexpr int kPair = 2, kBlock = 4 * kPair;
using Pair [[gnu::vector_size(kPair * sizeof(double))]] = double;
using Block = std::array<Pair, kBlock / kPair>;

// Outputs of a row that are products with the same weights.
struct ConvRow {
  int x, y;      // of the first
  int count;     // how many there are
  int step;      // from one to the next
  int src_step;  // from what one reads to what the next reads
};

// A weight of the kernel, and what the first output of a row multiplies with it.
struct ConvTap {
  int index;  // ky * kernel_px + kx
  int src_x, src_y;
};

std::vector<ConvTap> ListTaps(const Layer& layer, const ConvRow& row, const Rect& src) {
  std::vector<ConvTap> taps;
  const int stride = layer.stride_px;
  for (int index = 0; index < layer.kernel_px * layer.kernel_px; ++index) {
    const int ky = index / layer.kernel_px, kx = index % layer.kernel_px;
    ConvTap tap{index, row.x * stride - layer.padding_px + kx,
                row.y * stride - layer.padding_px + ky};
    if (layer.op == Op::kConvTranspose) {
      const int x = row.x + layer.padding_px - kx, y = row.y + layer.padding_px - ky;
      tap = {index, FloorDiv(x, stride), FloorDiv(y, stride)};
      if (tap.src_x * stride != x || tap.src_y * stride != y) continue;
    }
    if (tap.src_y >= src.y && tap.src_y < src.bottom()) taps.push_back(tap);
  }
  return taps;
}

// [channel][tap]: the inputs of a block of the row's outputs, zero beyond the source.
void GatherSources(const Tensor& src, int first_channel, int channels, const ConvRow& row,
                   int first_output, const std::vector<ConvTap>& taps,
                   std::vector<Block>& sources) {
  sources.assign(channels * taps.size(), Block{});
  const int count = std::min(kBlock, row.count - first_output);
  auto source = sources.begin();
  for (int c = first_channel; c < first_channel + channels; ++c) {
    for (const ConvTap& tap : taps) {
      const float* src_row = src.row(c, tap.src_y) - src.region.x;
      for (int i = 0; i < count; ++i) {
        const int x = tap.src_x + (first_output + i) * row.src_step;
        if (x < src.region.x || x >= src.region.right()) continue;
        (*source)[i / kPair][i % kPair] = src_row[x];
      }
      ++source;
    }
  }
}

// A block of outputs of one channel.
Block SumProducts(const Layer& layer, int out, const std::vector<ConvTap>& taps,
                  const std::vector<Block>& sources) {
  const int group_in = layer.in_channels / layer.groups;
  Block sums;
  sums.fill(Pair{} + layer.bias[out]);
  const Block* source = sources.data();
  for (int in = 0; in < group_in; ++in) {
    const size_t filter = layer.op == Op::kConvTranspose ? size_t{1} * in * layer.out_channels + out
                                                         : size_t{1} * out * group_in + in;
    const float* weights = &layer.weights[filter * layer.kernel_px * layer.kernel_px];
    for (const ConvTap& tap : taps) {
      const double weight = weights[tap.index];
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * (*source)[i];
      ++source;
    }
  }
  return sums;
}

void ConvolveRow(const Layer& layer, const Tensor& src, const ConvRow& row, Tensor& dst) {
  const std::vector<ConvTap> taps = ListTaps(layer, row, src.region);
  const int group_in = layer.in_channels / layer.groups;
  const int group_out = layer.out_channels / layer.groups;
  std::vector<Block> sources;
  for (int group = 0; group < layer.groups; ++group) {
    for (int first = 0; first < row.count; first += kBlock) {
      GatherSources(src, group * group_in, group_in, row, first, taps, sources);
      for (int out = group * group_out; out < (group + 1) * group_out; ++out) {
        const Block sums = SumProducts(layer, out, taps, sources);
        float* outputs = dst.row(out, row.y) + (row.x - dst.region.x);
        for (int i = 0; i < std::min(kBlock, row.count - first); ++i) {
          outputs[(first + i) * row.step] = static_cast<float>(sums[i / kPair][i % kPair]);
        }
      }
    }
  }
}

}  // namespace

void Convolve(const Layer& layer, const Tensor& src, Tensor& dst) {
  const Rect& region = dst.region;
  const bool transposed = layer.op == Op::kConvTranspose;
  const int step = transposed ? layer.stride_px : 1, src_step = transposed ? 1 : layer.stride_px;
  for (int y = region.y; y < region.bottom(); ++y) {
    for (int x = region.x; x < std::min(region.x + step, region.right()); ++x) {
      ConvolveRow(layer, src, {x, y, CeilDiv(region.right() - x, step), step, src_step}, dst);
    }
  }
}

size_t ConvolveBytes(const Layer& layer) {
  return size_t{1} * layer.in_channels / layer.groups * layer.kernel_px * layer.kernel_px *
         sizeof(Block);
}

}  // namespace upscaled::reference
