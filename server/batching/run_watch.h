// Finds the runs of streams without an end.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/devices/device.h"

namespace upscaled::server {

// Counts the reported time, not a clock's: a process stopped or starved for minutes finds no run
// overdue. Thread safe.
class RunWatch {
  struct Entry {
    std::shared_ptr<Device> device;
    absl::Duration limit;  // of `taken`, until the next report
    absl::Duration taken;
    bool overdue = false;
  };
  using Entries = std::list<Entry>;

 public:
  struct Overdue {
    std::shared_ptr<Device> device;
    absl::Duration taken;
    bool stuck = false;  // it has been overdue for kSlack already
  };
  // A run, until this is destroyed, before the watch is.
  class Run {
   public:
    Run(RunWatch& watch, Entries::iterator entry) : watch_(watch), entry_(entry) {}
    ~Run() { watch_.End(entry_); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    RunWatch& watch_;
    const Entries::iterator entry_;
  };

  // The time for a run: kSlack, and kFactor times its forecast, of kLongest at most.
  static constexpr absl::Duration kSlack = absl::Minutes(2);
  static constexpr int kFactor = 20;
  static constexpr absl::Duration kLongest = absl::Hours(1);
  // Multiply-adds per second of a run on a device new to this network: less than any device has.
  static constexpr double kUnknownSpeed = 1e8;

  // A run of `cost` multiply-adds begins on `device`, at a speed of `speed` multiply-adds per
  // second; 0: unknown.
  [[nodiscard]] Run Begin(std::shared_ptr<Device> device, int64_t cost, double speed)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets time pass; returns the newly overdue runs, and those newly stuck.
  std::vector<Overdue> Advance(absl::Duration passed) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void End(Entries::iterator entry) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
