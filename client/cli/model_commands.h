// `upscale models add` and `upscale models export`, for operators.
#pragma once

#include "CLI/CLI.hpp"

namespace upscaled::client {

// To `models`. Its own callback must do nothing if one of them was given.
void AddModelFileCommands(CLI::App& models, int& exit_code);

}  // namespace upscaled::client
