// GET /v1/jobs/{id}/events: a job as it changes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "server/jobs/async_jobs.h"
#include "server/rest/event_streams.h"

namespace upscaled::server {

// "state" (data: the job) at first and with each new state, and "tiles" at each per cent. Ends
// after a final state, or after "failed" (data: a problem) if there is no such job. Asks the queue
// in each call, and waits if the queue does not answer. Sends a comment when nothing else was sent
// for 10 s.
class JobFeed final : public EventFeed {
 public:
  // Between two calls of Next.
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  // `jobs` must outlive it.
  JobFeed(AsyncJobs& jobs, std::string tenant, std::string id, absl::Time now)
      : jobs_(jobs), tenant_(std::move(tenant)), id_(std::move(id)), last_sent_(now) {}

  std::string Next(absl::Time now) override;
  bool ended() const override { return ended_; }

 private:
  std::string News();

  AsyncJobs& jobs_;
  const std::string tenant_, id_;
  absl::Time last_sent_;
  std::string state_;
  int64_t tiles_step_ = 0;
  bool ended_ = false;
};

}  // namespace upscaled::server
