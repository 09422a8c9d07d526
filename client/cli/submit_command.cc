#include "client/cli/submit_command.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/find_images.h"
#include "client/cli/flags.h"
#include "client/cli/image_plan.h"
#include "client/cli/queue_flags.h"
#include "client/http/http_target.h"
#include "client/image_io.h"
#include "client/video/film_facts.h"
#include "client/worker/film_check.h"
#include "client/worker/film_commands.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/jobs/film_part.h"
#include "server/jobs/job_place.h"
#include "server/jobs/task.h"

namespace upscaled::client {
namespace {

constexpr char kSubmitFooter[] = R"(
Examples:
  upscale submit -i holiday/ -o holiday-2x/
  upscale submit -i a.png b.jpg https://example.org/c.png -o large/ -f webp
  upscale submit --list urls.txt -o large/
  upscale submit -i s3://bucket/a.png s3://bucket/b.png -o s3://bucket/large/
  upscale submit --video -i film.mkv -o film-2x.mkv
  upscale-worker --local --until-empty

'upscale-worker' works on what is submitted, at once or later; 'upscale jobs' tells how far it is. It reads
files under the paths that they have here, and fetches URLs itself. A film becomes a job for every --frames-per-job
frames. The worker of the last one joins all with the film's sound. Films need ffmpeg, here and at the workers.)";

struct SubmitFlags {
  std::vector<std::string> inputs;
  std::string list;
  std::string output;
  std::string webhook;
  UpscaleFlags upscale;
  FormatFlags format;
  QueueFlags queue;
  bool json = false;
  bool video = false;
  int64_t frames_per_job = 240;
  std::string codec = "h264";

  void AddTo(CLI::App& command);
};

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const VideoCodec& codec : VideoCodecs()) names.emplace_back(codec.name);
  return names;
}

void SubmitFlags::AddTo(CLI::App& command) {
  command.add_option("-i,--input", inputs, "Images, folders of images, URLs of images (s3:// too)")
      ->type_name("PATH...");
  command.add_option("--list", list, "File with an image or URL a line; - for standard input")
      ->type_name("FILE");
  command
      .add_option("-o,--output", output,
                  "File for one image, else folder (existing, or NAME/); or a URL to PUT to")
      ->type_name("PATH")
      ->required();
  command.add_option("--webhook", webhook, "Hears of each job's end (Standard Webhooks)")
      ->type_name("URL")
      ->check(CLI::Validator(
          [](std::string& url) { return IsHttpUrl(url) ? "" : url + " is no http(s) URL"; }, ""));
  upscale.AddTo(command);
  format.AddTo(command);
  queue.AddTo(command);
  CLI::Option* const film = command.add_flag(
      "--video", video, "The input is a film, the output its file: .mkv, .mp4 or .mov");
  for (const char* const name : {"--list", "--format", "--quality", "--png-compression", "--depth",
                                 "--16-bit", "--metadata", "--frame"})
    film->excludes(command.get_option(name));
  command.add_option("--frames-per-job", frames_per_job, "Of a film")
      ->type_name("N")
      ->check(Between<int64_t>(1, 1'000'000))
      ->capture_default_str()
      ->needs(film);
  command
      .add_option("--codec", codec, "Of a film's result: h264, h265, or ffv1, which loses nothing")
      ->type_name("NAME")
      ->check(CLI::IsMember(CodecNames()).description(""))
      ->capture_default_str()
      ->needs(film);
  command.add_flag("--json", json, "Print a JSON object a job to standard output");
  command.footer(kSubmitFooter);
}

// The nonempty lines of --list.
absl::StatusOr<std::vector<std::string>> ReadList(const std::string& path) {
  std::ifstream file;
  if (path != kStandardStream) file.open(path);
  std::istream& lines = path == kStandardStream ? std::cin : file;
  std::vector<std::string> inputs;
  for (std::string line; std::getline(lines, line);) {
    const absl::string_view input = absl::StripAsciiWhitespace(line);
    if (!input.empty()) inputs.emplace_back(input);
  }
  if (lines.eof()) return inputs;
  return absl::NotFoundError(absl::StrCat("cannot read ", path));
}

std::string Absolute(const std::string& path) {
  if (server::IsUrl(path)) return path;
  return std::filesystem::absolute(path).lexically_normal();
}

// The output file of each image; no two share a file.
absl::StatusOr<std::vector<ImageJob>> Plan(const SubmitFlags& flags) {
  ASSIGN_OR_RETURN(std::vector<std::string> inputs, ExpandPatterns(flags.inputs));
  if (!flags.list.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> listed, ReadList(flags.list));
    inputs.insert(inputs.end(), listed.begin(), listed.end());
  }
  if (inputs.empty())
    return absl::InvalidArgumentError("nothing to submit: see --input and --list");
  if (inputs.size() > 1 && FormatOfPath(flags.output) != v1::IMAGE_FORMAT_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", inputs.size(), " inputs, so the output must be a folder, and ",
                     flags.output, " is named like an image; end a folder's name with a slash"));
  }
  std::vector<ImageJob> jobs;
  for (const std::string& input : inputs) {
    if (input == kStandardStream || flags.output == kStandardStream) {
      return absl::InvalidArgumentError("jobs have no standard input and output; name files");
    }
    // Several go into a folder even where it is yet to be made.
    const bool names_folder = inputs.size() == 1 || absl::EndsWith(flags.output, "/");
    const std::string output = names_folder ? flags.output : flags.output + "/";
    ASSIGN_OR_RETURN(const ImagePlan plan,
                     PlanImages(input, output, ParseFormat(flags.format.format)));
    if (!plan.warning.empty()) std::fprintf(stderr, "upscale: warning: %s\n", plan.warning.c_str());
    for (const LeftOut& left_out : plan.left_out) {
      std::fprintf(stderr, "upscale: left out %s: %s\n", left_out.path.c_str(),
                   left_out.reason.c_str());
    }
    jobs.insert(jobs.end(), plan.jobs.begin(), plan.jobs.end());
  }
  RETURN_IF_ERROR(CheckDistinct(jobs));
  for (ImageJob& job : jobs) {
    job.input = Absolute(job.input);
    job.output = Absolute(job.output);
  }
  return jobs;
}

