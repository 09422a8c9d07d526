// The `upscale-worker` command.
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/interrupt.h"
#include "client/cli/queue_flags.h"
#include "client/worker/allowed_places.h"
#include "client/worker/result_store.h"
#include "client/worker/s3.h"
#include "client/worker/webhook.h"
#include "client/worker/worker.h"
#include "engine/base/status_macros.h"
#include "server/jobs/job_place.h"

namespace upscaled::client {
namespace {

// Beyond the drain's end: to hand back the remaining jobs, and to get the answers of queue and
// server. Ends before systemd (60 s), Kubernetes (60 s) and compose (45 s) kill it.
constexpr absl::Duration kGrace = absl::Seconds(10);

constexpr char kWorkerFooter[] = R"(
Examples:
  upscale-worker --local --until-empty                # this machine, what 'upscale submit' has left
  upscale-worker --server images.example.org --tls    # goes on until SIGTERM

A result is a file of the results' folder, or an object, named by what it follows from: source, options, weights and
arithmetic. What is there is not computed again; jobs that fail for good leave errors/ID.json.
A queue says what is read and written: --allow-paths, --allow-buckets, --allow-urls and --allow-private-urls say where.
s3:// is signed with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where it is set, AWS_SESSION_TOKEN of the
environment, for AWS_REGION.
SIGTERM lets jobs end within --drain-timeout and hands the others back; a second signal ends at once,
and their leases run out. Either way no job is lost.

Exit status: 0 done or told to stop, 1 bad arguments, 2 cannot connect, 3 the server refuses this
worker, 5 the queue or the results cannot be used.)";

struct WorkerFlags {
  ConnectionFlags connection;
  QueueFlags queue;
  std::string results;
  std::string webhook_secret_file;
  WorkerOptions options{.s3 = S3Access::FromEnvironment()};
  double lease_s = absl::ToDoubleSeconds(WorkerOptions().lease);
  double drain_s = absl::ToDoubleSeconds(WorkerOptions().drain);
  double keep_ended_days = absl::ToDoubleHours(WorkerOptions().keep_ended) / 24;
  // nullopt: the queue decides (AllowedOf).
  std::optional<std::vector<std::string>> allow_paths, allow_buckets;
  std::vector<std::string> allow_urls, allow_private_urls;
  bool quiet = false;

  void AddPlacesTo(CLI::App& command);
  void AddTo(CLI::App& command);
};

void WorkerFlags::AddPlacesTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& list, const char* type, const char* variable,
                       const char* description) {
    command.add_option(name, list, description)
        ->type_name(type)
        ->envname(variable)
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  add("--allow-paths", allow_paths, "DIR,...", "UPSCALE_ALLOW_PATHS",
      "Folders that jobs may name files in, links followed; default: all for a queue in a folder, "
      "the results' folder for a queue at a broker");
  add("--allow-buckets", allow_buckets, "NAME,...", "UPSCALE_ALLOW_BUCKETS",
      "Buckets of S3 that jobs may name; default: all for a queue in a folder, the results' bucket "
      "for a queue at a broker");
  add("--allow-urls", allow_urls, "URL,...", "UPSCALE_ALLOW_URLS",
      "Beginnings of http(s) URLs that jobs may name; default: all. Their hosts have public "
      "addresses");
  add("--allow-private-urls", allow_private_urls, "URL,...", "UPSCALE_ALLOW_PRIVATE_URLS",
      "Beginnings of URLs of hosts that may have private addresses, too, such as "
      "http://10.0.0.7/hooks/");
}

void WorkerFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type)->capture_default_str();
  };
  queue.AddTo(command);
  add("--results", results, "DIR|URL",
      "Folder of results, or s3://BUCKET/PREFIX; default: results/ in the folder of the queue")
      ->envname("UPSCALE_RESULTS");
  add("--s3-endpoint", options.s3.endpoint, "URL",
      "Where s3:// is; default: Amazon's of AWS_REGION")
      ->envname("AWS_ENDPOINT_URL_S3");
  add("-j,--jobs", options.parallel, "N", "Jobs at a time")->check(Between(1, 256));
  add("--lease", lease_s, "SECONDS", "A job with a worker silent for this long is another's")
      ->check(Between(1.0, 86400.0));
  add("--max-deliveries", options.max_deliveries, "N", "A job fails after this many tries")
      ->check(Between(1, 1000));
  add("--keep-ended", keep_ended_days, "DAYS",
      "The queue forgets jobs that ended earlier; their results stay")
      ->check(Between(1.0, 36500.0));
  add("--drain-timeout", drain_s, "SECONDS", "For running jobs after SIGTERM")
      ->check(Between(0.0, 86400.0));
  command
      .add_option("--webhook-secret", webhook_secret_file,
                  "Holds the secret that webhooks are signed with, whsec_ and Base64")
      ->type_name("FILE");
  AddPlacesTo(command);
  command.add_flag("--until-empty", options.until_empty, "End when no job waits or runs");
  command.add_flag("--quiet", quiet, "Only say why it ends");
  connection.AddTo(command);
  connection.AddLocalTo(command);
  connection.AddPriorityTo(command, "background");
  command.footer(kWorkerFooter);
}

