// upscale-bench report: one machine's part of RESULTS.md and the README, as Markdown. Each part is
// another of the subcommands in a process of its own: a failed one is a line with its reason.
// `--scale 0.15` takes three minutes on two cores; keep figures of the default scale only.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "engine/model/repository.h"
#include "tests/bench/commands.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/markdown.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct ReportOptions {
  std::vector<std::filesystem::path> repositories;
  std::string images;
  std::vector<std::string> only;
  double scale = 1;
};

struct Part {
  std::string title;
  std::vector<std::string> args;  // of upscale-bench
  enum { kTable, kGrid, kMarkdown } shown = kTable;
};

// A whole stream, from where it stands.
std::string ReadAll(std::FILE* file) {
  std::string text;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  return text;
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// The output of this program when it is called so, otherwise the last line of its errors.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& args) {
  const File out(std::tmpfile(), &std::fclose), err(std::tmpfile(), &std::fclose);
  if (out == nullptr || err == nullptr) return absl::InternalError("no temporary file");
  std::vector<const char*> argv = {"upscale-bench"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return absl::InternalError("no process");
  if (child == 0) {
    dup2(fileno(out.get()), STDOUT_FILENO);
    dup2(fileno(err.get()), STDERR_FILENO);
    execv("/proc/self/exe", const_cast<char**>(argv.data()));
    _exit(127);
  }
  int state = 0;
  waitpid(child, &state, 0);
  std::rewind(out.get());
  std::rewind(err.get());
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return ReadAll(out.get());
  const std::string errors = ReadAll(err.get());
  const std::vector<std::string> lines = absl::StrSplit(errors, '\n', absl::SkipEmpty());
  return absl::InternalError(lines.empty() ? "it ended without a word" : lines.back());
}

absl::StatusOr<std::string> MarkdownOf(const Part& part) {
  std::vector<std::string> args = part.args;
  if (part.shown != Part::kMarkdown) args.push_back("--json");
  ASSIGN_OR_RETURN(const std::string output, OutputOf(args));
  if (part.shown == Part::kMarkdown) {
    // Without the line about the machine.
    std::vector<std::string> lines = absl::StrSplit(output, '\n');
    std::erase_if(lines, [](const std::string& line) { return !line.starts_with('|'); });
    return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
  }
  const auto list = nlohmann::ordered_json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return absl::InternalError("it printed no list");
  return part.shown == Part::kGrid ? MarkdownGrid(list, "name", "shape", "ratio")
                                   : MarkdownTable(list);
}

std::vector<Part> ListParts(const ReportOptions& options) {
  std::vector<std::string> folders;
  for (const std::filesystem::path& folder : options.repositories) {
    folders.insert(folders.end(), {"--model-repository", folder.string()});
  }
  const auto with_folders = [&](std::vector<std::string> args) {
    args.insert(args.end(), folders.begin(), folders.end());
    return args;
  };
  const auto time = [&](double seconds) { return absl::StrCat(seconds * options.scale); };
  const auto rounds = [&](int count) {
    return absl::StrCat(std::max(1, static_cast<int>(count * options.scale)));
  };
  std::vector<Part> parts = {{"Kernels, 168x168 pixels, one thread, ratio to the peak",
                              {"kernels", "--time", time(0.3)},
                              Part::kGrid},
                             {"Kernels on AVX2",
                              {"kernels", "--cpu-isa", "avx2", "--no-peers", "--time", time(0.3)},
                              Part::kGrid}};
  const auto add_network = [&](const std::string& model, const std::string& size) {
    parts.push_back({absl::StrCat("Network ", model, ", ", size),
                     with_folders({"network", "--model", model, "--size", size, "--threads", "1,0",
                                   "--precision", "exact,fast", "--time", time(1)})});
  };
  for (const char* model : {"general-2x", "fast-2x"}) add_network(model, "960x540");
  for (const char* model : {"upconv_7", "vgg_7", "srvgg", "cunet", "medium"}) {
    add_network(absl::StrCat("random:", model), "480x270");
  }
  if (!options.repositories.empty()) {
    const auto repository = ValueOrExit(ModelRepository::Open(options.repositories));
    for (const ModelCard& card : repository.models()) add_network(card.name, "480x270");
  }
  for (const char* model : {"general-2x", "random:srvgg"}) {
    parts.push_back(
        {absl::StrCat("Sizes, ", model),
         {"network", "--model", model, "--size", "256x192,640x360,1280x720,1920x1080,3840x2160",
          "--threads", "1,0", "--no-peers", "--time", time(1)}});
  }
  parts.push_back({"Multiply-adds over sizes, of one tile's",
                   {"work", "--model",
                    "general-2x,fast-2x,random:upconv_7,random:vgg_7,random:srvgg,random:srvgg_x4,"
                    "random:rrdb",
                    "--threads", "2"}});
  const auto add_cores = [&](const std::string& images, const std::string& size) {
    parts.push_back({absl::StrCat("Many cores, simulated: general-2x, ", images, " of ", size),
                     {"cores", "--model", "general-2x", "--images", images, "--size", size}});
  };
  add_cores("1", "1920x1080");
  add_cores("64", "64x64");
  for (const char* model : {"general-2x", "random:cunet"}) {
    parts.push_back({absl::StrCat("Where the time of ", model, " goes, 480x270, one thread"),
                     {"profile", "--model", model, "--time", time(2)}});
  }
  parts.push_back({"Models", with_folders({"models"}), Part::kMarkdown});
  parts.push_back(
      {"Service, general-2x, 960x540", {"service", "--rounds", rounds(9), "--calls", rounds(20)}});
  parts.push_back({"Codecs", {"codec", "--rounds", rounds(5)}});
  parts.push_back({"Image kernels, one thread", {"image", "--time", time(0.3)}});
  parts.push_back({"Callers", {"identity"}});
  if (!options.images.empty()) {
    std::vector<std::string> flat = {"flat", "--model", "general-2x", "--rounds", rounds(7)};
    for (const std::filesystem::path& image : ValueOrExit(ListImages(options.images))) {
      flat.insert(flat.end(), {"--image", image.string()});
    }
    parts.push_back({"Flat areas, general-2x, file to file", std::move(flat)});
    for (const char* model : {"general-2x", "fast-2x"}) {
      parts.push_back({absl::StrCat("Quality of ", model),
                       {"quality", "--model", model, "--images", options.images}});
    }
  }
  if (!options.only.empty()) {
    std::erase_if(parts, [&](const Part& part) {
      return std::ranges::find(options.only, part.args.front()) == options.only.end();
    });
  }
  return parts;
}

void RunReportCommand(const ReportOptions& options) {
  const absl::Time begin = absl::Now();
  std::printf("## %s, compiled by %s\n\n%s\n",
              absl::FormatTime("%Y-%m-%d", begin, absl::UTCTimeZone()).c_str(), __VERSION__,
              DescribeMachine().c_str());
  for (const Part& part : ListParts(options)) {
    std::fprintf(stderr, "upscale-bench: %s\n", part.title.c_str());
    const absl::StatusOr<std::string> table = MarkdownOf(part);
    std::printf("\n### %s\n\n`upscale-bench %s`\n\n%s", part.title.c_str(),
                absl::StrJoin(part.args, " ").c_str(),
                table.ok() ? table->c_str()
                           : absl::StrCat("failed: ", table.status().message(), "\n").c_str());
    std::fflush(stdout);
  }
  std::printf("\nAfter %.1f minutes: %s\n", absl::ToDoubleMinutes(absl::Now() - begin),
              DescribeMachine().c_str());
}

}  // namespace

void AddReportCommand(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      app.add_subcommand("report", "All that RESULTS.md shows of a machine, as Markdown");
  AddRepositoryOption(*command, options->repositories);
  command->add_option("--images", options->images, "Folder of images for `flat` and `quality`")
      ->check(CLI::ExistingDirectory);
  command->add_option("--only", options->only, "Subcommands to run, instead of all")
      ->delimiter(',')
      ->check(CLI::IsMember({"kernels", "network", "work", "cores", "profile", "models", "service",
                             "codec", "image", "identity", "flat", "quality"}));
  command
      ->add_option("--scale", options->scale, "Of the time for each figure: 0.1 for a quick look")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([options] { RunReportCommand(*options); });
}

}  // namespace upscaled::bench
