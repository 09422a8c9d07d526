// upscale-bench cores: how an image would share many cores, replayed from step times and costs of
// sharing measured here on one core or two (simulated_cores.h).
// --take-us and --dispatch-us are estimates; --memory-gb-per-s is eight times one core's by
// default. Every core is taken to have its caches for itself.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/denormals.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/base/cpu_info.h"
#include "engine/base/int_math.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/reach.h"
#include "engine/pipeline/tile_grid.h"
#include "engine/pipeline/upscaler.h"
#include "tests/bench/commands.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"
#include "tests/bench/simulated_cores.h"

namespace upscaled::bench {
namespace {

struct CoresOptions {
  CommonOptions common;
  ModelOptions model;
  std::string size = "1920x1080";
  int images = 1;
  std::vector<int> threads = {1, 2, 4, 8, 16, 32, 64, 128};
  double take_us = 1;
  double dispatch_us = 2;
  double memory_gb_per_s = 0;  // 0: eight times one core's
};

double Seconds(absl::Time since) { return absl::ToDoubleSeconds(absl::Now() - since); }

// The time until one thread sees another's number: the least of many.
double MeasureSignal() {
  constexpr int kRounds = 2'000;
  std::atomic<int> ping = 0, pong = 0;
  std::thread other([&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (ping != i) continue;
      pong = i;
    }
  });
  double least = std::numeric_limits<double>::max();
  for (int i = 1; i <= kRounds; ++i) {
    const absl::Time begin = absl::Now();
    ping = i;
    while (pong != i) continue;
    least = std::min(least, Seconds(begin) / 2);
  }
  other.join();
  return least;
}

// Bytes a second copied by one core from memory to memory, both counted.
double MeasureMemory() {
  constexpr size_t kBytes = size_t{256} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes);
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < 4; ++round) {
    const absl::Time begin = absl::Now();
    std::memcpy(to.data(), from.data(), kBytes);
    least = std::min(least, Seconds(begin));
    from[round] = to[kBytes - 1];
  }
  return 2 * kBytes / least;
}

// Seconds for each pixel of a layer's steps: the median step of a tile of the preferred size, and
// of its runs the quickest.
std::vector<double> MeasureLayers(const cpu::CpuExecutable& executable, double budget_s) {
  const cpu::Program& program = executable.program();
  const Size size = executable.PreferredTile();
  const int scale = executable.network().scale;
  const Image source = ShadedImage(size);
  Image result({size.width * scale, size.height * scale, 3, SampleType::kU8});
  const std::vector<TileTask> tasks =
      CutImage(executable, source.view(), result.mutable_view(), size);
  cpu::HugeBuffer workspace;
  cpu::Team alone;
  const cpu::FlushDenormals flush;
  std::vector<double> least(program.steps.size(), std::numeric_limits<double>::max());
  const absl::Time begin = absl::Now();
  for (int run = 0; run < 3 || Seconds(begin) < budget_s; ++run) {
    std::vector<std::vector<double>> seconds(least.size());
    absl::Time last = absl::Now();
    cpu::RunTile(program, tasks.front(), workspace, alone, [&](const cpu::RowSchedule::Step& step) {
      const absl::Time now = absl::Now();
      seconds[step.layer].push_back(absl::ToDoubleSeconds(now - last) /
                                    static_cast<double>(step.rows.Area()));
      last = now;
    });
    for (size_t i = 0; i < least.size(); ++i) {
      if (!seconds[i].empty()) least[i] = std::min(least[i], Median(std::move(seconds[i])));
    }
  }
  return least;
}

// An image cut for a number of threads: tiles with the steps of the middle one.
struct CutImageSteps {
  std::string cut;
  int tiles = 1;
  int most_threads = 1;
  std::vector<SimulatedStep> steps;
};

CutImageSteps StepsOf(const std::shared_ptr<const cpu::CpuExecutable>& executable, Size image,
                      int threads, std::span<const double> seconds_per_px) {
  const cpu::Program& program = executable->program();
  const int scale = executable->network().scale;
  const UpscalePlan plan = ValueOrExit(PlanUpscale(
      {image.width, image.height, 3, SampleType::kU8}, {image.width * scale, image.height * scale},
      {executable}, {.spare_flat_areas = false, .concurrency = threads}));
  const PassSpec& pass = plan.passes.front();
  const TileGrid grid(image, pass.rows ? image : pass.tile);
  const Rect tile = grid.Tile(grid.columns() / 2, grid.rows() / 2);
  const cpu::RowSchedule schedule = cpu::ScheduleRows(program, cpu::PlanTile(program, image, tile));
  CutImageSteps cut{.cut = pass.rows ? "rows" : absl::StrFormat("%dx%d", tile.width, tile.height),
                    .tiles = static_cast<int>(grid.count()),
                    .most_threads = MostStreamsOf(*executable, {tile.width, tile.height})};
  // Rings beyond the caches are read from memory and written there.
  const bool in_cache = schedule.workspace_floats * sizeof(float) <= CoreCacheBytes();
  for (const cpu::RowSchedule::Step& step : schedule.steps) {
    double bytes = 0;
    if (!in_cache) {
      const Layer& layer = program.network.layers[step.layer];
      double channels = layer.out_channels;
      for (const int input : layer.inputs) channels += program.network.layers[input].out_channels;
      bytes = channels * static_cast<double>(step.rows.Area() * sizeof(float));
    }
    cut.steps.push_back(
        {.units = CeilDiv(step.rows.width, cpu::UnitPx(program, step.layer)),
         .seconds = seconds_per_px[step.layer] * static_cast<double>(step.rows.Area()),
         .bytes = bytes});
  }
  return cut;
}

