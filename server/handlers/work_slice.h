// The slice of processor time that the scheduler gives a thread at once: one that computes for long
// takes longer and fewer slices, so that threads with little to do need not wait for one slice each
// of many. Shares stay the same. Linux has it since 6.12; elsewhere nothing changes.
#pragma once

#include "absl/time/time.h"

namespace upscaled::server {

// One for a job, which one thread does from construction to destruction.
class WorkSlice {
 public:
  WorkSlice();
  ~WorkSlice();
  WorkSlice(const WorkSlice&) = delete;
  WorkSlice& operator=(const WorkSlice&) = delete;

  // The job goes on: once it has taken 20 ms of processor time its slices are long.
  void GoOn();

 private:
  const absl::Duration begin_;
  bool is_long_ = false;
};

}  // namespace upscaled::server
