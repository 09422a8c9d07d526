// A window at a time, with a vector of adjacent queries: scores, exponentials and results of a
// query stay in one lane, so no lanes are ever summed up, and channels of a head need no padding.
// Queries are transposed to [channel][query] first, results back at the end, in the same place. For
// up to four vectors of queries (two without AVX-512) a head takes three steps:
//
// - scores [key][query] = biases + sum over channels of key * query; the largest of each query
// - weights [key][query] = exp(score - largest); the sum of each query
// - results [channel][query] = sum over keys of value * weight, divided by the sum
//
// Both sums are one function: broadcasts of tokens times vectors of queries, six rows at a time. A
// query's sums run in one order, set only by its window, so no tile or thread changes them.
#include "engine/backends/cpu/kernels/window_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/window_attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/epilogue-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
#if HWY_TARGET <= HWY_AVX3
constexpr int kMaxVectors = 4;  // of queries at a time: 6 x 4 sums in registers
#else
constexpr int kMaxVectors = 2;
#endif
static_assert(kMaxVectors * kLanes <= WindowAttentionArgs::kMaxQueriesAtOnce);

// Four rows of 16 values to 16 rows of four.
HWY_INLINE void TransposeFour(const float* HWY_RESTRICT src, size_t src_stride,
                              float* HWY_RESTRICT dst, size_t dst_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int column = 0; column < kPlaneChannels; ++column) {
    for (int row = 0; row < 4; ++row)
      dst[column * dst_stride + row] = src[row * src_stride + column];
  }
#else
  // Blocks of 4x4 values change places, and a block's rows are stored one by one.
  const Tag d;
  const hn::Repartition<double, Tag> pairs;
  const hn::FixedTag<float, 4> block;
  for (int column = 0; column < kPlaneChannels; column += kLanes) {
    Vec rows[4];
    for (int i = 0; i < 4; ++i) rows[i] = hn::LoadU(d, src + i * src_stride + column);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0], rows[1]));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2], rows[3]));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0], rows[1]));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2], rows[3]));
    const Vec columns[4] = {hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)),
                            hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)),
                            hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)),
                            hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23))};
    HWY_ALIGN float values[4][kLanes];
    for (int i = 0; i < 4; ++i) hn::Store(columns[i], d, values[i]);
    for (int at = 0; at < kLanes; at += 4) {
      for (int i = 0; i < 4; ++i) {
        hn::StoreU(hn::Load(block, values[i] + at), block, dst + (column + at + i) * dst_stride);
      }
    }
  }
#endif
}

void Transpose(const float* src, size_t src_stride, int rows, int columns, float* dst,
               size_t dst_stride) {
  for (int row = 0; row < rows; row += 4) {
    for (int column = 0; column < columns; column += kPlaneChannels) {
      TransposeFour(src + row * src_stride + column, src_stride, dst + column * dst_stride + row,
                    dst_stride);
    }
  }
}

// Calls function(first row, Rows<count>()) for `count` rows, six at a time and then fewer.
template <int kRows>
struct Rows {
  static constexpr int kCount = kRows;
};
template <typename Function>
HWY_INLINE void ForRows(int count, Function function) {
  int row = 0;
  for (; row + 6 <= count; row += 6) function(row, Rows<6>());
  if (row + 4 <= count) {
    function(row, Rows<4>());
    row += 4;
  }
  if (row + 2 <= count) {
    function(row, Rows<2>());
    row += 2;
  }
  if (row < count) function(row, Rows<1>());
}

// Calls function(first, count, place) for a head's channels from `channel` of the input on, plane
// by plane; `first` counts from `channel`, `place` is the first one's from a pixel on.
template <typename Function>
HWY_INLINE void ForPlanes(const WindowAttentionArgs& args, int channel, Function function) {
  for (int first = 0, count; first < args.depth; first += count, channel += count) {
    const int lane = channel % kPlaneChannels;
    count = HWY_MIN(args.depth - first, kPlaneChannels - lane);
    function(first, count, channel / kPlaneChannels * args.token_plane_stride + lane);
  }
}

// Some channels of adjacent keys: a row each, a step for each channel.
template <int kRows>
struct KeyRows {
  HWY_INLINE KeyRows(const float* const* tokens, size_t place) {
    HWY_UNROLL(6)
    for (int row = 0; row < kRows; ++row) keys[row] = tokens[row] + place;
  }
  HWY_INLINE float At(int row, int step) const { return keys[row][step]; }
  const float* keys[kRows];
};

// Some channels of all values: a row for each channel, a step for each token.
struct ValueRows {
  HWY_INLINE float At(int row, int step) const { return tokens[step][place + row]; }
  const float* const* tokens;
  size_t place;
};

