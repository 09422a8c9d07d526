// A window at a time. Its pixels are gathered with their channels side by side; then, head by head,
// its keys are transposed, so that a vector holds the scores of adjacent keys. Up to four queries
// share what is loaded: scores are 4 x 2 vectors in registers over the head's channels, results 4 x
// 2 over the keys. A query's sums run in one order that only its window decides, so that no tile,
// thread or group of queries changes them.
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
constexpr int kMaxQueries = 4;

void TransposeKeys(const WindowAttentionArgs& args, int head) {
  const int tokens = args.window_px * args.window_px;
  const float* src = args.tokens + static_cast<size_t>(args.heads + head) * args.depth;
  for (int token = 0; token < tokens; ++token, src += args.token_stride) {
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

// Replaces a row of scores by exp(score - the largest); returns 1 over their sum.
HWY_INLINE Vec Exponentiate(float* HWY_RESTRICT scores, int count) {
  const Tag d;
  Vec largest = hn::LoadU(d, scores);
  for (int i = kLanes; i < count; i += kLanes) {
    largest = hn::Max(largest, hn::LoadU(d, scores + i));
  }
  largest = hn::MaxOfLanes(d, largest);
  Vec sum = hn::Zero(d);
  for (int i = 0; i < count; i += kLanes) {
    const Vec weight = curves::Exp(hn::Sub(hn::LoadU(d, scores + i), largest));
    hn::StoreU(weight, d, scores + i);
    sum = hn::Add(sum, weight);
  }
  return hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
}

// `kQueries` queries of one head, adjacent in a row of the window.
template <int kQueries>
void Attend(const WindowAttentionArgs& args, int head, int query, float* HWY_RESTRICT dst) {
  const Tag d;
  const int tokens = args.window_px * args.window_px;
  const float* bias = args.bias + (static_cast<size_t>(head) * tokens + query) * args.key_stride;
  const float* queries =
      args.tokens + static_cast<size_t>(query) * args.token_stride + head * args.depth;
  int key = 0;
  for (; key + 2 * kLanes <= args.key_stride; key += 2 * kLanes) {
    Score<kQueries, 2>(args, queries, bias, key);
  }
  if (key < args.key_stride) Score<kQueries, 1>(args, queries, bias, key);
  Vec factors[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    factors[i] =
        Exponentiate(args.scores + static_cast<size_t>(i) * args.key_stride, args.key_stride);
  }
  for (int c = 0; c < args.depth; c += 2 * kLanes) {
    Vec sums[kQueries][2];
    for (int i = 0; i < kQueries; ++i) sums[i][0] = sums[i][1] = hn::Zero(d);
    const float* HWY_RESTRICT value =
        args.tokens + static_cast<size_t>(2 * args.heads + head) * args.depth + c;
    for (int token = 0; token < tokens; ++token, value += args.token_stride) {
      const Vec low = hn::LoadU(d, value), high = hn::LoadU(d, value + kLanes);
      for (int i = 0; i < kQueries; ++i) {
        const Vec weight =
            hn::Set(d, args.scores[static_cast<size_t>(i) * args.key_stride + token]);
        sums[i][0] = hn::MulAdd(weight, low, sums[i][0]);
        sums[i][1] = hn::MulAdd(weight, high, sums[i][1]);
      }
    }
    for (int i = 0; i < kQueries; ++i) {
      // Values behind the head's channels lie where the next head stores.
      float* to = dst + static_cast<size_t>(i) * args.dst_stride + head * args.depth + c;
      hn::StoreU(hn::Mul(sums[i][0], factors[i]), d, to);
      hn::StoreU(hn::Mul(sums[i][1], factors[i]), d, to + kLanes);
    }
  }
}

void AttendWindow(const WindowAttentionArgs& args) {
  for (int head = 0; head < args.heads; ++head) {
    TransposeKeys(args, head);
    float* dst = args.dst;
    for (int y = args.first_y; y < args.end_y; ++y) {
      int x = args.first_x;
      for (; x + kMaxQueries <= args.end_x; x += kMaxQueries) {
        Attend<kMaxQueries>(args, head, y * args.window_px + x, dst);
        dst += static_cast<size_t>(kMaxQueries) * args.dst_stride;
      }
      for (; x < args.end_x; ++x, dst += args.dst_stride) {
        Attend<1>(args, head, y * args.window_px + x, dst);
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
#include "engine/graph/tile_geometry.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

using AttendFunction = void (*)(const WindowAttentionArgs& args);

AttendFunction AttendFunctionFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, AttendWindow) }

constexpr int kSpareFloats = 2 * kPlaneChannels;  // read and written behind the last head
constexpr int kQueriesAtOnce = 4;
constexpr float kAbsent = -1e30f;  // its exponential is zero next to any score

// A pixel's channels side by side, up to a whole plane.
void LoadPixel(const Tensor& src, const float* pixel, float* dst) {
  if (!src.blocked()) {
    std::copy_n(pixel, src.channels, dst);
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
    const int side = layer_.window_px, shift = layer_.shift_px;
    for (int y = BlockBegin(rows.y, side, -shift); y < rows.bottom(); y += side) {
      for (int x = BlockBegin(rows.x, side, -shift); x < rows.right(); x += side) {
        RunWindow(src[0], dst, {x, y, side, side}, rows, scratch);
      }
    }
    for (int y = rows.y; y < rows.bottom(); ++y) {
      ApplyActivation(layer_, curve_, dst, y, rows.x, rows.width);
    }
  }

  size_t ScratchFloats() const override {
    const size_t tokens = Tokens();
    return tokens * (TokenStride() + DstStride()) +
           size_t{1} * KeyStride() * (1 + Depth() + kQueriesAtOnce);
  }
  size_t WeightBytes() const override { return bias_.size() * sizeof(float); }

 private:
  int Tokens() const { return layer_.window_px * layer_.window_px; }
  int Depth() const { return layer_.out_channels / layer_.groups; }
  int KeyStride() const { return RoundUp(Tokens(), kPlaneChannels); }
  int TokenStride() const { return RoundUp(layer_.in_channels, kPlaneChannels) + kSpareFloats; }
  int DstStride() const { return RoundUp(layer_.out_channels, kPlaneChannels) + kSpareFloats; }

  // [head][query][key_stride]. Memory is planned by layers without weights: they have rows, too.
  static std::vector<float> PackBias(const Layer& layer) {
    const size_t tokens = size_t{1} * layer.window_px * layer.window_px;
    const size_t stride = RoundUp(static_cast<int>(tokens), kPlaneChannels);
    const size_t rows = layer.groups * tokens;
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
    const Rect queries = Intersect(window, rows);
    float* const tokens = scratch;
    float* const absent = tokens + size_t{1} * Tokens() * TokenStride();
    float* const keys = absent + KeyStride();
    float* const scores = keys + size_t{1} * Depth() * KeyStride();
    float* const results = scores + size_t{1} * kQueriesAtOnce * KeyStride();
    Gather(src, window, tokens, absent);
    for (int c = 0; c < Depth(); ++c) {  // behind the keys: finite
      std::fill(keys + size_t{1} * c * KeyStride() + Tokens(),
                keys + size_t{1} * (c + 1) * KeyStride(), 0.0f);
    }
    attend_({.tokens = tokens,
             .token_stride = TokenStride(),
             .window_px = layer_.window_px,
             .heads = layer_.groups,
             .depth = Depth(),
             .first_x = queries.x - window.x,
             .end_x = queries.right() - window.x,
             .first_y = queries.y - window.y,
             .end_y = queries.bottom() - window.y,
             .bias = bias_.data(),
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

  void Gather(const Tensor& src, const Rect& window, float* token, float* absent) const {
    const Size size = src.layer_size();
    const Rect inside = Intersect(window, {0, 0, size.width, size.height});
    std::fill(absent, absent + KeyStride(), 0.0f);
    for (int y = window.y; y < window.bottom(); ++y) {
      for (int x = window.x; x < window.right(); ++x, token += TokenStride(), ++absent) {
        std::fill(token, token + TokenStride(), 0.0f);
        const bool there =
            x >= inside.x && x < inside.right() && y >= inside.y && y < inside.bottom();
        if (there) {
          LoadPixel(src, src.At(y, x), token);
        } else {
          *absent = kAbsent;
        }
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