absl::StatusOr<std::string> PlaceOfResults(const WorkerFlags& flags) {
  if (!flags.results.empty()) return flags.results;
  ASSIGN_OR_RETURN(const std::string queue, flags.queue.Address());
  if (!absl::StrContains(queue, "://")) return std::filesystem::path(queue) / "results";
  return absl::InvalidArgumentError("the queue is no folder; say with --results where results go");
}

// Writers to a broker's queue should not choose the files this machine reads and overwrites. A
// queue in a folder is its owner's.
absl::StatusOr<AllowedPlaces> AllowedOf(const WorkerFlags& flags, const std::string& results) {
  AllowedPlaces allowed;
  ASSIGN_OR_RETURN(const std::string queue, flags.queue.Address());
  if (absl::StrContains(queue, "://")) {
    allowed.folders.emplace();
    allowed.buckets.emplace();
    if (server::IsS3Url(results)) {
      allowed.buckets->push_back(BucketOf(results));
    } else {
      allowed.folders->push_back(results);
    }
  }
  if (flags.allow_paths.has_value()) {
    allowed.folders.emplace(flags.allow_paths->begin(), flags.allow_paths->end());
  }
  if (flags.allow_buckets.has_value()) allowed.buckets = flags.allow_buckets;
  if (!flags.allow_urls.empty()) {
    ASSIGN_OR_RETURN(allowed.urls, server::ParseUrlPrefixes(flags.allow_urls));
  }
  ASSIGN_OR_RETURN(allowed.private_urls, server::ParseUrlPrefixes(flags.allow_private_urls));
  return allowed;
}

absl::StatusOr<std::string> ReadWebhookSecret(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return ParseWebhookSecret(text);
}

absl::Status RunWorker(const WorkerFlags& flags) {
  WorkerOptions options = flags.options;
  options.lease = absl::Seconds(flags.lease_s);
  options.drain = absl::Seconds(flags.drain_s);
  options.keep_ended = absl::Hours(24) * flags.keep_ended_days;
  if (!flags.webhook_secret_file.empty()) {
    ASSIGN_OR_RETURN(options.webhook_secret, ReadWebhookSecret(flags.webhook_secret_file));
  }
  Interrupt interrupt(options.drain + kGrace);
  ASSIGN_OR_RETURN(const std::unique_ptr<server::JobQueue> queue,
                   flags.queue.Open(server::IfAbsent::kMake));
  ASSIGN_OR_RETURN(const std::string place, PlaceOfResults(flags));
  ASSIGN_OR_RETURN(options.allowed, AllowedOf(flags, place));
  ASSIGN_OR_RETURN(const std::unique_ptr<ResultStore> results, OpenResults(place, options.s3));
  ASSIGN_OR_RETURN(const Connection connection, flags.connection.Connect(interrupt.token()));
  options.check_server = [&connection] { return connection.CheckServer(); };
  const auto log = [&flags](const std::string& line) {
    if (!flags.quiet) absl::FPrintF(stderr, "%s\n", line);
  };
  Worker worker(*queue, *connection.service, *results, options, RetryClock::Real(), log);
  return worker.Run(interrupt.token());
}

int Main(int argc, char** argv) {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // We say what is wrong, and in one line.
  signal(SIGPIPE, SIG_IGN);                           // A closed pipe is an error of the write.
  CLI::App app("Upscales images queued by 'upscale submit'.", "upscale-worker");
  WorkerFlags flags;
  flags.AddTo(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // --help, too.
    return app.exit(error) == 0 ? kExitOk : kExitBadArguments;
  }
  const absl::Status status = RunWorker(flags);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace
}  // namespace upscaled::client

int main(int argc, char** argv) { return upscaled::client::Main(argc, argv); }
