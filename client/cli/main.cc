// The `upscale` command.
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/image_command.h"
#include "client/cli/info_commands.h"
#include "client/cli/jobs_command.h"
#include "client/cli/load_command.h"
#include "client/cli/ncnn_habits.h"
#include "client/cli/sign_command.h"
#include "client/cli/submit_command.h"
#include "client/cli/video_command.h"

namespace upscaled::client {
namespace {

constexpr char kFooter[] = R"(
Start with 'upscale --local -i cat.png -o cat-2x.png', which needs no running server. Without a command,
flags are those of 'image'. 'upscale COMMAND --help' tells more.
UPSCALE_SERVER sets the default of --server. With several endpoints calls go round robin over those
that are up; host names in such a list are looked up once, a single name whenever it has to be.
UPSCALE_API_KEY is the key for servers that want one, TRACEPARENT the trace that the command's calls
belong to (W3C's traceparent).)";

// Output that was not written, on a full disk for example, makes a success a failure.
int FlushOutput(int exit_code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || exit_code != kExitOk) return exit_code;
  return Fail(absl::UnknownError("cannot write to standard output"));
}

int Main(int argc, char** argv) {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // We say what is wrong, and in one line.
  signal(SIGPIPE, SIG_IGN);                           // A closed pipe is an error of the write.
  CLI::App app("Upscales images with an upscaled server.", "upscale");
  app.require_subcommand(1);
  app.set_version_flag("--version", "upscale " UPSCALED_VERSION);
  app.footer(kFooter);
  int exit_code = kExitOk;
  AddImageCommand(app, exit_code);
  AddVideoCommand(app, exit_code);
  AddSubmitCommand(app, exit_code);
  AddJobsCommand(app, exit_code);
  AddSignCommand(app, exit_code);
  AddModelsCommand(app, exit_code);
  AddInfoCommand(app, exit_code);
  AddDevicesCommand(app, exit_code);
  AddUsageCommand(app, exit_code);
  AddHealthCommand(app, exit_code);
  AddLoadCommand(app, exit_code);
  try {
    std::vector<std::string> arguments = WithCommand({argv + 1, argv + argc});
    std::ranges::reverse(arguments);  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {  // --help, too.
    return FlushOutput(app.exit(error) == 0 ? kExitOk : kExitBadArguments);
  }
  return FlushOutput(exit_code);
}

}  // namespace
}  // namespace upscaled::client

int main(int argc, char** argv) { return upscaled::client::Main(argc, argv); }
