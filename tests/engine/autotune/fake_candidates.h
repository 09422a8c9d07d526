// Kernels whose speed and correctness a test decides.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "engine/graph/kernel_choice.h"
#include "tests/support/fake_clock.h"

namespace upscaled::test {

struct FakeKernel {
  std::string name;
  absl::Duration time;  // one run's
  bool right = true;
  bool runs = true;          // the device does not refuse it
  int right_rows = 1 << 20;  // below which it is not right
};

class FakeCandidates final : public KernelCandidates {
 public:
  FakeCandidates(FakeClock& clock, Layer layer, std::vector<FakeKernel> kernels)
      : clock_(clock), layer_(std::move(layer)), kernels_(std::move(kernels)) {}

  std::string device() const override { return device_name; }
  const Layer& layer() const override { return layer_; }
  Precision precision() const override { return Precision::kExact; }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const FakeKernel& kernel : kernels_) names.push_back(kernel.name);
    return names;
  }
  Size checked_output() const override { return checked; }
  std::unique_ptr<LayerCandidate> Try(const std::string& name, Size input) const override {
    for (const FakeKernel& kernel : kernels_) {
      if (kernel.name == name) return std::make_unique<FakeCandidate>(*this, kernel, input);
    }
    return nullptr;
  }

  std::string device_name = "fake";
  Size checked = KernelCandidates::checked_output();
  mutable std::map<std::string, int> runs;

 private:
  class FakeCandidate final : public LayerCandidate {
   public:
    FakeCandidate(const FakeCandidates& owner, const FakeKernel& kernel, Size input)
        : owner_(owner), kernel_(kernel), input_(input) {}
    void Run() override {
      ++owner_.runs[kernel_.name];
      owner_.clock_.Advance(kernel_.time);
    }
    std::optional<absl::Duration> LastRunTime() const override {
      return kernel_.runs ? std::nullopt : std::optional(absl::InfiniteDuration());
    }
    std::vector<float> Compute(std::span<const float> input) override {
      if (!kernel_.runs) return {};
      const Layer& layer = owner_.layer_;
      reference::Tensor src({0, 0, input_.width, input_.height}, layer.in_channels);
      src.values.assign(input.begin(), input.end());
      const int shrink = layer.kernel_px - 1 - 2 * layer.padding_px;
      reference::Tensor dst({0, 0, input_.width - shrink, input_.height - shrink},
                            layer.out_channels);
      const reference::Tensor* const inputs[] = {&src};
      reference::ComputeLayer(layer, inputs, dst);
      if (!kernel_.right || dst.region.height > kernel_.right_rows) dst.values.back() += 0.1f;
      return dst.values;
    }

   private:
    const FakeCandidates& owner_;
    const FakeKernel kernel_;
    const Size input_;
  };

  FakeClock& clock_;
  const Layer layer_;
  const std::vector<FakeKernel> kernels_;
};

struct FakeTile {
  Size size;
  absl::Duration time;  // one run's
};

// Tiles whose speed a test decides.
class FakeTiles final : public TileCandidates {
 public:
  static constexpr double kMacsPerPixel = 100;

  FakeTiles(FakeClock& clock, std::vector<FakeTile> tiles)
      : clock_(clock), tiles_(std::move(tiles)) {}

  std::string device() const override { return "fake"; }
  std::string network() const override { return "exact tiles of a fake"; }
  std::vector<Size> tiles() const override {
    std::vector<Size> sizes;
    for (const FakeTile& tile : tiles_) sizes.push_back(tile.size);
    return sizes;
  }
  double MacsPerPixel() const override { return kMacsPerPixel; }
  double Run(Size size) override {
    for (const FakeTile& tile : tiles_) {
      if (tile.size != size) continue;
      if (runs[size.width]++ == 0) clock_.Advance(first_run_costs);
      clock_.Advance(tile.time);
    }
    return static_cast<double>(size.Area());
  }

  absl::Duration first_run_costs;
  std::map<int, int> runs;  // by width

 private:
  FakeClock& clock_;
  const std::vector<FakeTile> tiles_;
};

// A convolution of random weights around 1 in sum.
inline Layer FakeConv(int in, int out, int kernel_px, std::mt19937& random) {
  Layer layer;
  layer.op = Op::kConv;
  layer.in_channels = in;
  layer.out_channels = out;
  layer.kernel_px = kernel_px;
  layer.padding_px = kernel_px / 2;
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  layer.weights.resize(size_t{1} * in * out * kernel_px * kernel_px);
  for (float& w : layer.weights) w = value(random) / static_cast<float>(in * kernel_px);
  layer.bias.resize(out);
  for (float& b : layer.bias) b = value(random);
  return layer;
}

}  // namespace upscaled::test
