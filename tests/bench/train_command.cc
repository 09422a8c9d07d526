// upscale-bench train: the parts of a convolution's training apart, and whole steps; one thread.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/shapes.h"
#include "engine/train/conv_kernel.h"
#include "engine/train/learner.h"
#include "engine/train/parameters.h"
#include "tests/bench/commands.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

using train::Grid;
using train::Tensor;

constexpr int kBatch = 8;
constexpr int kPatchPx = 48;
constexpr int kLayerPx = 60;  // of a layer's input, in the middle of a network

struct TrainOptions {
  double budget_s = 2;
  std::vector<std::filesystem::path> repositories;
};

template <typename Values>
void Fill(Values& values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 61) - 0.3f;
}

void Print(const std::string& what, const Measurement& measured) {
  absl::PrintF("%-40s %8.3f ms  %6.1f GFLOP/s  %.2f of the FMA peak\n", what,
               1e3 * measured.seconds, measured.gflops, measured.ratio);
}

// The parts of a layer by every kernel, each over a mini-batch.
void MeasureLayer(int in_channels, int out_channels, const MeasureOptions& options) {
  const train::ConvShape shape{in_channels, out_channels, 3, 0};
  const Grid grid{kBatch, {kLayerPx, kLayerPx}};
  Tensor<float> src(grid, in_channels), d_src(grid, in_channels);
  Tensor<float> dst({kBatch, shape.OutputSize(grid.size)}, out_channels);
  train::SumsGradient<float> d_sums(dst.grid().size, out_channels, options.isa);
  std::vector<float> params(shape.weights() + out_channels), d_params(params.size());
  Fill(src.values());
  Fill(params);
  const double operations = 2.0 * static_cast<double>(shape.weights()) * kBatch *
                            static_cast<double>(dst.grid().size.Area());
  const std::string layer = absl::StrFormat("%d -> %d, 3x3, ", in_channels, out_channels);
  const auto for_each_image = [](auto run) {
    return [=] {
      for (int image = 0; image < kBatch; ++image) run(image);
    };
  };
  const Subject d_bias{for_each_image([&](int image) {
                         d_sums.Set(dst, dst, image, 0.1f, d_params.data() + shape.weights());
                       }),
                       0};
  Print(layer + "dB", Measure({&d_bias, 1}, options)[0]);
  for (const train::ConvCandidate<float>& candidate : train::ConvKernels<float>()) {
    if (!candidate.supports(shape)) continue;
    const auto kernel = candidate.make(shape, options.isa);
    const Subject parts[] = {
        {[&] {
           kernel->SetWeights(params.data());
           for_each_image([&](int image) { kernel->Forward(src, image, {}, dst); })();
         },
         operations},
        {for_each_image([&](int image) { kernel->GetSourceGradient(d_sums, image, false, d_src); }),
         operations},
        {[&] {
           for_each_image([&](int image) { kernel->AddWeightGradient(src, image, d_sums); })();
           kernel->MoveWeightGradient(d_params.data());
         },
         operations}};
    const std::vector<Measurement> measured = Measure(parts, options);
    const std::string by = layer + std::string(candidate.name);
    Print(by + ", forward", measured[0]);
    Print(by + ", dIn", measured[1]);
    Print(by + ", dW", measured[2]);
  }
}

// Without the reading of patches.
void MeasureSteps(const std::string& name, const Network& network, const MeasureOptions& options) {
  const std::vector<float> parameters = train::ReadParameters(network);
  std::vector<float> gradient;
  const auto learner = ValueOrExit(train::Learner::Create(network, kPatchPx, kBatch, 1));
  const auto fill = [](int, int, Tensor<float>& input, Tensor<float>&) { Fill(input.values()); };
  double operations = 0;
  const std::vector<Size> sizes = LayerSizes(network, {kPatchPx, kPatchPx});
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double forward =
        2 * kBatch * MultiplyAdds(network.layers[i], static_cast<double>(sizes[i].Area()));
    const bool has_source_gradient = i > 1;  // nobody asks for the image's
    operations += forward * (has_source_gradient ? 3 : 2);
  }
  const Subject steps[] = {
      {[&] { learner->Gradient(parameters, train::kPsnrLoss, fill, gradient); }, operations}};
  const Measurement measured = Measure(steps, options)[0];
  Print(name + ", a step", measured);
  absl::PrintF("%-40s %8.2f steps of %d patches of %d px a second\n", "", 1 / measured.seconds,
               kBatch, kPatchPx);
}

void RunTrainCommand(const TrainOptions& options) {
  const MeasureOptions measure{.isa = ChosenIsa({}), .budget_s = options.budget_s};
  for (const auto& [in, out] : {std::pair(3, 48), {48, 48}, {48, 12}, {32, 32}}) {
    MeasureLayer(in, out, measure);
  }
  for (const char* model : {"general-2x", "fast-2x"}) {
    const ModelOptions wanted{.model = model, .repositories = options.repositories};
    MeasureSteps(model, wanted.Load(), measure);
  }
}

}  // namespace

void AddTrainCommand(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command =
      app.add_subcommand("train", "Measure convolutions forward and backward, and training steps");
  AddRepositoryOption(*command, options->repositories);
  command->add_option("--time", options->budget_s, "Seconds for each layer and network")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([options] { RunTrainCommand(*options); });
}

}  // namespace upscaled::bench