// A job for each part of the film; its folder is made for them.
absl::StatusOr<std::vector<server::NewJob>> FilmJobs(const SubmitFlags& flags) {
  if (flags.inputs.size() != 1 || server::IsUrl(flags.inputs[0]) || server::IsUrl(flags.output) ||
      flags.inputs[0] == kStandardStream || flags.output == kStandardStream) {
    return absl::InvalidArgumentError("--video takes one file, and writes one");
  }
  if (std::error_code ignored; std::filesystem::is_symlink(flags.output, ignored))
    return absl::InvalidArgumentError(absl::StrCat(flags.output, " is a link; name its file"));
  if (IsSamePlace(flags.inputs[0], flags.output)) {
    return absl::InvalidArgumentError(
        absl::StrCat("input and output are the same: ", flags.output));
  }
  RETURN_IF_ERROR(OpenSource(flags.inputs[0]).status());
  ASSIGN_OR_RETURN(const Container container, ContainerOf(flags.output));
  RETURN_IF_ERROR(flags.upscale.CheckForFilm());
  server::Task task{.source = Absolute(flags.inputs[0]),
                    .options = flags.upscale.ToProto(),
                    .output = Absolute(flags.output),
                    .webhook = flags.webhook};
  ASSIGN_OR_RETURN(const FilmFacts facts, ReadFilmFacts(task.source));
  task.film = server::FilmPart{.id = RandomUuid(),
                               .frames = facts.frames,
                               .part_frames = flags.frames_per_job,
                               .rate = facts.rate,
                               .rate_by = facts.rate_by,
                               .start_s = facts.start_s,
                               .matrix = facts.matrix,
                               .primaries = facts.primaries,
                               .transfer = facts.transfer,
                               .range = facts.range,
                               .codec = flags.codec};
  ASSIGN_OR_RETURN(const std::vector<std::string> warnings,
                   CheckFilm(task.source, facts, task.options, *task.film, container));
  for (const std::string& warning : warnings)
    std::fprintf(stderr, "upscale: warning: %s: %s\n", flags.inputs[0].c_str(), warning.c_str());
  std::vector<server::NewJob> jobs;
  for (; task.film->number < task.film->parts(); ++task.film->number) {
    ASSIGN_OR_RETURN(std::string text, server::TaskToJson(task));
    jobs.push_back({RandomUuid(), std::move(text), {.batch = task.film->id}});
  }
  const std::string folder = server::FilmFolder(task.output, *task.film);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make ", folder));
  return jobs;
}

absl::StatusOr<std::vector<server::NewJob>> ImageJobs(const SubmitFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<ImageJob> images, Plan(flags));
  server::Task task{.options = flags.upscale.ToProto(), .webhook = flags.webhook};
  flags.format.ApplyTo(task.options);
  std::vector<server::NewJob> jobs;
  for (const ImageJob& image : images) {
    task.source = image.input;
    task.output = image.output;
    task.options.set_format(image.format);
    ASSIGN_OR_RETURN(std::string text, server::TaskToJson(task));
    jobs.push_back({.id = RandomUuid(), .task = std::move(text)});
  }
  return jobs;
}

absl::StatusOr<std::vector<server::NewJob>> Submit(const SubmitFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<server::NewJob> jobs,
                   flags.video ? FilmJobs(flags) : ImageJobs(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<server::JobQueue> queue,
                   flags.queue.Open(server::IfAbsent::kMake));
  RETURN_IF_ERROR(queue->Enqueue(jobs));
  return jobs;
}

int RunSubmit(const SubmitFlags& flags) {
  const absl::StatusOr<std::vector<server::NewJob>> jobs = Submit(flags);
  if (!jobs.ok()) return Fail(jobs.status());
  if (flags.json) {
    for (const server::NewJob& job : *jobs) {
      nlohmann::json object = nlohmann::json::parse(job.task);
      object["id"] = job.id;
      std::printf("%s\n", object.dump().c_str());
    }
  } else {
    std::printf(
        "%zu job%s submitted; 'upscale-worker' works on them, 'upscale jobs' tells of them\n",
        jobs->size(), jobs->size() == 1 ? "" : "s");
  }
  return kExitOk;
}

}  // namespace

void AddSubmitCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SubmitFlags>();
  CLI::App* command = app.add_subcommand("submit", kSubmitDescription);
  flags->AddTo(*command);
  command->callback([flags, &exit_code] { exit_code = RunSubmit(*flags); });
}

}  // namespace upscaled::client
