// `upscale sign`.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

// Adds the command to `app`; `exit_code` is set when it was chosen and has run.
void AddSignCommand(CLI::App& app, int& exit_code);

}  // namespace upscaled::client
