// Every transform is done in two dimensions one after the other, on a vector of channels at a time;
// between them the tile lies in the first-level cache.
#include "engine/train/kernels/winograd_transforms.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/train/kernels/winograd_transforms.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/winograd_transform-inl.h"
#include "engine/backends/cpu/kernels/winograd_weights.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace inl = cpu::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));

// Transforms missing in the engine: the derivative of Output, kOutputs values to kPoints (A), and
// the weights' G.
struct F4 : inl::F4 {
  static constexpr auto& kWeights = cpu::kF4Weights;

  static HWY_INLINE void Gradient(Tag d, const Vec* y, Vec* t) {
    const Vec even1 = hn::Add(y[0], y[2]), odd1 = hn::Add(y[1], y[3]);
    const Vec even2 = inl::AddScaled(d, 4.0f, y[2], y[0]);
    const Vec odd2 = inl::AddScaled(d, 4.0f, y[3], y[1]);
    t[0] = y[0];
    t[1] = hn::Add(even1, odd1);
    t[2] = hn::Sub(even1, odd1);
    t[3] = inl::AddScaled(d, 2.0f, odd2, even2);
    t[4] = inl::SubScaled(d, 2.0f, odd2, even2);
    t[5] = y[3];
  }
};

struct F6 : inl::F6 {
  static constexpr auto& kWeights = cpu::kF6Weights;

  static HWY_INLINE void Gradient(Tag d, const Vec* y, Vec* t) {
    const Vec even1 = hn::Add(y[0], hn::Add(y[2], y[4]));
    const Vec odd1 = hn::Add(y[1], hn::Add(y[3], y[5]));
    const Vec even2 = inl::AddScaled(d, 16.0f, y[4], inl::AddScaled(d, 4.0f, y[2], y[0]));
    const Vec odd2 = inl::AddScaled(d, 16.0f, y[5], inl::AddScaled(d, 4.0f, y[3], y[1]));
    const Vec even3 = inl::AddScaled(d, 16.0f, y[0], inl::AddScaled(d, 4.0f, y[2], y[4]));
    const Vec odd3 = inl::AddScaled(d, 16.0f, y[1], inl::AddScaled(d, 4.0f, y[3], y[5]));
    t[0] = y[0];
    t[1] = hn::Add(even1, odd1);
    t[2] = hn::Sub(even1, odd1);
    t[3] = inl::AddScaled(d, 2.0f, odd2, even2);
    t[4] = inl::SubScaled(d, 2.0f, odd2, even2);
    t[5] = inl::AddScaled(d, 2.0f, even3, odd3);
    t[6] = hn::MulSub(hn::Set(d, 2.0f), even3, odd3);
    t[7] = y[5];
  }
};

template <class W>
struct InputStep {
  static constexpr int kFrom = W::kPoints;
  static HWY_INLINE void Run(Tag d, const Vec* s, Vec* t) { W::Input(d, s, t); }
};
template <class W>
struct GradientStep {
  static constexpr int kFrom = W::kOutputs;
  static HWY_INLINE void Run(Tag d, const Vec* s, Vec* t) { W::Gradient(d, s, t); }
};

// A square of kFrom pixels to kPoints x kPoints points.
template <class W, class S>
void ToPoints(const WinogradPixels& src, int channels, float* HWY_RESTRICT points,
              size_t point_stride) {
  constexpr int kN = W::kPoints, kFrom = S::kFrom;
  const Tag d;
  HWY_ALIGN float half[kN * kFrom * kLanes];
  for (int c = 0; c < channels; c += kLanes) {
    HWY_UNROLL(1)
    for (int x = 0; x < kFrom; ++x) {
      const float* HWY_RESTRICT column = src.values + x * src.pixel_stride + c;
      Vec s[kFrom], t[kN];
      HWY_UNROLL(8)
      for (int y = 0; y < kFrom; ++y) s[y] = hn::Load(d, column + y * src.line_stride);
      S::Run(d, s, t);
      HWY_UNROLL(8)
      for (int y = 0; y < kN; ++y) hn::Store(t[y], d, half + (y * kFrom + x) * kLanes);
    }
    HWY_UNROLL(1)
    for (int y = 0; y < kN; ++y) {
      Vec s[kFrom], t[kN];
      HWY_UNROLL(8)
      for (int x = 0; x < kFrom; ++x) s[x] = hn::Load(d, half + (y * kFrom + x) * kLanes);
      S::Run(d, s, t);
      HWY_UNROLL(8)
      for (int x = 0; x < kN; ++x) hn::Store(t[x], d, points + (y * kN + x) * point_stride + c);
    }
  }
}

