// `upscale jobs`: the state of submitted jobs.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

inline constexpr char kJobsDescription[] = "List submitted jobs, the latest last";

void AddJobsCommand(CLI::App& app, int& exit_code);

}  // namespace upscaled::client