// Adds products of `kRows` rows and `kVectors` vectors of queries, `stride` apart.
template <int kRows, int kVectors, class Matrix>
HWY_INLINE void AddProducts(const Matrix& matrix, int steps, const float* HWY_RESTRICT queries,
                            size_t stride, Vec (&sums)[kRows][kVectors]) {
  const Tag d;
  for (int step = 0; step < steps; ++step, queries += stride) {
    Vec vectors[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) vectors[v] = hn::LoadU(d, queries + v * kLanes);
    HWY_UNROLL(6)
    for (int row = 0; row < kRows; ++row) {
      const Vec value = hn::Set(d, matrix.At(row, step));
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = hn::MulAdd(value, vectors[v], sums[row][v]);
      }
    }
  }
}

// Scores of all keys of a head; raises `largest` to the largest of each query.
template <int kVectors>
HWY_INLINE void Score(const WindowAttentionArgs& args, int head, int query, Vec* largest) {
  const Tag d;
  const size_t query_stride = args.query_stride;
  const float* const queries = args.columns + head * args.depth * query_stride + query;
  const float* const biases = args.bias + head * args.token_count * query_stride + query;
  ForRows(args.token_count, [&](int token, auto rows) HWY_ATTR {
    constexpr int kRows = decltype(rows)::kCount;
    Vec sums[kRows][kVectors];
    HWY_UNROLL(6)
    for (int row = 0; row < kRows; ++row) {
      const float* bias = biases + (token + row) * query_stride;
      const Vec absent = hn::Set(d, args.absent[token + row]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = hn::Add(hn::LoadU(d, bias + v * kLanes), absent);
      }
    }
    ForPlanes(args, (args.heads + head) * args.depth,
              [&](int first, int count, size_t place) HWY_ATTR {
                AddProducts(KeyRows<kRows>(args.tokens + token, place), count,
                            queries + first * query_stride, query_stride, sums);
              });
    float* scores = args.scores + static_cast<size_t>(token) * kVectors * kLanes;
    HWY_UNROLL(6)
    for (int row = 0; row < kRows; ++row) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        largest[v] = hn::Max(largest[v], sums[row][v]);
        hn::StoreU(sums[row][v], d, scores + (row * kVectors + v) * kLanes);
      }
    }
  });
}

// Replaces scores by exp(score - the query's largest); `factors` become 1 over their sums.
template <int kVectors>
HWY_INLINE void Exponentiate(float* HWY_RESTRICT scores, int tokens, const Vec* largest,
                             Vec* factors) {
  const Tag d;
  Vec sums[kVectors];
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  for (int token = 0; token < tokens; ++token, scores += kVectors * kLanes) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const Vec weight =
          curves::ExpOfNegative(hn::Sub(hn::LoadU(d, scores + v * kLanes), largest[v]));
      hn::StoreU(weight, d, scores + v * kLanes);
      sums[v] = hn::Add(sums[v], weight);
    }
  }
  for (int v = 0; v < kVectors; ++v) factors[v] = hn::Div(hn::Set(d, 1.0f), sums[v]);
}

// Writes the results of a head over its queries.
template <int kVectors>
HWY_INLINE void AddValues(const WindowAttentionArgs& args, int head, int query,
                          const Vec* factors) {
  const Tag d;
  const size_t query_stride = args.query_stride;
  float* const results = args.columns + head * args.depth * query_stride + query;
  ForPlanes(args, (2 * args.heads + head) * args.depth,
            [&](int first, int count, size_t place) HWY_ATTR {
              ForRows(count, [&](int channel, auto rows) HWY_ATTR {
                constexpr int kRows = decltype(rows)::kCount;
                Vec sums[kRows][kVectors];
                HWY_UNROLL(6)
                for (int row = 0; row < kRows; ++row) {
                  HWY_UNROLL(4)
                  for (int v = 0; v < kVectors; ++v) sums[row][v] = hn::Zero(d);
                }
                AddProducts(ValueRows{args.tokens, place + channel}, args.token_count, args.scores,
                            kVectors * kLanes, sums);
                HWY_UNROLL(6)
                for (int row = 0; row < kRows; ++row) {
                  float* result = results + (first + channel + row) * query_stride;
                  HWY_UNROLL(4)
                  for (int v = 0; v < kVectors; ++v) {
                    hn::StoreU(hn::Mul(sums[row][v], factors[v]), d, result + v * kLanes);
                  }
                }
              });
            });
}

// `kVectors` vectors of queries of one head.
template <int kVectors>
void Attend(const WindowAttentionArgs& args, int head, int query) {
  const Tag d;
  Vec largest[kVectors], factors[kVectors];
  for (int v = 0; v < kVectors; ++v) largest[v] = hn::Set(d, WindowAttentionArgs::kAbsent);
  Score<kVectors>(args, head, query, largest);
  Exponentiate<kVectors>(args.scores, args.token_count, largest, factors);
  AddValues<kVectors>(args, head, query, factors);
}

