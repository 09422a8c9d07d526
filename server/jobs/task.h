// A job's texts as its submitter, its worker and its webhook read them: the task, and why it
// failed.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/film_part.h"
#include "server/jobs/job_queue.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// As JSON: an object with fields of these names, all texts except the options, which are
// UpscaleOptions in the proto3 JSON mapping, and the film, an object. Only the source is required.
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
  // The id of a job that was cancelled: the task is only to tell its webhook. "": an image is to be
  // upscaled.
  std::string cancelled_job;
  // Set: the source is a film, the output its result, both paths, and the job is one part of it.
  std::optional<FilmPart> film;
};

// Bytes that are no UTF-8 are replaced.
std::string TaskToJson(const Task& task);
// INVALID_ARGUMENT, with the field that is wrong, also for a field that is not known: it would say
// something that must not be overlooked.
absl::StatusOr<Task> ParseTask(const std::string& json);

// Cancels a job. If it has a webhook, queues the message for it as a job of its own, so that a
// worker sends it and tries again like any other. Errors as JobQueue's Cancel and Enqueue. If the
// message could not be queued, call again.
absl::Status CancelJob(JobQueue& queue, const std::string& id);

// Why a job has failed, in words that its submitter may read.
//
// `reason` and `message` are those of the server that computed. They are empty, and the message
// says so, if the job failed elsewhere: other messages name hosts and paths of the operator.
struct JobFailure {
  std::string code, reason, message;
};

// Reads JobInfo::report of a failed job, or any other text.
JobFailure ReadFailure(const std::string& report);

}  // namespace upscaled::server
