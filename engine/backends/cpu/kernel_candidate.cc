#include "engine/backends/cpu/kernel_candidate.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/backends/cpu/workspace_layout.h"
#include "engine/base/check.h"
#include "engine/model/shapes.h"

namespace upscaled::cpu {
namespace {

Program OneLayerProgram(Layer layer, const KernelEntry& kernel, Isa isa) {
  Layer input;
  input.op = Op::kInput;
  input.name = "input";
  input.out_channels = layer.in_channels;
  layer.inputs = {0};
  Layer output;
  output.op = Op::kActivation;
  output.name = "output";
  output.inputs = {1};
  output.in_channels = output.out_channels = layer.out_channels;
  Network network;
  network.layers = {std::move(input), std::move(layer), std::move(output)};
  absl::StatusOr<Program> program = BuildProgram(network, isa, &kernel, kernel.precision);
  UPSCALED_CHECK(program.ok());
  // Not an image, but another layer's result.
  const int channels = network.layers[0].out_channels;
  program->steps[0].pixel_stride = channels <= kMaxInterleavedChannels ? channels : kPlaneChannels;
  return *std::move(program);
}

float& ValueAt(const Tensor& tensor, int channel, int y, int x) {
  return tensor.At(y, x)[tensor.ChannelOffset(channel)];
}

// Calls `visit(value, its index in [channel][y][x] of the whole layer)`.
template <typename Visit>
void ForEachValue(const Tensor& tensor, const Rect& rows, Visit visit) {
  for (int c = 0; c < tensor.channels; ++c) {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      const size_t row = (size_t{1} * c * tensor.layer_height_px + y) * tensor.layer_width_px;
      for (int x = rows.x; x < rows.right(); ++x) visit(ValueAt(tensor, c, y, x), row + x);
    }
  }
}

}  // namespace

KernelCandidate::KernelCandidate(const Layer& layer, const KernelEntry& kernel, Isa isa, Size input)
    : program_(OneLayerProgram(layer, kernel, isa)) {
  const Size output = LayerSizes(program_.network, input).back();
  plan_ = PlanTile(program_, input, {0, 0, output.width, output.height});
  schedule_ = ScheduleRows(program_, plan_);
  workspace_.Reserve(schedule_.workspace_floats);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  for (size_t i = 0; i < workspace_.size(); ++i) workspace_.data()[i] = value(random);
  BindWorkspace(program_, workspace_.data(), nullptr, schedule_);
  BeginStage(program_, schedule_, 0);
  for (const RowSchedule::Step& step :
       schedule_.steps) {  // so that every tensor holds numbers of its kind
    if (step.layer > 0) RunStep(step);
  }
}

void KernelCandidate::Run() {
  for (const RowSchedule::Step& step : schedule_.steps) {
    if (IsTried(step.layer)) RunStep(step);
  }
}

std::vector<float> KernelCandidate::Compute(std::span<const float> input) {
  std::vector<float> output(static_cast<size_t>(output_size().Area()) *
                            schedule_.tensors.back().channels);
  const int last = static_cast<int>(schedule_.tensors.size()) - 1;
  for (const RowSchedule::Step& step : schedule_.steps) {
    const Tensor& tensor = schedule_.tensors[step.layer];
    if (step.layer == 0) {
      ForEachValue(tensor, step.rows, [&](float& value, size_t i) { value = input[i]; });
      continue;
    }
    RunStep(step);
    if (step.layer == last) {
      ForEachValue(tensor, step.rows, [&](const float& value, size_t i) { output[i] = value; });
    }
  }
  return output;
}

bool KernelCandidate::IsTried(int layer) const {
  const KernelEntry* info = program_.steps[layer].kernel_entry;
  const bool conversion = info == &ConversionKernel(true) || info == &ConversionKernel(false);
  return layer > 0 && layer < static_cast<int>(schedule_.tensors.size()) - 1 && !conversion;
}

void KernelCandidate::RunStep(const RowSchedule::Step& step) {
  const Tensor& src = schedule_.tensors[program_.network.layers[step.layer].inputs[0]];
  program_.steps[step.layer].kernel->Run({&src, 1}, schedule_.tensors[step.layer], step.rows,
                                         workspace_.data());
}

}  // namespace upscaled::cpu
