// `upscale image`.
#pragma once

#include <memory>

#include "CLI/CLI.hpp"
#include "client/service.h"
#include "client/spread/spread_options.h"
#include "client/upscale_client.h"

namespace upscaled::client {

// Makes the service of --spread.
using SpreadFactory = std::unique_ptr<Service> (*)(std::unique_ptr<UpscaleClient> client,
                                                   const SpreadOptions& options);

// Adds the command to `app`; `exit_code` is set when it was chosen and has run. `spread` may be
// null in a program without --spread.
void AddImageCommand(CLI::App& app, SpreadFactory spread, int& exit_code);

}  // namespace upscaled::client
