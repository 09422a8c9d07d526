#include "client/jobs/lease_keeper.h"

#include <utility>

namespace upscaled::client {

LeaseKeeper::LeaseKeeper(JobQueue& queue, const LeasedJob& job, absl::Duration term,
                         RetryClock& clock)
    : queue_(queue), job_(job), term_(term), clock_(clock), beater_([this](std::stop_token done) {
        Beat(std::move(done));
      }) {}

absl::Status LeaseKeeper::lost() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

void LeaseKeeper::Beat(std::stop_token done) {
  while (true) {
    clock_.Sleep(term_ / 3, done);
    if (done.stop_requested()) return;
    absl::Status status = queue_.Extend(job_, term_);
    if (!absl::IsAborted(status) && !absl::IsCancelled(status)) continue;
    {
      absl::MutexLock lock(&mutex_);
      lost_ = std::move(status);
    }
    lost_source_.request_stop();
    return;
  }
}

}  // namespace upscaled::client
