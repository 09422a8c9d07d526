// The text of a job, as its submitter writes it and its worker reads it.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/jobs/film_part.h"
#include "server/jobs/job_queue.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// A job that has ended, for a task that only tells its webhook.
struct EndedJob {
  std::string id;
  JobState state = JobState::kDone;
  std::string report;  // as JobInfo's

  bool operator==(const EndedJob&) const = default;
};

// As JSON: an object with fields of these names, all texts except the options, which are
// UpscaleOptions in the proto3 JSON mapping, and the film and the ended job, which are objects.
// Only the source is required.
struct Task {
  std::string source;  // an absolute path, or a URL that begins with http://, https:// or s3://
  upscale::v1::UpscaleOptions options;
  // The place of the result, in addition to the folder of results: an absolute path, or a URL to
  // PUT it to; "": nowhere.
  std::string output;
  std::string webhook;    // a URL that is told of the end (webhook.h); "": none
  std::string reference;  // the submitter's own name for the job; its webhook repeats it
  // Told to the webhook instead of the source and the output, if these are the operator's paths.
  // With an output to show, failures are told as JobFailure. "": source and output are told.
  std::string shown_source, shown_output;
  // Set: the task only tells the webhook that this job has ended. Earlier releases wrote the id of
  // a cancelled job as "cancelled_job", which is read too.
  std::optional<EndedJob> ended_job;
  // Set: the source is a film, the output its result, both paths, and the job is one part of it.
  std::optional<FilmPart> film;
};

// INVALID_ARGUMENT for a place or an option that is not UTF-8, since a worker could not find it. In
// the reference and the shown names such bytes are replaced.
absl::StatusOr<std::string> TaskToJson(const Task& task);
// INVALID_ARGUMENT, with the wrong field, also for an unknown field: it would say something not to
// be overlooked.
absl::StatusOr<Task> ParseTask(const std::string& json);

}  // namespace upscaled::server
