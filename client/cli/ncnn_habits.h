// Understands the command lines of realesrgan-ncnn-vulkan and waifu2x-ncnn-vulkan, or answers them
// with the flag that does the same here. docs/cli.md has the table.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace upscaled::client {

// Returns `arguments` (without the program's name) with "image" in front if they begin with a flag
// of that command: "-i in.png -o out.png".
std::vector<std::string> WithCommand(std::vector<std::string> arguments);

// -n: a level of noise or "auto"; for a model's name the message tells of -m.
CLI::Validator NoiseLevel();
// -m: a model's name; for a folder the message tells how a server gets one.
CLI::Validator ModelName();
// -t: 32 to 4096, or 0 for the server's choice.
CLI::Validator TileSide();
// -g: refuses every value, since the server chooses its devices.
CLI::Validator NoDevice();
// -j: turns LOAD:COMPUTE:SAVE into COMPUTE.
CLI::Validator ThreadCounts();

}  // namespace upscaled::client