void AttendHead(const WindowAttentionArgs& args, int head) {
  int query = 0;
  const auto left = [&] { return (args.query_count - query + kLanes - 1) / kLanes; };
  for (; left() >= kMaxVectors; query += kMaxVectors * kLanes) {
    Attend<kMaxVectors>(args, head, query);
  }
  if constexpr (kMaxVectors > 2) {
    if (left() == 3) Attend<3>(args, head, query);
    if (left() == 2) Attend<2>(args, head, query);
  }
  if (left() == 1) Attend<1>(args, head, query);
}

void AttendWindow(const WindowAttentionArgs& args) {
  for (int head = 0; head < args.heads; ++head) AttendHead(args, head);
}

constexpr WindowAttentionFunctions kFunctions = {&Transpose, &AttendWindow};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/graph/windows.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

const WindowAttentionFunctions* FunctionsFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, kFunctions)
}

// Copies the channels of pixels of one plane that are adjacent in a layer and in a window, in which
// they are a plane's width apart.
void CopyPixels(const float* src, int src_stride, int pixels, int channels, float* dst,
                int dst_stride) {
  for (int i = 0; i < pixels; ++i, src += src_stride, dst += dst_stride) {
    if (channels == kPlaneChannels) {
      std::memcpy(dst, src, kPlaneChannels * sizeof(float));  // of a known size: a few moves
    } else {
      std::copy_n(src, channels, dst);
    }
  }
}

int ChannelsAtOnce(const Tensor& tensor) {
  return tensor.blocked() ? kPlaneChannels : tensor.channels;
}

// Copies a plane of a window's pixels out of a layer, as far as there are any.
void GatherPlane(const Tensor& src, int plane, const Rect& window, float* pixels) {
  const Rect inside = Intersect(window, {0, 0, src.layer_width_px, src.layer_height_px});
  for (int y = inside.y; y < inside.bottom(); ++y) {
    const size_t first = size_t{1} * (y - window.y) * window.width + (inside.x - window.x);
    CopyPixels(src.At(y, inside.x) + plane * src.plane_stride, src.pixel_stride, inside.width,
               ChannelsAtOnce(src), pixels + first * kPlaneChannels, kPlaneChannels);
  }
}

// Copies a plane of those pixels of a window that lie in `stored` to a layer.
void ScatterPlane(const float* pixels, const Rect& window, const Rect& stored, int plane,
                  const Tensor& dst) {
  const Rect part = Intersect(window, stored);
  for (int y = part.y; y < part.bottom(); ++y) {
    const size_t first = size_t{1} * (y - window.y) * window.width + (part.x - window.x);
    CopyPixels(pixels + first * kPlaneChannels, kPlaneChannels, part.width, ChannelsAtOnce(dst),
               dst.At(y, part.x) + plane * dst.plane_stride, dst.pixel_stride);
  }
}

class WindowAttentionKernel final : public LayerKernel {
 public:
  WindowAttentionKernel(const Layer& layer, Isa isa)
      : layer_(WithoutWeights(layer)),
        functions_(*FunctionsFor(isa)),
        curve_(CurveFunctionFor(isa)),
        bias_(PackBias(layer)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    // Rows begin with whole windows, and the region may begin within one.
    const Rect stored =
        Intersect(rows, {dst.left_px, rows.y, rows.right() - dst.left_px, rows.height});
    const Rect first = WindowAt(layer_, stored.x, stored.y);
    for (int y = first.y; y < stored.bottom(); y += first.height) {
      for (int x = first.x; x < stored.right(); x += first.width) {
        RunWindow(src[0], dst, {x, y, first.width, first.height}, stored, scratch);
      }
    }
    for (int y = stored.y; y < stored.bottom(); ++y) {
      ApplyActivation(layer_, curve_, dst, y, stored.x, stored.width);
    }
  }

  // For tokens outside the layer: a row of zeros.
  Margin margin() const override { return {1, 0}; }
  size_t ScratchFloats() const override {
    return PointerFloats() + RoundUp(TokenCount(), kPlaneChannels) +
           TokenCount() * WindowAttentionArgs::kMaxQueriesAtOnce +
           (kPlaneChannels + ColumnCount()) * QueryStride();
  }
  size_t WeightBytes() const override { return bias_.bytes(); }

