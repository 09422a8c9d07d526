// A window at a time. Its pixels are gathered with their channels side by side; then, head by head,
// its keys are transposed, so that a vector holds the scores of adjacent keys. Up to six queries
// share the vectors that are loaded: scores are 6 x 3 or 4 x 4 vectors in registers over the head's
// channels (6 x 2 without AVX-512), results 6 x 2 over the keys. Six fit windows of 6 and 12. A
// query's sums run in one order that only its window decides, so that no tile, thread or group of
// queries changes them.
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

#if HWY_TARGET != HWY_SCALAR
// Four tokens, kLanes channels from `c` on: blocks of 4x4 values change places, and a block's rows
// are stored one by one.
HWY_INLINE void TransposeFour(const WindowAttentionArgs& args, const float* HWY_RESTRICT src, int c,
                              int token) {
  const Tag d;
  const hn::Repartition<double, Tag> pairs;
  const hn::FixedTag<float, 4> block;
  Vec rows[4];
  for (int i = 0; i < 4; ++i) {
    rows[i] = hn::LoadU(d, src + static_cast<size_t>(i) * args.token_stride + c);
  }
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
      float* dst = args.keys + static_cast<size_t>(c + at + i) * args.key_stride + token;
      hn::StoreU(hn::Load(block, values[i] + at), block, dst);
    }
  }
}
#endif

void TransposeKeys(const WindowAttentionArgs& args, int head) {
  const float* src = args.tokens + static_cast<size_t>(args.heads + head) * args.depth;
  int token = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; token + 4 <= args.token_count; token += 4, src += 4 * args.token_stride) {
    for (int c = 0; c < args.depth; c += kLanes) TransposeFour(args, src, c, token);
  }
#endif
  for (; token < args.token_count; ++token, src += args.token_stride) {
    for (int c = 0; c < args.depth; ++c) {
      args.keys[static_cast<size_t>(c) * args.key_stride + token] = src[c];
    }
  }
}

// The scores of `kQueries` queries with `kVectors` vectors of keys from `key` on.
template <int kQueries, int kVectors>
HWY_INLINE void Score(const WindowAttentionArgs& args, const float* HWY_RESTRICT queries,
                      const float* HWY_RESTRICT bias, int key) {
  const Tag d;
  Vec sums[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const int at = key + v * kLanes;
      sums[i][v] = hn::Add(hn::LoadU(d, bias + static_cast<size_t>(i) * args.key_stride + at),
                           hn::LoadU(d, args.absent + at));
    }
  }
  const float* HWY_RESTRICT keys = args.keys + key;
  for (int c = 0; c < args.depth; ++c, keys += args.key_stride) {
    Vec k[kVectors];
    for (int v = 0; v < kVectors; ++v) k[v] = hn::LoadU(d, keys + v * kLanes);
    for (int i = 0; i < kQueries; ++i) {
      const Vec q = hn::Set(d, queries[static_cast<size_t>(i) * args.token_stride + c]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(q, k[v], sums[i][v]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[i][v], d,
                 args.scores + static_cast<size_t>(i) * args.key_stride + key + v * kLanes);
    }
  }
}

// The scores of all keys.
template <int kQueries>
HWY_INLINE void ScoreAll(const WindowAttentionArgs& args, const float* HWY_RESTRICT queries,
                         const float* HWY_RESTRICT bias) {
  int key = 0;
  if constexpr (kLanes == kPlaneChannels) {  // more registers
    if constexpr (kQueries <= 4) {
      for (; key + 4 * kLanes <= args.key_stride; key += 4 * kLanes) {
        Score<kQueries, 4>(args, queries, bias, key);
      }
    }
    for (; key + 3 * kLanes <= args.key_stride; key += 3 * kLanes) {
      Score<kQueries, 3>(args, queries, bias, key);
    }
  }
  for (; key + 2 * kLanes <= args.key_stride; key += 2 * kLanes) {
    Score<kQueries, 2>(args, queries, bias, key);
  }
  if (key < args.key_stride) Score<kQueries, 1>(args, queries, bias, key);
}

