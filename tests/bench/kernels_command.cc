// upscale-bench kernels: every listed kernel on the shapes that it supports, rows in cache as they
// are inside a network.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/base/string_view.h"
#include "tests/bench/commands.h"
#include "tests/bench/measure.h"
#include "tests/bench/networks.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace upscaled::bench {
namespace {

constexpr int kSidePx = 168;  // a multiple of every kernel's block and register tile

// A whole layer's tensor with room around it.
class LayerTensor {
 public:
  LayerTensor(int channels, Size size) {
    tensor_.layer_width_px = size.width;
    tensor_.layer_height_px = tensor_.ring_rows = size.height;
    tensor_.channels = channels;
    const bool thin = channels <= cpu::kMaxInterleavedChannels;
    tensor_.pixel_stride = thin ? channels : cpu::kPlaneChannels;
    const size_t row = static_cast<size_t>(size.width + 2 * kBorderPx) * tensor_.pixel_stride;
    tensor_.row_stride = (row / 16 | 1) * 16 + 32;
    tensor_.plane_stride = tensor_.row_stride * (size.height + 1) | 16;
    storage_ = cpu::HugeBuffer(tensor_.plane_stride * tensor_.planes() + 1024);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < storage_.size(); ++i) storage_.data()[i] = normal(random);
    tensor_.data = storage_.data() + kBorderPx * tensor_.pixel_stride;
  }
  const cpu::Tensor& tensor() const { return tensor_; }

 private:
  static constexpr int kBorderPx = 16;
  cpu::Tensor tensor_;
  cpu::HugeBuffer storage_;
};

ReportRow MeasureKernel(const cpu::KernelInfo& info, const Layer& layer, cpu::Isa isa,
                        double budget_s) {
  const std::unique_ptr<cpu::LayerKernel> kernel = info.create(layer, isa);
  const LayerTensor src(layer.in_channels, {kSidePx + 2, kSidePx + 2});
  const LayerTensor dst(layer.out_channels, {kSidePx, kSidePx});
  cpu::HugeBuffer scratch(kernel->ScratchFloats());
  const int step = std::max(kernel->block_px(), 6);
  const auto run = [&] {
    for (int y = 0; y < kSidePx; y += step) {
      kernel->Run({&src.tensor(), 1}, dst.tensor(), {0, y, kSidePx, std::min(step, kSidePx - y)},
                  scratch.data());
    }
  };
  ReportRow row;
  row.name = absl::StrCat(ToAbsl(info.name), " ", ToAbsl(cpu::IsaName(isa)));
  row.shape = absl::StrCat(layer.in_channels, "-", layer.out_channels);
  const double operations = 2.0 * 9 * layer.in_channels * layer.out_channels * kSidePx * kSidePx;
  row.measurement = Measure(run, operations, {isa, 1, budget_s, 3});
  return row;
}

void RunKernelsCommand(const CommonOptions& options) {
  const cpu::Isa isa = ChosenIsa(options.backend);
  std::vector<ReportRow> rows;
  constexpr int kShapes[][2] = {{3, 32},   {32, 32},   {32, 64},   {64, 64},
                                {64, 128}, {128, 128}, {128, 256}, {64, 12}};
  for (const auto& [in, out] : kShapes) {
    const Layer layer = RandomConv(in, out, 0);
    for (const cpu::KernelInfo& info : cpu::ListKernels()) {
      const bool wanted = options.backend.kernel.empty() || options.backend.kernel == info.name;
      if (!wanted || !info.supports(layer) || info.prelude != nullptr) continue;
      rows.push_back(MeasureKernel(info, layer, isa, options.budget_s));
    }
  }
  PrintReport(rows, options.json);
}

}  // namespace

void AddKernelsCommand(CLI::App& app) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command = app.add_subcommand("kernels", "Every kernel on the usual 3x3 shapes");
  AddCommonOptions(*command, *options);
  command->callback([options] { RunKernelsCommand(*options); });
}

}  // namespace upscaled::bench
