// The task of a job, in the job's own words.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::client {

// As JSON: {"source": ..., "options": ..., "output": ..., "webhook": ...}, of which the options are
// UpscaleOptions in its proto3 JSON mapping, and everything but the source may be left out.
struct Task {
  std::string source;  // an absolute path, or a URL that begins with http://, https:// or s3://
  upscale::v1::UpscaleOptions options;
  // Where the result is to be, beside the folder of results: an absolute path, or a URL to PUT it
  // to; "": nowhere.
  std::string output;
  std::string webhook;  // a URL that hears of the end (webhook.h); "": none
};

// Bytes that are no UTF-8 are replaced.
std::string TaskToJson(const Task& task);
// INVALID_ARGUMENT, with the field that is wrong, also for a field that is not known: it would say
// something that must not be overlooked.
absl::StatusOr<Task> ParseTask(const std::string& json);

}  // namespace upscaled::client
