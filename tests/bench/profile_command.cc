// upscale-bench profile: where the time of one tile goes, layer by layer, on one thread.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/base/string_view.h"
#include "engine/model/shapes.h"
#include "tests/bench/commands.h"
#include "tests/bench/fma_peak.h"
#include "tests/bench/networks.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace upscaled::bench {
namespace {

struct ProfileOptions {
  CommonOptions common;
  std::string model;
  std::string repository;
  std::string size = "480x270";
  std::string precision = "exact";
};

// Operations of the direct algorithm for `area` pixels of the layer.
double LayerOperations(const Layer& layer, double area) {
  const double pair =
      2.0 * layer.kernel_px * layer.kernel_px * layer.in_channels * layer.out_channels;
  if (layer.op == Op::kConv) return pair * area;
  if (layer.op == Op::kConvTranspose) return pair * area / (layer.stride_px * layer.stride_px);
  return 0;
}

// The seconds of each layer: the medians over repetitions of the whole picture as one tile.
std::vector<double> LayerSeconds(const cpu::Program& program, const TileTask& task,
                                 double budget_s) {
  const size_t count = program.network.layers.size();
  std::vector<std::vector<double>> samples(count);
  cpu::HugeBuffer workspace;
  const absl::Time begin = absl::Now();
  while (samples[0].size() < 3 || absl::Now() - begin < absl::Seconds(budget_s)) {
    std::vector<double> seconds(count, 0.0);
    absl::Time last = absl::Now();
    cpu::RunTile(program, task, workspace, [&](const cpu::TilePlan::Step& step) {
      const absl::Time now = absl::Now();
      seconds[step.layer] += absl::ToDoubleSeconds(now - last);
      last = now;
    });
    for (size_t i = 0; i < count; ++i) samples[i].push_back(seconds[i]);
  }
  std::vector<double> medians;
  for (std::vector<double>& layer : samples) {
    std::nth_element(layer.begin(), layer.begin() + layer.size() / 2, layer.end());
    medians.push_back(layer[layer.size() / 2]);
  }
  return medians;
}

void RunProfileCommand(const ProfileOptions& options) {
  const Network network = ValueOrExit(LoadBenchNetwork(options.model, options.repository));
  const Size size = ValueOrExit(ParseSize(options.size));
  const cpu::Isa isa = ChosenIsa(options.common.backend);
  const auto backend = ValueOrExit(CreateCpuBackend(options.common.backend));
  const Precision precision = options.precision == "fast" ? Precision::kFast : Precision::kExact;
  const auto executable = ValueOrExit(backend->Compile(network, precision));
  const cpu::Program& program = static_cast<const cpu::CpuExecutable&>(*executable).program();
  const Image source({size.width, size.height, 3, SampleType::kU8});
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kU8});
  const Rect whole{0, 0, size.width, size.height};
  // The last run over a picture with global poolings, for which any means will do.
  std::vector<ChannelMeans> means;
  for (const int pooling : program.poolings) {
    means.emplace_back(program.network.layers[pooling].out_channels, 0.5f);
  }
  const TileTask task{source.view(), whole, size, whole, result.mutable_view(), means};

  const double peak = FmaPeakGflops(isa);
  const std::vector<double> seconds = LayerSeconds(program, task, options.common.budget_s);
  double total_s = 0;
  for (const double s : seconds) total_s += s;
  const std::vector<Size> sizes = LayerSizes(program.network, size);
  std::vector<ReportRow> rows;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const Layer& layer = program.network.layers[i];
    const cpu::KernelInfo* kernel = program.kernel_infos[i];
    ReportRow row;
    row.name = absl::StrCat(layer.name, " ", ToAbsl(kernel ? kernel->name : "load"));
    row.shape = absl::StrCat(layer.in_channels, "-", layer.out_channels, " ", layer.kernel_px, "x",
                             layer.kernel_px, " ", sizes[i].width, "x", sizes[i].height);
    // What a prelude multiplies belongs to it, not to the layer that adds it up.
    const bool adds_only = kernel != nullptr && kernel->prelude != nullptr;
    const double operations =
        adds_only ? 0 : LayerOperations(layer, static_cast<double>(sizes[i].Area()));
    const double gflops = operations / seconds[i] * 1e-9;
    row.measurement = {seconds[i], gflops, peak, gflops / peak};
    row.note = absl::StrFormat("%.1f%% of the time", 100 * seconds[i] / total_s);
    rows.push_back(std::move(row));
  }
  PrintReport(rows, options.common.json);
}

}  // namespace

void AddProfileCommand(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* command = app.add_subcommand("profile", "Time of each layer, one thread");
  command->add_option("--model", options->model, "Name, weights file or random:SHAPE")->required();
  command->add_option("--model-repository", options->repository, "Folder of models");
  command->add_option("--size", options->size, "Picture, run as one tile")->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  AddCommonOptions(*command, options->common);
  command->callback([options] {
    LoadTuning(options->common);
    RunProfileCommand(*options);
  });
}

}  // namespace upscaled::bench
