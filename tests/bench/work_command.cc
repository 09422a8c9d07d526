// upscale-bench work: the planned multiply-adds of images of people's sizes, next to the plan of
// one tile. Counts depend on no clock, so a loaded machine prints the same.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/upscaler.h"
#include "tests/bench/commands.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct WorkOptions {
  CommonOptions common;
  ModelOptions model;
  std::vector<std::string> models;
  std::vector<std::string> sizes = {"256x192",   "640x360",   "1280x720",
                                    "1920x1080", "3840x2160", "7680x4320"};
  std::vector<int> threads = {1, 2};
  std::string precision = "exact";
};

// The cut of an image and its cost.
struct Work {
  std::string model;
  Size size;
  int threads = 1;
  std::string cut;
  double macs = 0;
  double one_tile_macs = 0;

  double MegaPerPixel() const { return macs / static_cast<double>(size.Area()) * 1e-6; }
};

Work PlanWork(const std::string& model, std::shared_ptr<const Executable> executable, Size size,
              int threads) {
  const int scale = executable->network().scale;
  const UpscalePlan plan = ValueOrExit(PlanUpscale({size.width, size.height, 3, SampleType::kU8},
                                                   {size.width * scale, size.height * scale},
                                                   {executable}, {.concurrency = threads}));
  const PassSpec& pass = plan.passes.front();
  const char* const kind = pass.cells ? "cells" : pass.rows ? "rows" : "tiles";
  return {.model = model,
          .size = size,
          .threads = threads,
          .cut = absl::StrFormat("%s %dx%d", kind, pass.tile.width, pass.tile.height),
          .macs = static_cast<double>(plan.cost),
          .one_tile_macs = ImageRun::Cost(*executable, size, size, /*cached_tiles=*/1)};
}

void PrintTable(const std::vector<Work>& rows) {
  PrintMachine();
  std::printf("%-28s %-10s %7s %-18s %12s %11s\n", "model", "image", "threads", "cut",
              "M macs / px", "of one tile");
  for (const Work& row : rows) {
    std::printf("%-28s %-10s %7d %-18s %12.3f %11.2f\n", row.model.c_str(),
                absl::StrFormat("%dx%d", row.size.width, row.size.height).c_str(), row.threads,
                row.cut.c_str(), row.MegaPerPixel(), row.macs / row.one_tile_macs);
  }
}

void PrintJson(const std::vector<Work>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Work& row : rows) {
    list.push_back({{"name", row.model},
                    {"shape", absl::StrFormat("%dx%d", row.size.width, row.size.height)},
                    {"threads", row.threads},
                    {"cut", row.cut},
                    {"mega_macs_per_px", row.MegaPerPixel()},
                    {"ratio", row.macs / row.one_tile_macs}});
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void RunWorkCommand(WorkOptions options) {
  BackendOptions one_thread = options.common.backend;
  one_thread.threads = 1;
  const auto backend = ValueOrExit(CreateCpuBackend(one_thread));
  std::vector<Work> rows;
  for (const std::string& model : options.models) {
    options.model.model = model;
    const std::shared_ptr<const Executable> executable =
        ValueOrExit(backend->Compile(options.model.Load(), PrecisionOf(options.precision)));
    for (const std::string& size : options.sizes) {
      for (const int threads : options.threads) {
        rows.push_back(PlanWork(model, executable, ValueOrExit(ParseSize(size)), threads));
      }
    }
  }
  options.common.json ? PrintJson(rows) : PrintTable(rows);
}

}  // namespace

void AddWorkCommand(CLI::App& app) {
  auto options = std::make_shared<WorkOptions>();
  CLI::App* command = app.add_subcommand(
      "work", "Multiply-adds that images are planned for, next to one tile's; runs no pixel");
  command->add_option("--model", options->models, "Names, weights files or random:SHAPE")
      ->delimiter(',')
      ->required();
  AddRepositoryOption(*command, options->model.repositories);
  command->add_option("--size", options->sizes, "Images")->delimiter(',')->capture_default_str();
  command->add_option("--threads", options->threads, "Thread counts")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  AddCommonOptions(*command, options->common);
  command->callback([options] { RunWorkCommand(*options); });
}

}  // namespace upscaled::bench
