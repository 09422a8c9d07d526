// How long each model takes to load and to compile, and its memory afterwards.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/backend_list.h"
#include "engine/base/status_macros.h"
#include "engine/model/repository.h"
#include "tests/bench/commands.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

constexpr double kMib = 1 << 20;

double ResidentMib() {
  long pages = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMib;
}

absl::Status Measure(const ModelCard& card, const ModelVariant& variant) {
  ASSIGN_OR_RETURN(const auto backend, CreateBackend("cpu", {.threads = 1}));
  const double before_mib = ResidentMib();
  const absl::Time start = absl::Now();
  auto network = std::make_unique<absl::StatusOr<Network>>(LoadNetwork(card, variant));
  RETURN_IF_ERROR(network->status());
  const absl::Time loaded = absl::Now();
  ASSIGN_OR_RETURN(const auto executable, backend->Compile(**network, Precision::kExact));
  const absl::Time compiled = absl::Now();
  const double weights = static_cast<double>((*network)->WeightCount());
  network.reset();  // as the server does
  const Size tile = executable->PreferredTile();
  absl::PrintF("| %s x%d, noise %d | %s | %.2f | %.0f | %.0f | %.1f | %.1f | %dx%d | %.0f |\n",
               card.name, variant.scale, variant.noise_level, card.family, weights / 1e6,
               absl::ToDoubleMilliseconds(loaded - start),
               absl::ToDoubleMilliseconds(compiled - loaded), ResidentMib() - before_mib,
               static_cast<double>(executable->WeightBytes()) / kMib, tile.width, tile.height,
               static_cast<double>(executable->WorkspaceBytes(tile)) / kMib);
  return absl::OkStatus();
}

// In a process of its own: nothing of the model before is counted.
void MeasureApart(const ModelCard& card, const ModelVariant& variant) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status = Measure(card, variant);
    if (!status.ok()) absl::PrintF("%s: %s\n", card.name, std::string(status.message()));
    std::fflush(stdout);
    _exit(status.ok() ? 0 : 1);
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

void Run(const ModelOptions& options) {
  const ModelRepository repository = ValueOrExit(ModelRepository::Open(options.Folders()));
  PrintMachine();
  absl::PrintF(
      "| model | family | weights, M | load, ms | compile, ms | resident, MiB | packed, MiB | tile "
      "| "
      "workspace, MiB a stream |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const ModelCard& card : repository.models()) {
    for (const ModelVariant& variant : card.variants) MeasureApart(card, variant);
  }
}

}  // namespace

void AddModelsCommand(CLI::App& app) {
  auto options = std::make_shared<ModelOptions>();
  CLI::App* command = app.add_subcommand(
      "models", "Load time and resident memory of every model, on the cpu, one by one");
  AddRepositoryOption(*command, options->repositories);
  command->callback([options] { Run(*options); });
}

}  // namespace upscaled::bench
