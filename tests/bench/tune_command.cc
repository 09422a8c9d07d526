// upscale-bench tune: chooses the kernels and tiles of a model by measurement and keeps them in a
// file for the server and for other benches.
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "engine/autotune/measure_tile.h"
#include "engine/autotune/tuner.h"
#include "engine/backends/backend_list.h"
#include "tests/bench/commands.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct TuneOptions {
  ModelOptions model;
  std::string device = "cpu";
  std::string precision = "exact";
  std::string file;
  std::string cpu_isa;
  double choice_s = 0.25;
  bool json = false;
};

// A layer's shape, or a network's tiles, with the shipped choice and the current one.
struct Choice {
  std::string shipped, chosen;
  double shipped_gflops = 0, chosen_gflops = 0;  // 0: gave wrong values
};

// Notes a tuner's questions and answers.
class Listener final : public KernelChooser {
 public:
  explicit Listener(Tuner& tuner) : tuner_(tuner) {}

  std::string Choose(const KernelCandidates& candidates) override {
    const std::string chosen = tuner_.Choose(candidates);
    Note(candidates.device(), TuningKey(candidates.layer(), candidates.precision()),
         candidates.names().front(), chosen);
    return chosen;
  }
  Size ChooseTile(TileCandidates& candidates) override {
    const Size chosen = tuner_.ChooseTile(candidates);
    Note(candidates.device(), candidates.network(), TileName(candidates.tiles().front()),
         TileName(chosen));
    return chosen;
  }

  // By the keys of tuning tables.
  const std::map<std::string, Choice>& choices() const { return choices_; }

 private:
  void Note(const std::string& device, const std::string& key, const std::string& shipped,
            const std::string& chosen) {
    const TuningTable table = tuner_.table();
    const auto& measured = table.Find(device, key)->gflops;
    const auto gflops = [&](const std::string& name) {
      const auto found = measured.find(name);
      return found == measured.end() ? 0 : found->second;
    };
    choices_[key] = {shipped, chosen, gflops(shipped), gflops(chosen)};
  }

  Tuner& tuner_;
  std::map<std::string, Choice> choices_;
};

void PrintTable(const std::map<std::string, Choice>& choices) {
  PrintMachine();
  std::printf("%-52s %-38s %8s  %-38s %8s %6s\n", "layer or tiles", "shipped", "GFLOP/s", "chosen",
              "GFLOP/s", "ratio");
  for (const auto& [key, choice] : choices) {
    std::printf("%-52s %-38s %8.1f  %-38s %8.1f %6.2f\n", key.c_str(), choice.shipped.c_str(),
                choice.shipped_gflops, choice.chosen.c_str(), choice.chosen_gflops,
                choice.chosen_gflops / choice.shipped_gflops);
  }
}

void PrintJson(const std::map<std::string, Choice>& choices, const std::string& device) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [key, choice] : choices) {
    list.push_back({{"name", key},
                    {"device", device},
                    {"shipped", choice.shipped},
                    {"shipped_gflops", choice.shipped_gflops},
                    {"chosen", choice.chosen},
                    {"gflops", choice.chosen_gflops},
                    {"ratio", choice.chosen_gflops / choice.shipped_gflops}});
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void RunTuneCommand(const TuneOptions& options) {
  const Network network = options.model.Load();
  const auto tuner = ValueOrExit(Tuner::Create(
      {.file = options.file,
       .measure = true,
       .budget = absl::Seconds(options.choice_s),
       .warn = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }}));
  const auto listener = std::make_shared<Listener>(*tuner);
  BackendOptions backend_options;
  backend_options.cpu_isa = options.cpu_isa;
  backend_options.chooser = listener;
  const auto backend = ValueOrExit(CreateBackend(options.device, backend_options));
  ValueOrExit(backend->Compile(network, PrecisionOf(options.precision)));
  if (options.json) {
    PrintJson(listener->choices(), options.device);
  } else {
    PrintTable(listener->choices());
  }
}

}  // namespace

void AddTuneCommand(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command =
      app.add_subcommand("tune", "Choose a model's kernels and tiles by measurement");
  AddModelOptions(*command, options->model);
  command->add_option("--tune-file", options->file, "Table to add to")->required();
  command->add_option("--device", options->device, "Whose kernels")->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command->add_option("--cpu-isa", options->cpu_isa, "Instruction set; default the best");
  command->add_option("--time", options->choice_s, "Seconds to measure for each choice")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunTuneCommand(*options); });
}

}  // namespace upscaled::bench
