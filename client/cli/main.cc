// `upscale`. `upscale-full` has the commands with codecs or queues, and this program becomes it for
// them. A call without either starts in a fraction of the time.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/errors.h"
#include "client/cli/jobs_command.h"
#include "client/cli/program.h"
#include "client/cli/submit_command.h"
#include "client/cli/video_command.h"

namespace upscaled::client {
namespace {

constexpr char kFullProgram[] = "upscale-full";

constexpr ProgramParts kParts = {
    .video = [](CLI::App& app, int&) { app.add_subcommand("video", kVideoDescription); },
    .submit = [](CLI::App& app, int&) { app.add_subcommand("submit", kSubmitDescription); },
    .jobs = [](CLI::App& app, int&) { app.add_subcommand("jobs", kJobsDescription); },
    .spread = nullptr,
};

bool NeedsFullProgram(const std::vector<std::string>& arguments) {
  constexpr std::string_view kCommands[] = {"video", "submit", "jobs"};
  if (!arguments.empty() && std::ranges::count(kCommands, arguments[0]) != 0) return true;
  return std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument == "--spread" || absl::StartsWith(argument, "--spread=");
  });
}

// Becomes upscale-full, next to this program. Returns only if it cannot.
absl::Status RunFullProgram(char** argv) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::FailedPreconditionError(
        "cannot find the folder of this program: /proc/self/exe cannot be read");
  }
  const std::filesystem::path program = own.parent_path() / kFullProgram;
  execv(program.c_str(), argv);
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start ", program.native(), ", which does this: ", std::strerror(errno)));
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (NeedsFullProgram(arguments)) return Fail(RunFullProgram(argv));
  return RunProgram(arguments, kParts);
}

}  // namespace
}  // namespace upscaled::client

int main(int argc, char** argv) { return upscaled::client::Main(argc, argv); }