// Replaces each row of scores by exp(score - the largest); `factors` become 1 over their sums.
template <int kQueries>
HWY_INLINE void Exponentiate(float* HWY_RESTRICT scores, int count, Vec* HWY_RESTRICT factors) {
  const Tag d;
  Vec largest[kQueries], sums[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    largest[i] = hn::LoadU(d, scores + static_cast<size_t>(i) * count);
  }
  for (int key = kLanes; key < count; key += kLanes) {
    for (int i = 0; i < kQueries; ++i) {
      largest[i] = hn::Max(largest[i], hn::LoadU(d, scores + static_cast<size_t>(i) * count + key));
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    largest[i] = hn::MaxOfLanes(d, largest[i]);
    sums[i] = hn::Zero(d);
  }
  for (int key = 0; key < count; key += kLanes) {
    for (int i = 0; i < kQueries; ++i) {
      float* at = scores + static_cast<size_t>(i) * count + key;
      const Vec weight = curves::Exp(hn::Sub(hn::LoadU(d, at), largest[i]));
      hn::StoreU(weight, d, at);
      sums[i] = hn::Add(sums[i], weight);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    factors[i] = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sums[i]));
  }
}

// Sums up `kVectors` vectors of a head's values from channel `c` on, by the queries' weights.
template <int kQueries, int kVectors>
HWY_INLINE void AddValues(const WindowAttentionArgs& args, int head, int c, const Vec* factors,
                          float* HWY_RESTRICT dst) {
  const Tag d;
  Vec sums[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  }
  const float* HWY_RESTRICT value =
      args.tokens + static_cast<size_t>(2 * args.heads + head) * args.depth + c;
  for (int token = 0; token < args.token_count; ++token, value += args.token_stride) {
    Vec values[kVectors];
    for (int v = 0; v < kVectors; ++v) values[v] = hn::LoadU(d, value + v * kLanes);
    for (int i = 0; i < kQueries; ++i) {
      const Vec weight = hn::Set(d, args.scores[static_cast<size_t>(i) * args.key_stride + token]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(weight, values[v], sums[i][v]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    // Values behind the head's channels lie where the next head stores.
    float* to = dst + static_cast<size_t>(i) * args.dst_stride + head * args.depth + c;
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(hn::Mul(sums[i][v], factors[i]), d, to + v * kLanes);
    }
  }
}

// `kQueries` queries of one head, adjacent in a row of the window from (x, y) on.
template <int kQueries>
void Attend(const WindowAttentionArgs& args, int head, int x, int y, float* HWY_RESTRICT dst) {
  const int query = y * args.window_width + x;
  const float* bias =
      args.bias + (static_cast<size_t>(head) * args.bias_rows + query) * args.key_stride;
  const int token = (y + args.overlap_px) * args.token_width + x + args.overlap_px;
  const float* queries =
      args.tokens + static_cast<size_t>(token) * args.token_stride + head * args.depth;
  ScoreAll<kQueries>(args, queries, bias);
  Vec factors[kQueries];
  Exponentiate<kQueries>(args.scores, args.key_stride, factors);
  int c = 0;
  for (; c + kLanes < args.depth; c += 2 * kLanes) {
    AddValues<kQueries, 2>(args, head, c, factors, dst);
  }
  if (c < args.depth) AddValues<kQueries, 1>(args, head, c, factors, dst);
}

// As many adjacent queries as there are, up to `kQueries`; returns their number.
template <int kQueries>
HWY_INLINE int AttendUpTo(const WindowAttentionArgs& args, int head, int x, int y, float* dst) {
  if (args.end_x - x < kQueries) return 0;
  Attend<kQueries>(args, head, x, y, dst);
  return kQueries;
}

void AttendWindow(const WindowAttentionArgs& args) {
  for (int head = 0; head < args.heads; ++head) {
    TransposeKeys(args, head);
    float* dst = args.dst;
    for (int y = args.first_y; y < args.end_y; ++y) {
      for (int x = args.first_x; x < args.end_x;) {
        int count = (args.end_x - x) % 6 == 0 ? AttendUpTo<6>(args, head, x, y, dst) : 0;
        if (count == 0) count = AttendUpTo<4>(args, head, x, y, dst);
        if (count == 0) count = AttendUpTo<2>(args, head, x, y, dst);
        if (count == 0) count = AttendUpTo<1>(args, head, x, y, dst);
        x += count;
        dst += static_cast<size_t>(count) * args.dst_stride;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/graph/windows.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

using AttendFunction = void (*)(const WindowAttentionArgs& args);

AttendFunction AttendFunctionFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, AttendWindow) }

constexpr int kSpareFloats = 2 * kPlaneChannels;  // read and written behind the last head
constexpr int kQueriesAtOnce = 6;
constexpr float kAbsent = -1e30f;  // its exponential is zero next to any score

// A pixel's channels side by side, up to a whole plane, and zeros behind them.
void LoadPixel(const Tensor& src, const float* pixel, float* dst) {
  std::fill_n(dst + RoundUp(src.channels, kPlaneChannels), kSpareFloats, 0.0f);
  if (!src.blocked()) {
    std::copy_n(pixel, src.channels, dst);
    std::fill(dst + src.channels, dst + kPlaneChannels, 0.0f);
    return;
  }
  for (int plane = 0; plane < src.planes(); ++plane, pixel += src.plane_stride) {
    std::copy_n(pixel, kPlaneChannels, dst + static_cast<size_t>(plane) * kPlaneChannels);
  }
}

void StorePixel(const float* src, const Tensor& dst, float* pixel) {
  if (!dst.blocked()) {
    std::copy_n(src, dst.channels, pixel);
    return;
  }
  for (int plane = 0; plane < dst.planes(); ++plane, pixel += dst.plane_stride) {
    std::copy_n(src + static_cast<size_t>(plane) * kPlaneChannels, kPlaneChannels, pixel);
  }
}

class WindowAttentionKernel final : public LayerKernel {
 public:
  WindowAttentionKernel(const Layer& layer, Isa isa)
      : layer_(WithoutWeights(layer)),
        attend_(AttendFunctionFor(isa)),
        curve_(CurveFunctionFor(isa)),
        bias_(PackBias(layer)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    const Rect first = WindowAt(layer_, rows.x, rows.y);
    for (int y = first.y; y < rows.bottom(); y += first.height) {
      for (int x = first.x; x < rows.right(); x += first.width) {
        RunWindow(src[0], dst, {x, y, first.width, first.height}, rows, scratch);
      }
    }
    for (int y = rows.y; y < rows.bottom(); ++y) {
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  size_t ScratchFloats() const override {
    return size_t{1} * TokensOf(layer_) * TokenStride() +
           size_t{1} * QueriesOf(layer_) * DstStride() +
           size_t{1} * KeyStride() * (1 + KeyRows() + kQueriesAtOnce);
  }
  size_t WeightBytes() const override { return bias_.size() * sizeof(float); }

 private:
  static int QueriesOf(const Layer& layer) {
    return layer.window_x.window_px * layer.window_y.window_px;
  }
  static int TokensOf(const Layer& layer) {
    const Rect window{0, 0, layer.window_x.window_px, layer.window_y.window_px};
    return static_cast<int>(KeysOfWindow(layer, window).Area());
  }
  int Depth() const { return layer_.out_channels / layer_.groups; }
  // Rows of transposed keys: channels of a head, up to whole vectors.
  int KeyRows() const { return RoundUp(Depth(), kPlaneChannels); }
  int KeyStride() const { return RoundUp(TokensOf(layer_), kPlaneChannels); }
  int TokenStride() const { return RoundUp(layer_.in_channels, kPlaneChannels) + kSpareFloats; }
  int DstStride() const { return RoundUp(layer_.out_channels, kPlaneChannels) + kSpareFloats; }

  // [head][query][key_stride]. Memory is planned by layers without weights: they have rows, too.
  static std::vector<float> PackBias(const Layer& layer) {
    const size_t tokens = TokensOf(layer);
    const size_t stride = RoundUp(TokensOf(layer), kPlaneChannels);
    const size_t rows = size_t{1} * layer.groups * QueriesOf(layer);
    std::vector<float> bias(rows * stride, kAbsent);
    if (layer.weights.empty()) return bias;
    for (size_t row = 0; row < rows; ++row) {
      std::copy_n(layer.weights.begin() + static_cast<ptrdiff_t>(row * tokens), tokens,
                  bias.begin() + static_cast<ptrdiff_t>(row * stride));
    }
    return bias;
  }

  // The part of a window that lies in `rows`.
  void RunWindow(const Tensor& src, const Tensor& dst, const Rect& window, const Rect& rows,
                 float* scratch) const {
    const Rect queries = Intersect(window, rows), keys_of = KeysOfWindow(layer_, window);
    const int token_count = TokensOf(layer_);
    float* const tokens = scratch;
    float* const absent = tokens + size_t{1} * token_count * TokenStride();
    float* const keys = absent + KeyStride();
    float* const scores = keys + size_t{1} * KeyRows() * KeyStride();
    float* const results = scores + size_t{1} * kQueriesAtOnce * KeyStride();
    Gather(src, keys_of, tokens, absent);
    for (int c = 0; c < Depth(); ++c) {  // behind the keys: finite
      std::fill(keys + size_t{1} * c * KeyStride() + token_count,
                keys + size_t{1} * (c + 1) * KeyStride(), 0.0f);
    }
    attend_({.tokens = tokens,
             .token_stride = TokenStride(),
             .token_width = keys_of.width,
             .token_count = token_count,
             .window_width = window.width,
             .overlap_px = layer_.overlap_px,
             .heads = layer_.groups,
             .depth = Depth(),
             .first_x = queries.x - window.x,
             .end_x = queries.right() - window.x,
             .first_y = queries.y - window.y,
             .end_y = queries.bottom() - window.y,
             .bias = bias_.data(),
             .bias_rows = QueriesOf(layer_),
             .absent = absent,
             .key_stride = KeyStride(),
             .keys = keys,
             .scores = scores,
             .dst = results,
             .dst_stride = DstStride()});
    float* result = results;
    for (int y = queries.y; y < queries.bottom(); ++y) {
      for (int x = queries.x; x < queries.right(); ++x, result += DstStride()) {
        std::fill(result + layer_.out_channels, result + DstStride(), 0.0f);
        StorePixel(result, dst, dst.At(y, x));
      }
    }
  }

  void Gather(const Tensor& src, const Rect& keys, float* token, float* absent) const {
    const Size size = src.layer_size();
    const Rect whole{0, 0, size.width, size.height}, counted = CountedPixels(layer_, size);
    std::fill(absent, absent + KeyStride(), 0.0f);
    for (int y = keys.y; y < keys.bottom(); ++y) {
      for (int x = keys.x; x < keys.right(); ++x, token += TokenStride(), ++absent) {
        const Rect pixel{x, y, 1, 1};
        if (whole.Contains(pixel)) {
          LoadPixel(src, src.At(y, x), token);
        } else {
          std::fill(token, token + TokenStride(), 0.0f);
        }
        if (!counted.Contains(pixel)) *absent = kAbsent;
      }
    }
  }

  const Layer layer_;
  const AttendFunction attend_;
  const CurveFunction curve_;
  const std::vector<float> bias_;
};

}  // namespace

bool WindowAttentionSupports(const Layer& layer) { return layer.op == Op::kWindowAttention; }

std::unique_ptr<LayerKernel> MakeWindowAttention(const Layer& layer, Isa isa) {
  return std::make_unique<WindowAttentionKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
