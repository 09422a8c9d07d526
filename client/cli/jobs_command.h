// `upscale jobs`: what became of those that were submitted.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

void AddJobsCommand(CLI::App& app, int& exit_code);

}  // namespace upscaled::client
