// `upscale submit`: images, or a film, for workers to upscale when they come to them.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

inline constexpr char kSubmitDescription[] = "Have workers upscale images or a film, now or later";

void AddSubmitCommand(CLI::App& app, int& exit_code);

}  // namespace upscaled::client
