// One task from its source to its result.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/image_io.h"
#include "client/service.h"
#include "client/worker/allowed_places.h"
#include "client/worker/result_store.h"
#include "client/worker/s3.h"
#include "engine/base/unique_fd.h"
#include "server/jobs/task.h"

namespace upscaled::client {

// The cause of a missing result.
enum class Blame {
  kNobody,   // it has
  kTask,     // its own: no other try will do better
  kPassing,  // something that may be over at the next try
  kLimit,    // a limit that the server named, and when to come back: load, or the key's quota
  kWorker,   // this worker's: no task fares better with it, but all may with another one
};

struct TaskOutcome {
  absl::Status status;
  Blame blame = Blame::kNobody;
  std::string result;               // its name in the store of results
  bool computed = false;            // or it was there before
  int width_px = 0, height_px = 0;  // of the result
  int64_t result_bytes = 0;         // 0: not known, because the result was there before
  // The server's sentences about all that the result has dropped or changed.
  std::vector<std::string> warnings;
};

// Does the same when it does it twice. A film's part is a file next to the film's output. An
// image's result gets the server's name for it, made of the source's bytes, the options in
// canonical form, the weights and the arithmetic. A result of this name is not computed again.
// Thread safe.
class TaskRunner {
 public:
  static constexpr int64_t kMaxSourceBytes = int64_t{4} << 30;  // of what a URL gives

  // The service and the results are borrowed. The service names results: gRPC's does. `allowed`
  // bounds the places of a task.
  TaskRunner(Service& service, const ResultStore& results, S3Access access, AllowedPlaces allowed)
      : service_(service),
        results_(results),
        access_(std::move(access)),
        allowed_(std::move(allowed)) {}

  // A `job` without a name for its result from the server gives it its own name. `observer` hears
  // how its computation gets on. CANCELLED, at kPassing, when `stop` was requested.
  TaskOutcome Run(const std::string& job, const server::Task& task, ImageObserver& observer,
                  std::stop_token stop) const;

 private:
  // Before anything is computed for them.
  absl::Status CheckPlaces(const server::Task& task) const;
  absl::Status CheckPlace(const std::string& place) const;
  // The image at a path or URL.
  absl::StatusOr<std::unique_ptr<ImageSource>> Open(const std::string& place,
                                                    std::stop_token stop) const;
  absl::StatusOr<UniqueFd> OpenFile(const std::string& path) const;
  TaskOutcome RunFilm(const server::Task& task, ImageObserver& observer,
                      std::stop_token stop) const;
  TaskOutcome RunOn(ImageSource& source, const std::string& job, const server::Task& task,
                    ImageObserver& observer, std::stop_token stop) const;
  // And has `result` be the file.
  TaskOutcome Compute(ImageSource& source, const ImageRequest& request, const std::string& job,
                      ImageObserver& observer, UniqueFd& result, std::stop_token stop) const;
  // To the task's output, from a file at its first byte.
  absl::Status Deliver(const std::string& output, const std::string& name, UniqueFd result,
                       std::stop_token stop) const;

  Service& service_;
  const ResultStore& results_;
  const S3Access access_;
  const AllowedPlaces allowed_;
};

}  // namespace upscaled::client
