// Work that an IoThread does again and again.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "server/net/io_thread.h"

namespace upscaled::server {

// From construction to destruction, which waits for a run in progress; not on the thread itself.
class PeriodicTask {
 public:
  // `work` runs on `thread`, which must outlive this, `interval` after the run before.
  PeriodicTask(IoThread& thread, absl::Duration interval, std::function<void()> work);
  ~PeriodicTask();

 private:
  struct State;
  IoThread& thread_;
  std::unique_ptr<State> state_;
};

}  // namespace upscaled::server
