// `upscale video`.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

inline constexpr char kVideoDescription[] = "Upscale the frames of a film, from pipe to pipe";

// Adds the command to `app`; `exit_code` is set when it was chosen and has run.
void AddVideoCommand(CLI::App& app, int& exit_code);

}  // namespace upscaled::client
