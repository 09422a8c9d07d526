// The `upscale` command, for both of its programs: `upscale`, with few libraries, and
// `upscale-full`, with codecs and queues as well.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/image_command.h"

namespace upscaled::client {

// Adds a command; `exit_code` is set when it was chosen and has run.
using CommandAdder = void (*)(CLI::App& app, int& exit_code);

// The programs' different parts.
struct ProgramParts {
  CommandAdder video, submit, jobs;
  SpreadFactory spread;
};

// Runs the command with these arguments, the program's name not among them, and returns the exit
// status.
int RunProgram(const std::vector<std::string>& arguments, const ProgramParts& parts);

}  // namespace upscaled::client
