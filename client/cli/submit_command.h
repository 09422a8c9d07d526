// `upscale submit`: images for a worker to upscale, when it comes to them.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

inline constexpr char kSubmitDescription[] = "Have a worker upscale images, now or later";

void AddSubmitCommand(CLI::App& app, int& exit_code);

}  // namespace upscaled::client
