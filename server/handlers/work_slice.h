// The scheduler's slice of processor time for a thread. A thread with a long computation takes
// longer and fewer slices, so threads with little to do need not wait for one slice each of many.
// Shares stay the same. Linux has it since 6.12; elsewhere nothing changes.
#pragma once

#include "absl/time/time.h"

namespace upscaled::server {

// One for a job of one thread, from construction to destruction.
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
