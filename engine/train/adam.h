// From a derivative to better parameters.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace upscaled::train {

// The state to resume a training from, one value per parameter in each.
struct Learned {
  explicit Learned(std::vector<float> start)
      : parameters(std::move(start)),
        average(parameters),
        mean(parameters.size()),
        mean_square(parameters.size()) {}

  int64_t steps = 0;
  std::vector<float> parameters;
  std::vector<float> average;  // of the parameters after the last steps: what is kept in the end
  std::vector<float> mean, mean_square;  // of the gradient

  friend bool operator==(const Learned&, const Learned&) = default;
};

// One step of Adam (Kingma, Ba, arXiv:1412.6980, algorithm 1; decays 0.9 and 0.99) and of the
// average.
void AdamStep(std::span<const float> gradient, double rate, Learned& learned);

// Shortens the gradient to the norm `limit` if it is longer. Returns its norm before; not finite if
// one of its values is not.
double ClipNorm(std::span<float> gradient, double limit);

enum class Schedule : uint8_t {
  // From `peak` at step 0 down to almost nothing at `total`; the first 100 steps or the first tenth
  // warmed up.
  kCosine,
  // From a 25th up to `peak` at three tenths of `total`, and down to almost nothing, both along a
  // cosine (Smith and Topin, "Super-Convergence", arXiv:1708.07120).
  kOneCycle,
};
const char* ScheduleName(Schedule schedule);  // "cosine", "one-cycle"

double RateAt(Schedule schedule, double peak, int64_t step, int64_t total);

}  // namespace upscaled::train
