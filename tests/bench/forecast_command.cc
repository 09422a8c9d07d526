// upscale-bench forecast: a plan's forecast cost next to the cost of its runs, and, with --run, its
// forecast time next to the time taken.
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/tile_grid.h"
#include "engine/pipeline/upscaler.h"
#include "tests/bench/commands.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct ForecastOptions {
  CommonOptions common;
  ModelOptions model;
  std::vector<std::string> models;
  std::vector<std::string> sizes = {"256x256", "1024x1024", "4096x4096"};
  bool run = false;
};

struct Forecast {
  std::string model;
  Size size;
  std::string cut;
  double cost = 0;     // in multiply-adds, as planned
  double all = 0;      // of every tile, cell or slice
  double seconds = 0;  // of one thread's processor time; 0: not run
  // By the cost, at the speed of the model's first size.
  double foretold_seconds = 0;
};

// Returns the cost of every tile, cell or slice of the pass, of one image.
double CostOfAllRuns(const PassSpec& pass) {
  const Executable& executable = *pass.executable;
  const Size image = pass.source.size();
  if (pass.rows) {
    return static_cast<double>(executable.CreateRowStream(image)->PlanSlice(
        image.height * executable.network().scale, std::numeric_limits<int64_t>::max()));
  }
  if (pass.cells) {
    const Size cell = pass.cells->cell();
    const TilePlan plan = executable.Plan({0, 0, cell.width, cell.height}, cell);
    return static_cast<double>(pass.cells->count()) *
           static_cast<double>(plan.Cost(/*cached=*/true));
  }
  const TileGrid grid(image, pass.tile);
  double cost = 0;
  int64_t tile = 0;
  for (int row = 0; row < grid.rows(); ++row) {
    for (int column = 0; column < grid.columns(); ++column) {
      const bool cached = tile++ < pass.cached_tiles;
      cost += static_cast<double>(executable.Plan(grid.Tile(column, row), image).Cost(cached));
    }
  }
  return cost;
}

std::string DescribeCut(const PassSpec& pass) {
  const char* const kind = pass.cells ? "cells" : pass.rows ? "rows" : "tiles";
  return absl::StrFormat("%s %dx%d", kind, pass.tile.width, pass.tile.height);
}

// Returns one thread's processor time for the planned image.
double SecondsOf(Backend& backend, const UpscalePlan& plan) {
  const Image source = ShadedImage(plan.source.size());
  Image result(plan.result);
  ImageRows rows(source);
  const std::unique_ptr<TileExecutor> executor = MakeLocalExecutor(backend);
  const std::clock_t begin = std::clock();
  ExitUnlessOk(MakeUpscaler(plan, rows, *executor, /*cancellation=*/nullptr)
                   ->ReadRows(result.mutable_view()));
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

std::vector<Forecast> ForecastsOf(Backend& backend, const ForecastOptions& options,
                                  const std::string& model) {
  ModelOptions named = options.model;
  named.model = model;
  const std::shared_ptr<const Executable> executable =
      ValueOrExit(backend.Compile(named.Load(), Precision::kExact));
  const int scale = executable->network().scale;
  std::vector<Forecast> forecasts;
  for (const std::string& text : options.sizes) {
    const Size size = ValueOrExit(ParseSize(text));
    const UpscalePlan plan = ValueOrExit(PlanUpscale({size.width, size.height, 3, SampleType::kU8},
                                                     {size.width * scale, size.height * scale},
                                                     {executable}, {.spare_flat_areas = false}));
    const PassSpec& pass = plan.passes.front();
    Forecast& forecast = forecasts.emplace_back();
    forecast.model = model;
    forecast.size = size;
    forecast.cut = DescribeCut(pass);
    forecast.cost = static_cast<double>(plan.cost);
    forecast.all = CostOfAllRuns(pass);
    if (!options.run) continue;
    forecast.seconds = SecondsOf(backend, plan);
    const Forecast& first = forecasts.front();
    forecast.foretold_seconds = first.seconds * forecast.cost / first.cost;
  }
  return forecasts;
}

void PrintForecasts(const std::vector<Forecast>& rows) {
  PrintMachine();
  std::printf("%-28s %-10s %-18s %12s %9s %10s %9s\n", "model", "image", "cut", "M macs / px",
              "planned", "seconds", "foretold");
  for (const Forecast& row : rows) {
    std::printf("%-28s %-10s %-18s %12.3f %9.3f", row.model.c_str(),
                absl::StrFormat("%dx%d", row.size.width, row.size.height).c_str(), row.cut.c_str(),
                row.cost / static_cast<double>(row.size.Area()) * 1e-6, row.cost / row.all);
    if (row.seconds > 0) {
      std::printf(" %10.2f %9.2f", row.seconds, row.foretold_seconds / row.seconds);
    }
    std::printf("\n");
  }
}

void PrintForecastsAsJson(const std::vector<Forecast>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Forecast& row : rows) {
    list.push_back({{"name", row.model},
                    {"shape", absl::StrFormat("%dx%d", row.size.width, row.size.height)},
                    {"cut", row.cut},
                    {"planned_over_run", row.cost / row.all},
                    {"seconds", row.seconds},
                    {"foretold_seconds", row.foretold_seconds}});
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void RunForecastCommand(const ForecastOptions& options) {
  BackendOptions one_thread = options.common.backend;
  one_thread.threads = 1;
  const auto backend = ValueOrExit(CreateCpuBackend(one_thread));
  std::vector<Forecast> rows;
  for (const std::string& model : options.models) {
    for (Forecast& row : ForecastsOf(*backend, options, model)) rows.push_back(std::move(row));
  }
  options.common.json ? PrintForecastsAsJson(rows) : PrintForecasts(rows);
}

}  // namespace

void AddForecastCommand(CLI::App& app) {
  auto options = std::make_shared<ForecastOptions>();
  CLI::App* command = app.add_subcommand(
      "forecast", "The cost that images are planned for, next to that of all runs");
  command->add_option("--model", options->models, "Names, weights files or random:SHAPE")
      ->delimiter(',')
      ->required();
  AddRepositoryOption(*command, options->model.repositories);
  command->add_option("--size", options->sizes, "Images, the first of which gives the speed")
      ->delimiter(',')
      ->capture_default_str();
  command->add_flag("--run", options->run, "Run them, and compare times as well");
  AddCommonOptions(*command, options->common);
  command->callback([options] { RunForecastCommand(*options); });
}

}  // namespace upscaled::bench
