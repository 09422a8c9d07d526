// upscale-bench tune: chooses the kernels of a model by measurement and keeps them in a file for
// the server and for other benches.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "engine/autotune/tuner.h"
#include "engine/backends/backend_list.h"
#include "tests/bench/commands.h"
#include "tests/bench/networks.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct TuneOptions {
  std::string model;
  std::string repository;
  std::string device = "cpu";
  std::string file;
  std::string cpu_isa;
  double layer_s = 0.25;
};

// Notes what a tuner was asked and answered.
class Listener final : public KernelChooser {
 public:
  explicit Listener(Tuner& tuner) : tuner_(tuner) {}

  std::string Choose(const KernelCandidates& candidates) override {
    const std::string kernel = tuner_.Choose(candidates);
    const std::string key = TuningKey(candidates.layer(), candidates.precision());
    lines_[key] = absl::StrFormat("%-32s %-14s", key, kernel);
    const TuningTable table = tuner_.table();
    for (const auto& [name, gflops] : table.Find(candidates.device(), key)->gflops) {
      absl::StrAppendFormat(&lines_[key], "  %s %.1f", name, gflops);
    }
    return kernel;
  }

  void Print() const {
    std::printf("%-32s %-14s  GFLOP/s\n", "layer", "kernel");
    for (const auto& [key, line] : lines_) std::printf("%s\n", line.c_str());
  }

 private:
  Tuner& tuner_;
  std::map<std::string, std::string> lines_;
};

void RunTuneCommand(const TuneOptions& options) {
  const Network network = ValueOrExit(LoadBenchNetwork(options.model, options.repository));
  const auto tuner = ValueOrExit(Tuner::Create(
      {.file = options.file,
       .measure = true,
       .layer_budget = absl::Seconds(options.layer_s),
       .warn = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }}));
  const auto listener = std::make_shared<Listener>(*tuner);
  BackendOptions backend_options;
  backend_options.cpu_isa = options.cpu_isa;
  backend_options.chooser = listener;
  const auto backend = ValueOrExit(CreateBackend(options.device, backend_options));
  ValueOrExit(backend->Compile(network, Precision::kExact));
  listener->Print();
}

}  // namespace

void AddTuneCommand(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = app.add_subcommand("tune", "Choose a model's kernels by measurement");
  command->add_option("--model", options->model, "Name, weights file or random:SHAPE")->required();
  command->add_option("--model-repository", options->repository, "Folder of models");
  command->add_option("--tune-file", options->file, "Table to add to")->required();
  command->add_option("--device", options->device, "Whose kernels")->capture_default_str();
  command->add_option("--cpu-isa", options->cpu_isa, "Instruction set; default the best");
  command->add_option("--time", options->layer_s, "Seconds to measure for each kind of layer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([options] { RunTuneCommand(*options); });
}

}  // namespace upscaled::bench
