// The subcommands of upscale-bench, one file each.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace upscaled::bench {

// Each adds its subcommand with its options; it runs when the command line is parsed and throws
// CLI::RuntimeError when it fails.
void AddAccuracyCommand(CLI::App& app);
void AddCallsCommand(CLI::App& app);
void AddCodecCommand(CLI::App& app);
void AddCoresCommand(CLI::App& app);
void AddFlatCommand(CLI::App& app);
void AddForecastCommand(CLI::App& app);
void AddIdentityCommand(CLI::App& app);
void AddImageCommand(CLI::App& app);
void AddJobsCommand(CLI::App& app);
void AddKernelsCommand(CLI::App& app);
void AddModelsCommand(CLI::App& app);
void AddNetworkCommand(CLI::App& app);
void AddProfileCommand(CLI::App& app);
void AddQualityCommand(CLI::App& app);
void AddReportCommand(CLI::App& app);
void AddServiceCommand(CLI::App& app);
void AddTrainCommand(CLI::App& app);
void AddTuneCommand(CLI::App& app);
void AddVideoCommand(CLI::App& app);
void AddWorkCommand(CLI::App& app);

}  // namespace upscaled::bench