template <class W>
void Output(const float* HWY_RESTRICT m, size_t point_stride, int channels, int lines, int columns,
            const WinogradEpilogue& epilogue, const WinogradPixels& dst) {
  constexpr int kN = W::kPoints, kM = W::kOutputs;
  const Tag d;
  HWY_ALIGN float half[kM * kN * kLanes];
  const Vec zero = hn::Zero(d), slope = hn::Set(d, epilogue.slope);
  for (int c = 0; c < channels; c += kLanes) {
    HWY_UNROLL(1)
    for (int x = 0; x < kN; ++x) {
      Vec s[kN], t[kM];
      HWY_UNROLL(8)
      for (int y = 0; y < kN; ++y) s[y] = hn::Load(d, m + (y * kN + x) * point_stride + c);
      W::Output(d, s, t);
      HWY_UNROLL(8)
      for (int y = 0; y < kM; ++y) hn::Store(t[y], d, half + (y * kN + x) * kLanes);
    }
    const Vec bias = epilogue.bias == nullptr ? zero : hn::Load(d, epilogue.bias + c);
    HWY_UNROLL(1)
    for (int y = 0; y < lines; ++y) {
      Vec s[kN], t[kM];
      HWY_UNROLL(8)
      for (int x = 0; x < kN; ++x) s[x] = hn::Load(d, half + (y * kN + x) * kLanes);
      W::Output(d, s, t);
      float* HWY_RESTRICT line = dst.values + y * dst.line_stride + c;
      HWY_UNROLL(8)
      for (int x = 0; x < kM; ++x) {
        if (x >= columns) continue;
        float* pixel = line + x * dst.pixel_stride;
        Vec v = hn::Add(t[x], bias);
        v = hn::MulAdd(slope, hn::Min(v, zero), hn::Max(v, zero));
        if (epilogue.add) v = hn::Add(v, hn::Load(d, pixel));
        hn::Store(v, d, pixel);
      }
    }
  }
}

template <class W>
void Weights(const float* HWY_RESTRICT w, size_t count, float* HWY_RESTRICT u) {
  constexpr int kN = W::kPoints;
  const Tag d;
  const auto sum = [d](const auto& g, Vec a, Vec b, Vec c) HWY_ATTR {
    return hn::MulAdd(hn::Set(d, static_cast<float>(g[0])), a,
                      hn::MulAdd(hn::Set(d, static_cast<float>(g[1])), b,
                                 hn::Mul(hn::Set(d, static_cast<float>(g[2])), c)));
  };
  HWY_ALIGN float half[kN * 3 * kLanes];
  for (size_t i = 0; i < count; i += kLanes) {
    for (int y = 0; y < kN; ++y) {
      for (int x = 0; x < 3; ++x) {
        hn::Store(sum(W::kWeights[y], hn::Load(d, w + x * count + i),
                      hn::Load(d, w + (3 + x) * count + i), hn::Load(d, w + (6 + x) * count + i)),
                  d, half + (y * 3 + x) * kLanes);
      }
    }
    for (int y = 0; y < kN; ++y) {
      const float* row = half + y * 3 * kLanes;
      const Vec a = hn::Load(d, row), b = hn::Load(d, row + kLanes),
                c = hn::Load(d, row + 2 * kLanes);
      for (int x = 0; x < kN; ++x) {
        hn::Store(sum(W::kWeights[x], a, b, c), d, u + (y * kN + x) * count + i);
      }
    }
  }
}

template <class W>
void WeightGradient(const float* HWY_RESTRICT u, size_t count, float* HWY_RESTRICT w) {
  constexpr int kN = W::kPoints;
  const Tag d;
  HWY_ALIGN float half[kN * 3 * kLanes];
  for (size_t i = 0; i < count; i += kLanes) {
    for (int y = 0; y < kN; ++y) {
      for (int tap = 0; tap < 3; ++tap) {
        Vec sum = hn::Zero(d);
        for (int x = 0; x < kN; ++x) {
          sum = inl::AddScaled(d, static_cast<float>(W::kWeights[x][tap]),
                               hn::Load(d, u + (y * kN + x) * count + i), sum);
        }
        hn::Store(sum, d, half + (y * 3 + tap) * kLanes);
      }
    }
    for (int tap = 0; tap < 9; ++tap) {
      Vec sum = hn::Zero(d);
      for (int y = 0; y < kN; ++y) {
        sum = inl::AddScaled(d, static_cast<float>(W::kWeights[y][tap / 3]),
                             hn::Load(d, half + (y * 3 + tap % 3) * kLanes), sum);
      }
      hn::Store(sum, d, w + tap * count + i);
    }
  }
}

template <class W>
constexpr WinogradTransforms kTransformsOf = {
    W::kOutputs, &ToPoints<W, InputStep<W>>, &ToPoints<W, GradientStep<W>>, &Output<W>,
    &Weights<W>, &WeightGradient<W>};
constexpr WinogradTransforms kF4Transforms = kTransformsOf<F4>;
constexpr WinogradTransforms kF6Transforms = kTransformsOf<F6>;

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::train {
namespace {

using cpu::Isa;

const WinogradTransforms* F4For(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, kF4Transforms) }
const WinogradTransforms* F6For(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, kF6Transforms) }

}  // namespace

const WinogradTransforms& WinogradF4For(Isa isa) { return *F4For(isa); }
const WinogradTransforms& WinogradF6For(Isa isa) { return *F6For(isa); }

}  // namespace upscaled::train
#endif  // HWY_ONCE
