// upscale-bench train: the parts of a convolution's training apart, and whole steps; one thread.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/shapes.h"
#include "engine/train/conv.h"
#include "engine/train/learner.h"
#include "engine/train/parameters.h"
#include "tests/bench/commands.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

using train::Grid;
using train::Tensor;
using Conv = train::Conv<float>;

constexpr int kBatch = 8;
constexpr int kPatchPx = 48;
constexpr int kLayerPx = 60;  // of a layer's input, in the middle of a network

struct TrainOptions {
  double budget_s = 2;
  std::vector<std::filesystem::path> repositories;
};

void Fill(std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 61) - 0.3f;
}

void Print(const std::string& what, const Measurement& measured) {
  absl::PrintF("%-34s %8.3f ms  %6.1f GFLOP/s  %.2f of the FMA peak\n", what,
               1e3 * measured.seconds, measured.gflops, measured.ratio);
}

void MeasureLayer(int in_channels, int out_channels, const MeasureOptions& options) {
  const Layer layer{
      .op = Op::kConv, .out_channels = out_channels, .in_channels = in_channels, .kernel_px = 3};
  Conv conv(layer);
  const Grid grid{kBatch, {kLayerPx, kLayerPx}};
  Tensor<float> src(grid, in_channels), d_src(grid, in_channels);
  Tensor<float> dst({kBatch, conv.OutputSize(grid.size)}, out_channels);
  std::vector<float> params(size_t{9} * in_channels * out_channels + out_channels);
  std::vector<float> d_params(params.size());
  Fill(src.values());
  Fill(params);
  const Tensor<float>* sources[] = {&src};
  const double operations =
      2.0 * 9 * in_channels * out_channels * kBatch * static_cast<double>(dst.grid().size.Area());
  const Subject subjects[] = {{[&] { conv.Forward(params.data(), sources, dst); }, operations},
                              {[&] {
                                 Conv::ForEachBlock(grid, [&](Conv::Block block) {
                                   conv.Gather(grid, dst, block);
                                   conv.AddSourceGradient(params.data(), block, d_src);
                                 });
                               },
                               operations},
                              {[&] {
                                 Conv::ForEachBlock(grid, [&](Conv::Block block) {
                                   conv.Gather(grid, dst, block);
                                   conv.AddWeightGradient(src, block, d_params.data());
                                 });
                               },
                               operations}};
  const std::vector<Measurement> measured = Measure(subjects, options);
  const std::string shape = absl::StrFormat("%d -> %d, 3x3, ", in_channels, out_channels);
  Print(shape + "forward", measured[0]);
  Print(shape + "dIn", measured[1]);
  Print(shape + "dW and dB", measured[2]);
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
  absl::PrintF("%-34s %8.2f steps of %d patches of %d px a second\n", "", 1 / measured.seconds,
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
