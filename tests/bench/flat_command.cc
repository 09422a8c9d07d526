// upscale-bench flat: the gain of copying flat areas instead of computing them, from file to file.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/backend_list.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/image/memory_io.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/transcode.h"
#include "tests/bench/commands.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct FlatOptions {
  BackendOptions backend;
  std::string device = "cpu";
  ModelOptions model;
  std::string precision = "exact";
  std::vector<std::filesystem::path> images;
  int passes = 1;
  bool tta = false;
  int rounds = 7;
  bool json = false;
};

struct FlatRow {
  std::string image;
  Size size;
  double flat = 0;  // share of the passes' source pixels whose result was copied
  double computed_s = 0, spared_s = 0;
  double gain = 0;      // median of the rounds' ratios
  double cpu_gain = 0;  // the same of the process' CPU time, which neighbours disturb less
};

class FlatBench {
 public:
  explicit FlatBench(const FlatOptions& options) : options_(options) {
    const Network network = options.model.Load();
    backend_ = ValueOrExit(CreateBackend(options.device, options.backend));
    executable_ = ValueOrExit(backend_->Compile(network, PrecisionOf(options.precision)));
    executor_ = MakeLocalExecutor(*backend_);
  }

  // With and without in turns, each round beginning with the other one.
  FlatRow Measure(const std::filesystem::path& path) {
    const std::string file = ValueOrExit(ReadFile(path, size_t{1} << 30));
    FlatRow row{.image = path.filename().string()};
    Upscale(file, true, row);  // warms up
    std::vector<double> computed, spared, gains, cpu_gains;
    for (int round = 0; round < options_.rounds; ++round) {
      Spent all, rest;
      for (const bool first : {true, false}) {
        const bool spare = first == (round % 2 == 0);
        (spare ? rest : all) = Upscale(file, spare, row);
      }
      computed.push_back(all.seconds);
      spared.push_back(rest.seconds);
      gains.push_back(all.seconds / rest.seconds);
      cpu_gains.push_back(all.cpu_seconds / rest.cpu_seconds);
    }
    row.computed_s = Median(computed);
    row.spared_s = Median(spared);
    row.gain = Median(gains);
    row.cpu_gain = Median(cpu_gains);
    return row;
  }

 private:
  struct Spent {
    double seconds = 0, cpu_seconds = 0;
  };

  Spent Upscale(const std::string& file, bool spare, FlatRow& row) {
    upscaled::MemorySource source(file);
    upscaled::StringSink sink;
    double pass_px = 0, spared_px = 0;
    const auto plan_for = [&](const ImageHeader& header) -> absl::StatusOr<TranscodePlan> {
      row.size = header.spec.size();
      Size result = row.size;
      for (int i = 0; i < options_.passes; ++i) {
        pass_px += static_cast<double>(result.Area());
        result.width *= executable_->network().scale;
        result.height *= executable_->network().scale;
      }
      ASSIGN_OR_RETURN(UpscalePlan plan,
                       PlanUpscale(header.spec, result,
                                   std::vector<std::shared_ptr<const Executable>>(
                                       static_cast<size_t>(options_.passes), executable_),
                                   {.tta = options_.tta,
                                    .spare_flat_areas = spare,
                                    .concurrency = executor_->concurrency()}));
      return PlanTranscode(header, std::move(plan), {.compression = 1});
    };
    const std::clock_t cpu_start = std::clock();
    const absl::Time start = absl::Now();
    ExitUnlessOk(
        TranscodeImage(
            {.input = source,
             .output = sink,
             .executor = *executor_,
             .progress = {.on_spared = [&](int64_t px) { spared_px += static_cast<double>(px); }}},
            plan_for)
            .status());
    if (spare) row.flat = spared_px / pass_px;
    return {absl::ToDoubleSeconds(absl::Now() - start),
            static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC};
  }

  const FlatOptions& options_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<TileExecutor> executor_;
};

void PrintFlatRow(const FlatRow& row) {
  std::printf("%-32.32s %5dx%-5d %6.1f%% %10.1f %10.1f %7.3f %7.3f\n", row.image.c_str(),
              row.size.width, row.size.height, 100 * row.flat, 1e3 * row.computed_s,
              1e3 * row.spared_s, row.gain, row.cpu_gain);
  std::fflush(stdout);
}

void RunFlatCommand(const FlatOptions& options) {
  FlatBench bench(options);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!options.json) {
    PrintMachine();
    std::printf("%-32s %11s %7s %10s %10s %7s %7s\n", "image", "size", "copied", "all, ms",
                "spared, ms", "gain", "of CPU");
  }
  for (const std::filesystem::path& path : options.images) {
    const FlatRow row = bench.Measure(path);
    if (!options.json) PrintFlatRow(row);
    list.push_back({{"image", row.image},
                    {"width_px", row.size.width},
                    {"height_px", row.size.height},
                    {"copied", row.flat},
                    {"all_seconds", row.computed_s},
                    {"spared_seconds", row.spared_s},
                    {"gain", row.gain},
                    {"cpu_gain", row.cpu_gain}});
  }
  if (options.json) std::printf("%s\n", list.dump(2).c_str());
}

}  // namespace

void AddFlatCommand(CLI::App& app) {
  auto options = std::make_shared<FlatOptions>();
  CLI::App* command = app.add_subcommand(
      "flat", "What copying the result of flat areas saves, file to file (PNG of level 1)");
  AddModelOptions(*command, options->model);
  command->add_option("--image", options->images, "PNG, JPEG or WebP files; repeatable")
      ->required();
  command->add_option("--passes", options->passes, "How often the network runs")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  command->add_flag("--tta", options->tta, "The mean of eight flips and rotations");
  command->add_option("--device", options->device, "Device")->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command->add_option("--threads", options->backend.threads, "Threads; 0 = all available")
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunFlatCommand(*options); });
}

}  // namespace upscaled::bench
