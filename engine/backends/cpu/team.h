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

// Computes the units [begin, end) of a piece of work, with scratch memory that no other thread uses
// meanwhile. Does not throw.
using UnitWork = absl::FunctionRef<void(int begin, int end, float* scratch)>;

// The units of a piece of work, shared by threads that take them. Each thread has a range of its
// own, about the same in every piece, so it finds most of its input in its core's cache. It takes
// two thirds of the units left there, then half of those left where most are (guided
// self-scheduling, Polychronopoulos and Kuck 1987). So a slow CPU computes less, and does not keep
// all waiting: a CPU of half the speed computes two thirds of its range while another does its own.
class SharedUnits {
 public:
  struct Units {
    int begin = 0;
    int end = 0;

    bool empty() const { return begin == end; }
    int count() const { return end - begin; }
  };

  // Deals out `units`, at least one per thread. No thread takes any meanwhile.
  void Deal(int units, int threads);
  // Returns units for this thread to compute; none when there are none left to take.
  Units Take(int thread);

 private:
  // Units that a thread has not begun, apart from the others' in memory.
  struct alignas(64) Range {
    std::atomic<Units> left;
    static_assert(std::atomic<Units>::is_always_lock_free);
  };
  // Takes units from the front of the caller's own range, from the back of another's.
  static Units TakeFrom(Range& range, bool own);
  // The range with most units left, null if all are empty.
  Range* Fullest();

  std::vector<std::unique_ptr<Range>> ranges_;
  int threads_ = 0;
};

// A number that one thread sets and another waits for. std::atomic counts the waiters of all
// atomics that lie at the same place of their cache lines together, so that one thread asleep makes
// every notification a system call; this one makes it only while its own waiter sleeps.
class Signal {
 public:
  uint32_t value() const { return value_; }
  void Set(uint32_t value);
  // Looks this often; whether the number has changed.
  bool ChangesSoon(uint32_t from, int looks) const;
  // Sleeps until it has. By one thread, as the next.
  void SleepUntilChange(uint32_t from) const;
  // Looks for a while, then sleeps.
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
  // To be called when it is ready: has it take units as this thread. Both must stay until End.
  void Start(const UnitWork& work, SharedUnits& units, int thread);
  // Returns when it touches neither any more: at once if it has not begun, and so never will. A
  // helper whose CPU runs something else finishes on the caller's, which sleeps meanwhile.
  void End();

 private:
  void RunThread();
  void Tell();
  void AwaitDone() const;
  // Claims the turn, the helper to do it or the team to take it back: true for the first.
  bool Claim(uint32_t turn);
  // The processor time that the thread has had, in nanoseconds.
  int64_t CpuTimeNs();

  static constexpr size_t kCacheLine = 64;

  const int cpu_;
  uint32_t told_ = 0;  // the team's
  // Both sides look at these, which lie apart. The turn, and what it is about:
  alignas(kCacheLine) Signal turn_;
  std::atomic<uint32_t> claimed_ = 0;
  const UnitWork* work_ = nullptr;  // null: nothing but to be awake
  SharedUnits* units_ = nullptr;
  int thread_number_ = 0;
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

  // Does all units of the work, at least one, on as many threads as there are and `most_threads`,
  // and returns their number when all are done. `scratch`: the calling thread's. Throws
  // std::bad_alloc.
  int Run(int units, int most_threads, float* scratch, UnitWork work);

  // Lets all helpers go, and no more come; their spent time.
  absl::Duration Dissolve();

 private:
  struct Member {
    Helper* helper;
    absl::Time since;
  };
  // Returns helpers where others need their CPUs, or takes one more.
  void Adjust(int most_threads);
  void Return(size_t member);

  HelperPool* pool_ = nullptr;  // null: alone
  int cpu_ = -1;
  size_t scratch_floats_ = 0;
  int most_threads_ = 1;
  uint32_t entered_ = 0;  // of the pool, when it looked last
  std::vector<Member> members_;
  std::vector<Helper*> started_;  // by the piece of work at hand
  SharedUnits units_;
  absl::Duration helped_;
};

}  // namespace upscaled::cpu
