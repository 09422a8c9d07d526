#include "client/cli/program.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/info_commands.h"
#include "client/cli/load_command.h"
#include "client/cli/ncnn_habits.h"
#include "client/cli/sign_command.h"
#include "engine/base/nearest_names.h"

namespace upscaled::client {
namespace {

constexpr char kFooter[] = R"(
Start with 'upscale --local -i cat.png -o cat-2x.png', which needs no running server. Without a command,
flags are those of 'image'. 'upscale COMMAND --help' tells more.
UPSCALE_SERVER sets the default of --server. With several endpoints calls go round robin over those
that are up; host names in such a list are looked up once, a single name whenever it has to be.
UPSCALE_API_KEY is the key for servers that want one, TRACEPARENT the trace that the command's calls
belong to (W3C's traceparent).)";

// CLI11 lists the flags another one needs or excludes by their addresses. These differ from start
// to start, and manual pages are made of the help.
class SteadyFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::vector<std::string> words = absl::StrSplit(CLI::Formatter::make_option_opts(option), ' ');
    for (auto begin = words.begin(); begin != words.end();) {
      const auto end = std::find_if_not(
          begin, words.end(), [](const std::string& word) { return absl::StartsWith(word, "-"); });
      std::sort(begin, end);
      begin = end == words.end() ? end : end + 1;
    }
    return absl::StrJoin(words, " ");
  }
};

// Says how to begin to a caller without a command: a picture's name, perhaps.
absl::Status CheckCommand(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    return absl::InvalidArgumentError(
        "nothing to do; 'upscale -i cat.png -o cat-2x.png' upscales an image, --help tells more");
  }
  const std::string& first = arguments[0];
  const auto commands = app.get_subcommands(
      [&first](const CLI::App* command) { return command->get_name() == first; });
  if (absl::StartsWith(first, "-") || !commands.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", first, "' is no command; to upscale an image: upscale -i ", first,
                   " -o RESULT; --help tells more"));
}

// The flags of a command, without hyphens.
std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return names;
}

// CLI11's message, and advice for flags that do not exist: one that is spelled wrongly may be the
// reason for another that is missing.
std::string FailureMessage(const CLI::App* app, const CLI::Error& error) {
  std::string message = absl::StrCat(error.what(), "\n");
  const std::vector<CLI::App*> commands = app->get_subcommands();
  for (const std::string& unknown : app->remaining(/*recurse=*/true)) {
    if (!absl::StartsWith(unknown, "--")) continue;
    const std::string name = unknown.substr(2, unknown.find('=') - 2);
    const std::vector<std::string> nearest =
        NearestNames(name, FlagsOf(commands.empty() ? *app : *commands.front()));
    absl::StrAppend(&message, "There is no flag --", name);
    if (!nearest.empty()) {
      absl::StrAppend(&message, "; did you mean --", absl::StrJoin(nearest, " or --"), "?");
    }
    absl::StrAppend(&message, "\n");
  }
  return absl::StrCat(message, "Run with --help for more information.\n");
}

// Unwritten output, on a full disk for example, makes a success a failure.
int FlushOutput(int exit_code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || exit_code != kExitOk) return exit_code;
  return Fail(absl::UnknownError("cannot write to standard output"));
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, const ProgramParts& parts) {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // We say what is wrong, and in one line.
  signal(SIGPIPE, SIG_IGN);                           // A closed pipe is an error of the write.
  CLI::App app("Upscales images with an upscaled server.", "upscale");
  app.formatter(std::make_shared<SteadyFormatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", "upscale " UPSCALED_VERSION);
  app.footer(kFooter);
  app.failure_message(FailureMessage);
  int exit_code = kExitOk;
  AddImageCommand(app, parts.spread, exit_code);
  parts.video(app, exit_code);
  parts.submit(app, exit_code);
  parts.jobs(app, exit_code);
  AddSignCommand(app, exit_code);
  AddModelsCommand(app, exit_code);
  AddInfoCommand(app, exit_code);
  AddDevicesCommand(app, exit_code);
  AddUsageCommand(app, exit_code);
  AddHealthCommand(app, exit_code);
  AddLoadCommand(app, exit_code);
  if (absl::Status status = CheckCommand(app, arguments); !status.ok()) return Fail(status);
  try {
    std::vector<std::string> reversed = WithCommand(arguments);
    std::ranges::reverse(reversed);  // as CLI11 takes them
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {  // --help, too.
    return FlushOutput(app.exit(error) == 0 ? kExitOk : kExitBadArguments);
  }
  return FlushOutput(exit_code);
}

}  // namespace upscaled::client
