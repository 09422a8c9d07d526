// `upscale models`, `upscale info`, `upscale usage` and `upscale health`.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

// Each adds its command to `app`; `exit_code` is set when it was chosen and has run.
void AddModelsCommand(CLI::App& app, int& exit_code);
void AddInfoCommand(CLI::App& app, int& exit_code);
void AddDevicesCommand(CLI::App& app, int& exit_code);
void AddUsageCommand(CLI::App& app, int& exit_code);
void AddHealthCommand(CLI::App& app, int& exit_code);

}  // namespace upscaled::client
