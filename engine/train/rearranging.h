// The steps without arithmetic: sums of two sources, crops, and pixels put elsewhere. Each is
// linear, so its derivative is the same the other way round.
#pragma once

#include "engine/train/step.h"

namespace upscaled::train {

// The sum of two sources of one size.
template <typename Real>
class Add final : public Step<Real> {
 public:
  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;
};

// Result pixel (c, y, x) is the source's pixel (y / factor + crop_px, x / factor + crop_px) of
// channel c, or of c * factor^2 + y % factor * factor + x % factor where channels are shuffled into
// pixels.
struct Rearrangement {
  int factor = 1;
  int crop_px = 0;
  bool shuffles = false;
};

// A crop, a nearest resize or a pixel shuffle.
template <typename Real>
class Rearrange final : public Step<Real> {
 public:
  explicit Rearrange(Rearrangement how) : how_(how) {}

  using typename Step<Real>::Sources;
  using typename Step<Real>::SourceGradients;
  Size OutputSize(Size source) const override;
  void Forward(const Real* params, Sources src, Tensor<Real>& dst) override;
  void Backward(const Real* params, Sources src, const Tensor<Real>& dst, const Tensor<Real>& d_dst,
                SourceGradients d_src, Real* d_params) override;

 private:
  // Calls `visit(source's value, dst's value)` for every value of the result.
  template <typename Source, typename Result, typename Visit>
  void ForEachValue(Source& src, Result& dst, Visit visit) const;

  const Rearrangement how_;
};

}  // namespace upscaled::train
