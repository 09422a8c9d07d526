#include "engine/image/resample_taps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace upscaled {
namespace {

double Radius(Filter filter) { return filter == Filter::kLanczos3 ? 3 : 2; }

double Sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

}  // namespace

double FilterWeight(Filter filter, double x) {
  x = std::abs(x);
  if (x >= Radius(filter)) return 0;
  if (filter == Filter::kLanczos3) return Sinc(x) * Sinc(x / 3);
  return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : ((-0.5 * x + 2.5) * x - 4) * x + 2;
}

double FilterReach(int source_length, int result_length, Filter filter) {
  if (source_length == result_length) return 0;  // each sample stays what it is
  return Radius(filter) * std::max(1.0, static_cast<double>(source_length) / result_length);
}

TapTable ComputeTaps(int source_length, Stretch part, int result_length, Filter filter) {
  const double ratio = static_cast<double>(part.length) / result_length;
  const double widening = std::max(1.0, ratio);
  const double reach = FilterReach(part.length, result_length, filter);
  TapTable table;
  table.taps.reserve(result_length);
  std::vector<double> weights;
  for (int i = 0; i < result_length; ++i) {
    const double centre = (i + 0.5) * ratio - 0.5 + part.begin;
    const int first = std::max(0, static_cast<int>(std::ceil(centre - reach)));
    const int last = std::min(source_length - 1, static_cast<int>(std::floor(centre + reach)));
    weights.clear();
    double sum = 0;
    for (int k = first; k <= last; ++k) {
      weights.push_back(FilterWeight(filter, (k - centre) / widening));
      sum += weights.back();
    }
    table.taps.push_back({first, last - first + 1, table.weights.size()});
    for (double weight : weights) table.weights.push_back(static_cast<float>(weight / sum));
  }
  return table;
}

}  // namespace upscaled
