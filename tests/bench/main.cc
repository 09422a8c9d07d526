// upscale-bench: how fast the engine is, always as a ratio to the FMA peak measured in the same
// run, and the service's additions to it.
#include <CLI/CLI.hpp>

#include "tests/bench/commands.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Measures the engine (kernels, whole networks, where a network's time goes) and the service");
  app.require_subcommand(1);
  upscaled::bench::AddAccuracyCommand(app);
  upscaled::bench::AddCallsCommand(app);
  upscaled::bench::AddCodecCommand(app);
  upscaled::bench::AddCoresCommand(app);
  upscaled::bench::AddFlatCommand(app);
  upscaled::bench::AddForecastCommand(app);
  upscaled::bench::AddIdentityCommand(app);
  upscaled::bench::AddImageCommand(app);
  upscaled::bench::AddJobsCommand(app);
  upscaled::bench::AddKernelsCommand(app);
  upscaled::bench::AddModelsCommand(app);
  upscaled::bench::AddNetworkCommand(app);
  upscaled::bench::AddProfileCommand(app);
  upscaled::bench::AddQualityCommand(app);
  upscaled::bench::AddReportCommand(app);
  upscaled::bench::AddServiceCommand(app);
  upscaled::bench::AddTrainCommand(app);
  upscaled::bench::AddTuneCommand(app);
  upscaled::bench::AddVideoCommand(app);
  upscaled::bench::AddWorkCommand(app);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
