// Threads that compute one tile together, where other streams of the backend have none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

// Computes part number `part` of so many, with scratch memory that nobody else uses meanwhile. Does
// not throw.
using PartWork = absl::FunctionRef<void(int part, int parts, float* scratch)>;

// A number that one thread sets and another waits for. std::atomic counts the waiters of all
// atomics that lie at the same place of their cache lines together, so that one thread asleep makes
// every notification a system call; this one makes it only while its own waiter sleeps.
class Signal {
 public:
  uint32_t value() const { return value_; }
  void Set(uint32_t value);
  // Looks for a while, then sleeps. By one thread.
  void AwaitChange(uint32_t from) const;

 private:
  std::atomic<uint32_t> value_ = 0;
  mutable std::atomic<bool> sleeps_ = false;
};

// A thread that does what a team tells it to. Used by one team at a time.
class Helper {
 public:
  // `cpu`: that it is bound to; -1: none.
  explicit Helper(int cpu);
  ~Helper();

  int cpu() const { return cpu_; }
  // Has it wake up, with room for its scratch: it is ready in a while. Throws std::bad_alloc.
  void Wake(size_t scratch_floats);
  // Whether it has done all that it was told.
  bool IsReady() const { return done_.value() == told_; }
  // To be called when it is ready; `work` must stay until it is again.
  void Start(const PartWork& work, int part, int parts);
  void AwaitReady() const;

 private:
  void RunThread();
  void Tell();

  static constexpr size_t kCacheLine = 64;

  const int cpu_;
  uint32_t told_ = 0;  // the team's
  // Both sides look at these, which lie apart. The turn, and what it is about:
  alignas(kCacheLine) Signal turn_;
  const PartWork* work_ = nullptr;  // null: nothing but to be awake
  int part_ = 0;
  int parts_ = 0;
  bool ends_ = false;
  HugeBuffer scratch_;
  alignas(kCacheLine) Signal done_;
  std::thread thread_;
};

// The helpers of a backend: as many threads compute as it has streams, whether each has a tile of
// its own or some help with another's. Thread safe.
class HelperPool {
 public:
  // For threads that BindPoolThread binds to the CPUs of the calling one, or not. A helper is bound
  // as they are, and helps from where no stream has a tile.
  explicit HelperPool(int streams);
  // A helper for each stream, on these CPUs (-1: any).
  explicit HelperPool(std::span<const int> cpus);

 private:
  friend class Team;

  // The threads that a team may have, itself included: an even share.
  int Share() const {
    const int teams = teams_;
    return (streams_ + teams - 1) / teams;
  }
  int Working() const { return teams_ + helping_; }
  // Counts those that have come.
  uint32_t entered() const { return entered_; }
  // Teams of the threads that run on this CPU.
  void Enter(int cpu) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(int cpu) ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasTeamOn(int cpu) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Null where all are in use, as many threads compute as may, or memory is out.
  Helper* Take(size_t scratch_floats) ABSL_LOCKS_EXCLUDED(mutex_);
  Helper* TakeIdle() ABSL_LOCKS_EXCLUDED(mutex_);
  void Return(Helper& helper) ABSL_LOCKS_EXCLUDED(mutex_);

  const int streams_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::atomic<int> teams_ = 0;
  std::atomic<int> helping_ = 0;
  std::atomic<uint32_t> entered_ = 0;
  mutable absl::Mutex mutex_;
  std::vector<Helper*> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> team_cpus_ ABSL_GUARDED_BY(mutex_);
};

// A stream's thread while it computes a tile, and its helpers, which come and go between two pieces
// of work.
class Team {
 public:
  Team() = default;  // outside of all pools: nobody is to help
  // `cpu`: the calling thread's. `scratch_floats`: of the memory that a part of any work needs.
  // `most_threads`: with more it is not worth waking one.
  Team(HelperPool& pool, int cpu, size_t scratch_floats, int most_threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Does all parts of the work, one each, of `most_parts` or as many as there are threads, and
  // returns when all are done. `scratch`: for the calling thread's. Throws std::bad_alloc.
  void Run(int most_parts, float* scratch, PartWork work);

  // Lets all helpers go, which come no more; what they have spent.
  absl::Duration Dissolve();

 private:
  struct Member {
    Helper* helper;
    absl::Time since;
  };
  // Returns helpers where others need their CPUs, or takes one more.
  void Adjust(int most_parts);
  void Return(size_t member);

  HelperPool* pool_ = nullptr;  // null: alone
  int cpu_ = -1;
  size_t scratch_floats_ = 0;
  int most_threads_ = 1;
  uint32_t entered_ = 0;  // of the pool, when it looked last
  std::vector<Member> members_;
  absl::Duration helped_;
};

}  // namespace upscaled::cpu
