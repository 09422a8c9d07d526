// One vector of adjacent pixels at a time: the window is walked tap by tap, and a tap is an
// unaligned load of each colour's plane. Both Gaussians are one exp2, since the logarithm of the
// closeness is a constant of the tap. Sums are of differences to the centre. This keeps the digits
// for a mean of nearly equal values. A pixel's arithmetic depends only on its window.
#include "engine/image/bilateral_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/image/bilateral_row.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^x for x <= 0 within 3e-6 of it, and 0 below 2^-127: the Taylor polynomial of the fraction, and
// an exponent put together for the rest.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  x = hn::Max(x, hn::Set(d, -127.0f));
  const V whole = hn::Round(x);
  const V fraction = hn::Sub(x, whole);
  V sum = hn::Set(d, 1.3333558e-3f);  // ln(2)^k / k!, from k = 5 down
  sum = hn::MulAdd(sum, fraction, hn::Set(d, 9.6181291e-3f));
  sum = hn::MulAdd(sum, fraction, hn::Set(d, 5.5504109e-2f));
  sum = hn::MulAdd(sum, fraction, hn::Set(d, 2.4022651e-1f));
  sum = hn::MulAdd(sum, fraction, hn::Set(d, 6.9314718e-1f));
  sum = hn::MulAdd(sum, fraction, hn::Set(d, 1.0f));
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::Add(hn::ConvertTo(di, whole), hn::Set(di, 127));
  return hn::Mul(sum, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

template <int kColours>
HWY_INLINE void FilterRow(const BilateralWindow& window, const BilateralLayout& layout,
                          const float* const* rows, float* result) {
  const hn::CappedTag<float, 16> d;
  using V = hn::Vec<decltype(d)>;
  const int side = 2 * window.radius_px + 1;
  const V range = hn::Set(d, window.range);
  for (int x = 0; x < layout.width_px; x += static_cast<int>(hn::Lanes(d))) {
    V centre[kColours], sum[kColours];
    for (int c = 0; c < kColours; ++c) {
      centre[c] =
          hn::LoadU(d, rows[window.radius_px] + c * layout.plane_floats + window.radius_px + x);
      sum[c] = hn::Zero(d);
    }
    V weights = hn::Zero(d);
    for (int dy = 0; dy < side; ++dy) {
      if (rows[dy] == nullptr) continue;
      const float* src = rows[dy] + x;
      const float* space = window.space.data() + static_cast<size_t>(dy) * side;
      for (int dx = 0; dx < side; ++dx) {
        V difference[kColours], squares = hn::Zero(d);
        for (int c = 0; c < kColours; ++c) {
          const V value = hn::LoadU(d, src + c * layout.plane_floats + dx);
          difference[c] = hn::Sub(value, centre[c]);
          squares = hn::MulAdd(difference[c], difference[c], squares);
        }
        const V weight = Exp2(d, hn::MulAdd(squares, range, hn::Set(d, space[dx])));
        weights = hn::Add(weights, weight);
        for (int c = 0; c < kColours; ++c) sum[c] = hn::MulAdd(weight, difference[c], sum[c]);
      }
    }
    for (int c = 0; c < kColours; ++c) {
      hn::StoreU(hn::Add(centre[c], hn::Div(sum[c], weights)), d,
                 result + c * layout.result_floats + x);
    }
  }
}

void FilterAnyRow(const BilateralWindow& window, const BilateralLayout& layout,
                  const float* const* rows, float* result) {
  layout.colours == 1 ? FilterRow<1>(window, layout, rows, result)
                      : FilterRow<3>(window, layout, rows, result);
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace upscaled {

HWY_EXPORT(FilterAnyRow);

BilateralWindow::BilateralWindow(const BilateralOptions& options, float full_scale)
    : radius_px(options.radius_px()) {
  constexpr double kLog2E = 1.4426950408889634;
  const auto log2_weight = [](double sigma) { return -kLog2E / (2 * sigma * sigma); };
  range = static_cast<float>(log2_weight(options.sigma_range * full_scale / 255));
  for (int dy = -radius_px; dy <= radius_px; ++dy) {
    for (int dx = -radius_px; dx <= radius_px; ++dx) {
      const double log2_space = (dx * dx + dy * dy) * log2_weight(options.sigma_space);
      space.push_back(static_cast<float>(log2_space));
    }
  }
}

BilateralLayout::BilateralLayout(int radius_px, int colours, int width_px)
    : colours(colours), width_px(width_px) {
  constexpr size_t kMaxLanes = 16;
  result_floats = (static_cast<size_t>(width_px) + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
  plane_floats = result_floats + 2 * static_cast<size_t>(radius_px);
}

void FilterBilateralRow(const BilateralWindow& window, const BilateralLayout& layout,
                        const float* const* rows, float* result) {
  HWY_DYNAMIC_DISPATCH(FilterAnyRow)(window, layout, rows, result);
}

}  // namespace upscaled
#endif  // HWY_ONCE
