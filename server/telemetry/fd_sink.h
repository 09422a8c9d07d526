// Writes log lines to a descriptor. A slow reader delays it only for a limited time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/steady_wait.h"
#include "spdlog/sinks/base_sink.h"

namespace upscaled::server {

// Writes to a pipe, socket, terminal or file as long as it takes bytes; false if `timeout` passes
// first or it accepts no more bytes. Does not change the descriptor's flags, since other processes
// share them.
bool WriteWithin(int fd, std::string_view text, absl::Duration timeout);

// Waits for a reader that does not read, until it is told to give up. Thread safe.
class FdSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // `fd` is borrowed and must outlive it.
  explicit FdSink(int fd) : fd_(fd) {}

  // From now on lines are thrown away, the present one, too.
  void Abandon() { abandoned_ = true; }
  // Lines not written or thrown away.
  int64_t lost() const { return lost_; }
  // Waits until `enough(lines)` for the count of written or lost lines.
  bool AwaitHandled(const std::function<bool(int64_t)>& enough, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(handled_mutex_);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  const int fd_;
  std::atomic<bool> abandoned_ = false;
  std::atomic<int64_t> lost_ = 0;
  absl::Mutex handled_mutex_;
  SteadyCondition handled_changed_;
  int64_t handled_ ABSL_GUARDED_BY(handled_mutex_) = 0;
};

}  // namespace upscaled::server