 private:
  static size_t QueryCount(const Layer& layer) {
    return size_t{1} * layer.window_x.window_px * layer.window_y.window_px;
  }
  static size_t TokenCount(const Layer& layer) {
    const Rect window{0, 0, layer.window_x.window_px, layer.window_y.window_px};
    return static_cast<size_t>(KeysOfWindow(layer, window).Area());
  }
  static size_t QueryStride(const Layer& layer) {
    return RoundUp(QueryCount(layer), kPlaneChannels);
  }
  size_t TokenCount() const { return TokenCount(layer_); }
  size_t QueryStride() const { return QueryStride(layer_); }
  // Channels up to a whole plane.
  size_t ColumnCount() const { return RoundUp(layer_.out_channels, kPlaneChannels); }
  // Room for the places of the tokens.
  size_t PointerFloats() const {
    return RoundUp(TokenCount() * sizeof(float*) / sizeof(float), kPlaneChannels);
  }

  // [head][token][query_stride]
  static HugeBuffer PackBias(const Layer& layer) {
    const size_t tokens = TokenCount(layer), queries = QueryCount(layer);
    const size_t stride = QueryStride(layer);
    HugeBuffer bias(layer.groups * tokens * stride);
    std::fill_n(bias.data(), bias.size(), 0.0f);
    if (layer.weights.empty()) return bias;
    const float* from = layer.weights.data();
    for (int head = 0; head < layer.groups; ++head) {
      for (size_t query = 0; query < queries; ++query) {
        for (size_t token = 0; token < tokens; ++token) {
          bias.data()[(head * tokens + token) * stride + query] = *from++;
        }
      }
    }
    return bias;
  }

  // The part of a window in `rows`.
  void RunWindow(const Tensor& src, const Tensor& dst, const Rect& window, const Rect& rows,
                 float* scratch) const {
    const auto tokens = reinterpret_cast<const float**>(scratch);
    float* const absent = scratch + PointerFloats();
    float* const scores = absent + RoundUp(TokenCount(), kPlaneChannels);
    float* const pixels = scores + TokenCount() * WindowAttentionArgs::kMaxQueriesAtOnce;
    float* const columns = pixels + kPlaneChannels * QueryStride();
    FindTokens(src, KeysOfWindow(layer_, window), tokens, absent);
    const int queries = static_cast<int>(QueryCount(layer_));
    for (size_t channel = 0; channel < ColumnCount(); channel += kPlaneChannels) {
      GatherPlane(src, static_cast<int>(channel / kPlaneChannels), window, pixels);
      functions_.transpose(pixels, kPlaneChannels, RoundUp(queries, 4), kPlaneChannels,
                           columns + channel * QueryStride(), QueryStride());
    }
    functions_.attend({.columns = columns,
                       .query_count = queries,
                       .query_stride = static_cast<int>(QueryStride()),
                       .tokens = tokens,
                       .token_plane_stride = src.plane_stride,
                       .token_count = static_cast<int>(TokenCount()),
                       .heads = layer_.groups,
                       .depth = layer_.out_channels / layer_.groups,
                       .bias = bias_.data(),
                       .absent = absent,
                       .scores = scores});
    std::fill(columns + layer_.out_channels * QueryStride(),
              columns + ColumnCount() * QueryStride(), 0.0f);
    for (int plane = 0; plane < dst.planes(); ++plane) {
      functions_.transpose(columns + plane * kPlaneChannels * QueryStride(), QueryStride(),
                           kPlaneChannels, QueryStride(), pixels, kPlaneChannels);
      ScatterPlane(pixels, window, rows, plane, dst);
    }
  }

  // Where the pixels of the keys lie, and which do not count; those outside the layer read as zero.
  void FindTokens(const Tensor& src, const Rect& keys, const float** tokens, float* absent) const {
    const Rect whole{0, 0, src.layer_width_px, src.layer_height_px};
    const Rect counted = CountedPixels(layer_, src.layer_size());
    const float* const zeros = src.At(-1, src.left_px);
    for (int y = keys.y; y < keys.bottom(); ++y) {
      const float* row = src.At(y, 0);
      for (int x = keys.x; x < keys.right(); ++x) {
        const Rect pixel{x, y, 1, 1};
        *tokens++ = whole.Contains(pixel) ? row + ptrdiff_t{x} * src.pixel_stride : zeros;
        *absent++ = counted.Contains(pixel) ? 0 : WindowAttentionArgs::kAbsent;
      }
    }
  }

  const Layer layer_;
  const WindowAttentionFunctions& functions_;
  const CurveFunction curve_;
  const HugeBuffer bias_;
};

}  // namespace

bool WindowAttentionSupports(const Layer& layer) { return layer.op == Op::kWindowAttention; }

std::unique_ptr<LayerKernel> MakeWindowAttention(const Layer& layer, Isa isa) {
  return std::make_unique<WindowAttentionKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
