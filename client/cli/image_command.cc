#include "client/cli/image_command.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/image_batch.h"
#include "client/cli/image_plan.h"
#include "client/cli/image_report.h"
#include "client/cli/interrupt.h"
#include "client/cli/ncnn_habits.h"
#include "client/cli/progress_bar.h"
#include "engine/base/status_macros.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {
namespace {

constexpr char kImageFooter[] = R"(
Examples:
  upscale image --local -i cat.png -o cat-2x.png
  upscale image -i cat.png -o cat-2x.png
  upscale image -i cat.jpg -o cat-4x.webp -s 4 -n 1 -q 92
  upscale image -i photo.png -o photo-4k.png --width 3840
  upscale image -i holiday/ -o holiday-2x/ -f jpeg -j 4 --resume
  upscale image -i *.jpg -o large/
  upscale image -i https://example.org/a.png -o a-2x.png --server http://localhost:8000
  upscale image -i wall.png -o wall-4x.png -s 4 --spread --server a:8001,b:8001,c:8001
  curl -s https://example.org/a.png | upscale image -i - -o - -f webp > a.webp

The server itself fetches what a URL names, if its --fetch-allow lists it; it is to be called over HTTP.

Of a folder, or of several inputs, all files are upscaled that begin as an image of a format that is read, or are named as
one. Files that are left out are counted at the end; -v and --json name each with its reason. A result in a folder is
named after its format, PNG where the source's is not written.

Results appear under their name only when they are complete. A call is tried again when the server is
full or lost and its image can be sent again: standard input while at most 64 MiB of it were read,
standard output while nothing was written to it.

Exit status: 0 all done, 1 bad arguments, 2 cannot connect, 3 the call failed, 4 some of several
files failed, 5 a file could not be read or written or a folder has no images, 130 interrupted.)";

struct ImageFlags {
  ConnectionFlags connection;
  UpscaleFlags upscale;
  std::vector<std::string> inputs;
  std::string output;
  FormatFlags format;
  int jobs = 2;
  bool resume = false;
  bool verbose = false;
  bool quiet = false;
  bool json = false;
  bool spread = false;
  int spread_calls = SpreadOptions().calls;

  void AddTo(CLI::App& command);
  ReportStyle Style() const;
  absl::StatusOr<Connection> Connect(SpreadFactory make_spread, std::stop_token stop) const;
  BatchOptions ToBatchOptions() const;
};

void ImageFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("-i,--input", inputs, "PATH",
      "Images, folders of images, URLs that the server fetches, or - for standard input")
      ->required();
  add("-o,--output", output, "PATH", "File, folder (existing, or NAME/), or - for standard output")
      ->required();
  upscale.AddTo(command);
  format.AddTo(command);
  add("-j,--jobs", jobs, "N", "Images to work on at a time")
      ->check(Between(1, 256))
      ->transform(ThreadCounts())
      ->capture_default_str();
  command.add_flag("--resume", resume, "Keep outputs that are there already");
  CLI::Option* verbose_flag = command.add_flag("-v,--verbose", verbose, "Say more");
  CLI::Option* quiet_flag = command.add_flag("--quiet", quiet, "Only say what went wrong");
  CLI::Option* json_flag =
      command.add_flag("--json", json, "Print a JSON object an image to standard output");
  quiet_flag->excludes(verbose_flag);
  json_flag->excludes(verbose_flag)->excludes(quiet_flag);
  CLI::Option* spread_flag = command.add_flag(
      "--spread", spread,
      "Cut each image up here and have all servers, of one release, compute its tiles");
  add("--spread-calls", spread_calls, "N", "Tiles of an image in flight at a time")
      ->check(Between(1, 1024))
      ->capture_default_str()
      ->needs(spread_flag);
  connection.AddTo(command);
  connection.AddLocalTo(command);
  connection.AddPriorityTo(command, "");
  AddRefusedFlags(command);
  command.footer(kImageFooter);
}

