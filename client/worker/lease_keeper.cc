#include "client/worker/lease_keeper.h"

#include <algorithm>
#include <utility>

namespace upscaled::client {

LeaseKeeper::LeaseKeeper(server::JobQueue& queue, const server::LeasedJob& job, absl::Duration term,
                         RetryClock& clock)
    : queue_(queue), job_(job), term_(term), clock_(clock), beater_([this](std::stop_token done) {
        Run(std::move(done));
      }) {}

void LeaseKeeper::Tell(const server::JobProgress& progress) {
  absl::MutexLock lock(&mutex_);
  progress_ = progress;
}

absl::Status LeaseKeeper::lost() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

server::JobProgress LeaseKeeper::progress() const {
  absl::MutexLock lock(&mutex_);
  return progress_;
}

void LeaseKeeper::Run(std::stop_token done) {
  server::JobProgress told;
  // Counted in sleep, so setting the system's clock does not change it.
  absl::Duration left = term_ / 3;
  while (true) {
    const absl::Duration sleep = std::min(kProgressInterval, left);
    clock_.Sleep(sleep, done);
    if (done.stop_requested()) return;
    left -= sleep;
    const server::JobProgress now = progress();
    if (now == told && left > absl::ZeroDuration()) continue;
    if (!Beat(now)) return;
    told = now;
    left = term_ / 3;
  }
}

bool LeaseKeeper::Beat(const server::JobProgress& progress) {
  absl::Status status = queue_.Extend(job_, term_, progress);
  if (!absl::IsAborted(status) && !absl::IsCancelled(status)) return true;
  {
    absl::MutexLock lock(&mutex_);
    lost_ = std::move(status);
  }
  lost_source_.request_stop();
  return false;
}

}  // namespace upscaled::client
