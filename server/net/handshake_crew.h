// Threads for TLS handshakes, about half a millisecond each: a storm of new connections neither
// waits for one thread, nor holds up the threads of established ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace upscaled::server {

// Does the newest job first: under a storm the longest waiting clients have given up, or are about
// to. Its threads are niced below the server's others, to bound the rate of handshakes while there
// is other work. Thread safe; must outlive its jobs.
class HandshakeCrew {
 public:
  explicit HandshakeCrew(int threads);
  ~HandshakeCrew();
  HandshakeCrew(const HandshakeCrew&) = delete;
  HandshakeCrew& operator=(const HandshakeCrew&) = delete;

  // The work of one connection, one step at a time. Not thread safe.
  class Job {
   public:
    explicit Job(HandshakeCrew* crew) : crew_(crew) {}
    ~Job() { Withdraw(); }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // Has `work` done on a thread of the crew; here and now without a crew.
    void Run(std::function<void()> work);
    // After it returns, the work neither runs nor will run. Not from within the work.
    void Withdraw();

   private:
    HandshakeCrew* const crew_;
    uint64_t number_ = 0;  // of the last step; 0: there was none
  };

 private:
  using Steps = std::map<uint64_t, std::function<void()>>;  // by number, the newest last

  uint64_t Add(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for a step; it is in use until Done; empty: the crew ends.
  Steps::node_type Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Done(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  Steps waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> running_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace upscaled::server