ReportStyle ImageFlags::Style() const {
  if (json) return ReportStyle::kJson;
  if (quiet) return ReportStyle::kQuiet;
  return verbose ? ReportStyle::kVerbose : ReportStyle::kNormal;
}

absl::StatusOr<Connection> ImageFlags::Connect(SpreadFactory make_spread,
                                               std::stop_token stop) const {
  if (!spread) return connection.Connect(std::move(stop));
  if (connection.local)
    return absl::InvalidArgumentError("--local and --spread exclude each other");
  ASSIGN_OR_RETURN(std::unique_ptr<UpscaleClient> client, connection.MakeClient());
  Connection spread_connection;
  spread_connection.service =
      make_spread(std::move(client), {.calls = spread_calls, .timeout = connection.timeout()});
  return spread_connection;
}

BatchOptions ImageFlags::ToBatchOptions() const {
  BatchOptions options{.upscale = upscale.ToProto(),
                       .resume = resume,
                       .parallel = jobs,
                       .timeout = connection.timeout()};
  format.ApplyTo(options.upscale);
  return options;
}

// Places not usable by this command, and standard streams without sense.
absl::Status CheckPlaces(const ImageFlags& flags) {
  const auto s3 = std::ranges::find_if(flags.inputs, server::IsS3Url);
  const bool reads_s3 = s3 != flags.inputs.end();
  if (reads_s3 || server::IsUrl(flags.output)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'upscale image' does not ", reads_s3 ? "read " : "write to ",
                     reads_s3 ? *s3 : server::WithoutSecrets(flags.output),
                     "; 'upscale submit' has a worker do that"));
  }
  if (flags.output == kStandardStream && flags.json) {
    return absl::InvalidArgumentError("--json and -o - both want standard output");
  }
  if (flags.output == kStandardStream && isatty(STDOUT_FILENO)) {
    return absl::InvalidArgumentError("-o - would write an image to the terminal");
  }
  const bool reads_stream = std::ranges::count(flags.inputs, kStandardStream) != 0;
  if (reads_stream && isatty(STDIN_FILENO)) {
    return absl::InvalidArgumentError("-i - would read an image from the terminal");
  }
  return absl::OkStatus();
}

int RunImage(const ImageFlags& flags, SpreadFactory make_spread) {
  if (absl::Status status = CheckPlaces(flags); !status.ok()) return Fail(status);
  const absl::StatusOr<ImagePlan> plan =
      PlanInputs(flags.inputs, flags.output, ParseFormat(flags.format.format));
  if (!plan.ok()) return Fail(plan.status());

  Interrupt interrupt;
  const auto connection = flags.Connect(make_spread, interrupt.token());
  if (!connection.ok()) return Fail(connection.status());
  const ReportStyle style = flags.Style();
  const bool show_bar =
      isatty(STDERR_FILENO) && style != ReportStyle::kQuiet && style != ReportStyle::kJson;
  ProgressBar bar(stderr, show_bar, static_cast<int>(plan->jobs.size()));
  ImageReport report(style, plan->is_folder, bar);
  if (!plan->warning.empty()) report.Warn(plan->warning);
  for (const LeftOut& left_out : plan->left_out) report.Add(left_out);
  const BatchOptions options = flags.ToBatchOptions();
  ImageBatch batch(*plan, options, *connection->service, bar, report, interrupt.token());
  const int not_tried = batch.Run();
  if (const absl::Status ended = connection->CheckServer(); !ended.ok()) {
    bar.Print(absl::StrCat("upscale: ", ErrorLine(ended)));
  }
  return report.Finish(not_tried, interrupt.token().stop_requested());
}

}  // namespace

void AddImageCommand(CLI::App& app, SpreadFactory spread, int& exit_code) {
  auto flags = std::make_shared<ImageFlags>();
  CLI::App* command = app.add_subcommand("image", "Upscale an image, a folder or standard input");
  flags->AddTo(*command);
  command->callback([flags, spread, &exit_code] { exit_code = RunImage(*flags, spread); });
}

}  // namespace upscaled::client