struct CoresRow {
  int threads = 1;
  std::string cut;
  double seconds = 0;
  double efficiency = 0;
  double slow_efficiency = 0;  // of a machine with one core of half the speed
};

std::vector<CoresRow> Simulate(const CoresOptions& options,
                               const std::shared_ptr<const cpu::CpuExecutable>& executable,
                               SimulatedMachine machine) {
  const Size image = ValueOrExit(ParseSize(options.size));
  const std::vector<double> layers = MeasureLayers(*executable, options.common.budget_s);
  const auto seconds = [&](const CutImageSteps& cut) {
    return ImageSeconds(machine, cut.steps, options.images * cut.tiles, cut.most_threads);
  };
  machine.speeds = {1};
  const double alone = seconds(StepsOf(executable, image, 1, layers));
  std::vector<CoresRow> rows;
  for (const int threads : options.threads) {
    // Each of many images at a time has its share of the threads.
    const CutImageSteps cut =
        StepsOf(executable, image, std::max(threads / options.images, 1), layers);
    machine.speeds.assign(threads, 1);
    CoresRow& row =
        rows.emplace_back(CoresRow{.threads = threads, .cut = cut.cut, .seconds = seconds(cut)});
    row.efficiency = alone / row.seconds / threads;
    machine.speeds.back() = 0.5;
    row.slow_efficiency = alone / seconds(cut) / (threads - 0.5);
  }
  return rows;
}

void Print(const CoresOptions& options, const std::vector<CoresRow>& rows,
           const SimulatedMachine& machine) {
  if (options.common.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const CoresRow& row : rows) {
      list.push_back({{"name", options.model.model},
                      {"shape", options.size},
                      {"images", options.images},
                      {"threads", row.threads},
                      {"cut", row.cut},
                      {"seconds", row.seconds},
                      {"efficiency", row.efficiency},
                      {"efficiency_slow_core", row.slow_efficiency}});
    }
    std::printf("%s\n", list.dump(2).c_str());
    return;
  }
  PrintMachine();
  std::printf(
      "simulated: a signal takes %.0f ns, a part %.1f us, a tile's dispatch %.1f us, memory "
      "%.0f GB/s\n",
      machine.start_s * 1e9, machine.take_s * 1e6, machine.dispatch_s * 1e6,
      machine.bytes_per_s * 1e-9);
  std::printf("%7s %-10s %10s %10s %20s\n", "threads", "cut", "ms", "efficiency",
              "one core half as fast");
  for (const CoresRow& row : rows) {
    std::printf("%7d %-10s %10.1f %10.2f %20.2f\n", row.threads, row.cut.c_str(), row.seconds * 1e3,
                row.efficiency, row.slow_efficiency);
  }
}

void RunCoresCommand(const CoresOptions& options) {
  BackendOptions backend_options = options.common.backend;
  backend_options.threads = 1;
  const auto backend = ValueOrExit(CreateCpuBackend(backend_options));
  const auto executable = std::static_pointer_cast<const cpu::CpuExecutable>(
      ValueOrExit(backend->Compile(options.model.Load(), Precision::kExact)));
  if (!executable->program().poolings.empty()) {
    ExitUnlessOk(absl::UnimplementedError("cores simulates networks without global poolings"));
  }
  const double signal_s = MeasureSignal();
  const double memory =
      options.memory_gb_per_s > 0 ? options.memory_gb_per_s * 1e9 : 8 * MeasureMemory();
  const SimulatedMachine machine{.start_s = signal_s,
                                 .begin_s = signal_s,
                                 .end_s = signal_s,
                                 .take_s = options.take_us * 1e-6,
                                 .dispatch_s = options.dispatch_us * 1e-6,
                                 .bytes_per_s = memory};
  Print(options, Simulate(options, executable, machine), machine);
}

}  // namespace

void AddCoresCommand(CLI::App& app) {
  auto options = std::make_shared<CoresOptions>();
  CLI::App* command = app.add_subcommand(
      "cores", "Images on many cores, simulated from step times that are measured on one");
  AddModelOptions(*command, options->model);
  command->add_option("--size", options->size, "Image")->capture_default_str();
  command->add_option("--images", options->images, "Images at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Cores, a thread each")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--take-us", options->take_us, "Time that each part costs besides its pixels")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--dispatch-us", options->dispatch_us,
                   "Time of the scheduler for each tile, one after the other")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--memory-gb-per-s", options->memory_gb_per_s,
                   "All cores' together; 0 = eight times the measured one of one core")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddCommonOptions(*command, options->common);
  command->callback([options] { RunCoresCommand(*options); });
}

}  // namespace upscaled::bench
