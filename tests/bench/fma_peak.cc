#include "tests/bench/fma_peak.h"

#include <algorithm>
#include <limits>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/fma_peak.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Independent chains: enough to hide the latency, few enough for 16 registers.
constexpr int kChains = 12;

// Returns the number of operations; the sums go to `result` to be computed at all.
double MultiplyAdds(int rounds, float* result) {
  const hn::CappedTag<float, 16> d;
  using V = hn::Vec<decltype(d)>;
  const V x = hn::Set(d, 1.0f + 1.0f / rounds), y = hn::Set(d, 1.0f / rounds);
  V sum[kChains];
  HWY_UNROLL(16)
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  for (int r = 0; r < rounds; ++r) {
    HWY_UNROLL(16)
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], x, y);
  }
  V total = hn::Zero(d);
  HWY_UNROLL(16)
  for (int i = 0; i < kChains; ++i) total = hn::Add(total, sum[i]);
  *result = hn::GetLane(total);
  return 2.0 * kChains * hn::MaxLanes(d) * rounds;
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {
namespace {

using MultiplyAddsFunction = double(int rounds, float* result);

MultiplyAddsFunction* FunctionFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, MultiplyAdds) }

}  // namespace
}  // namespace upscaled::cpu

namespace upscaled::bench {

double FmaPeakGflops(cpu::Isa isa) {
  constexpr int kRounds = 50000, kRepetitions = 3;
  const auto multiply_adds = cpu::FunctionFor(isa);
  double best_s = std::numeric_limits<double>::max(), operations = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    volatile float sink;
    float result;
    const absl::Time start = absl::Now();
    operations = multiply_adds(kRounds, &result);
    best_s = std::min(best_s, absl::ToDoubleSeconds(absl::Now() - start));
    sink = result;
    (void)sink;
  }
  return operations / best_s * 1e-9;
}

}  // namespace upscaled::bench
#endif  // HWY_ONCE
