#include "engine/train/loss.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace upscaled::train {
namespace {

constexpr double kCharbonnierEpsilon = 0.01;
constexpr double kMinSquaredError = 1e-6;  // beyond 60 dB an image is good enough

double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

double Charbonnier(double error) { return std::hypot(error, kCharbonnierEpsilon); }

// Calls `visit(error, derivative's place)` for the values of one channel of an image.
template <typename Real, typename Visit>
void ForEachError(const Tensor<Real>& result, const Tensor<Real>& target, int image, int channel,
                  Tensor<Real>& d_result, Visit visit) {
  const Grid& grid = result.grid();
  for (int y = 0; y < grid.size.height; ++y) {
    const int line = grid.Line(image, y);
    const Real* a = result.line(line) + channel;
    const Real* b = target.line(line) + channel;
    Real* d = d_result.line(line) + channel;
    for (int i = 0; i < grid.size.width * result.stride(); i += result.stride()) {
      visit(double{a[i]} - double{b[i]}, d[i]);
    }
  }
}

}  // namespace

std::string LossText(const LossWeights& weights) {
  std::string text;
  const auto add = [&](double weight, const char* term) {
    if (weight != 0) absl::StrAppend(&text, text.empty() ? "" : " + ", weight, " ", term);
  };
  add(weights.l1, "L1");
  add(weights.charbonnier, "Charbonnier");
  add(weights.log_squared_error, "log squared error");
  add(weights.colour_mean, "colour mean");
  return text;
}

template <typename Real>
double ComputeLoss(const LossWeights& weights, const Tensor<Real>& result,
                   const Tensor<Real>& target, int batch, Tensor<Real>& d_result) {
  const int channels = result.channels();
  const double pixels = static_cast<double>(result.grid().size.Area());
  const double values = pixels * channels;
  double loss = 0;
  for (int image = 0; image < result.grid().images; ++image) {
    double absolute = 0, charbonnier = 0, squares = 0, shift = 0;
    std::vector<double> means(channels);
    for (int c = 0; c < channels; ++c) {
      ForEachError(result, target, image, c, d_result, [&](double error, Real&) {
        absolute += std::abs(error);
        if (weights.charbonnier != 0) charbonnier += Charbonnier(error);
        squares += error * error;
        means[c] += error / pixels;
      });
      shift += std::abs(means[c]) / channels;
    }
    const double mean_square = squares / values + kMinSquaredError;
    loss += weights.l1 * absolute / values + weights.charbonnier * charbonnier / values +
            weights.log_squared_error * std::log(mean_square) + weights.colour_mean * shift;
    for (int c = 0; c < channels; ++c) {
      const double of_mean = weights.colour_mean * Sign(means[c]);
      const double of_error = weights.log_squared_error * 2 / mean_square;
      ForEachError(result, target, image, c, d_result, [&](double error, Real& derivative) {
        double d = of_mean + of_error * error + weights.l1 * Sign(error);
        if (weights.charbonnier != 0) d += weights.charbonnier * error / Charbonnier(error);
        derivative = static_cast<Real>(d / (values * batch));
      });
    }
  }
  return loss / batch;
}

template double ComputeLoss(const LossWeights&, const Tensor<float>&, const Tensor<float>&, int,
                            Tensor<float>&);
template double ComputeLoss(const LossWeights&, const Tensor<double>&, const Tensor<double>&, int,
                            Tensor<double>&);

}  // namespace upscaled::train
