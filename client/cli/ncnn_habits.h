// Understands the command lines of realesrgan-ncnn-vulkan and waifu2x-ncnn-vulkan, or answers them
// with the equivalent flag here. docs/cli.md has the table.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace upscaled::client {

// Returns `arguments` (without the program's name) with "image" in front if they begin with a flag
// of this command: "-i in.png -o out.png".
std::vector<std::string> WithCommand(std::vector<std::string> arguments);

// -n: a level of noise or "auto"; for a model's name the message tells of -m.
CLI::Validator NoiseLevel();
// -m: a model's name; for a path the message tells how a server gets a folder.
CLI::Validator ModelName();
// -w: drops Upscayl's ":default" behind the width; another filter is refused.
CLI::Validator WidthWithoutFilter();
// -t: 32 to 4096, or 0 for the server's choice. Turns a list for several GPUs into its first.
CLI::Validator TileSide();
// -j: turns LOAD:COMPUTE:SAVE into COMPUTE.
CLI::Validator ThreadCounts();
// Adds flags not in use here, hidden: each is refused with its equivalent.
void AddRefusedFlags(CLI::App& command);

}  // namespace upscaled::client
