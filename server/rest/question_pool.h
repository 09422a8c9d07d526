// Threads for calls without a slot.
#pragma once

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/admission/address_shares.h"
#include "server/base/payer.h"
#include "server/base/thread_pool.h"

namespace upscaled::server {

// Answers short questions, such as for a job, on a few threads of its own: a silent queue or disk
// holds up other questions, and no image. Thread safe.
class QuestionPool {
 public:
  static constexpr int kThreads = 4;
  static constexpr int kMaxQuestions = 64;  // that wait or run
  static constexpr int kMaxOfPayer = kMaxQuestions / 4;

  // RESOURCE_EXHAUSTED (kOverloaded), and `question` is dropped, when there are as many, of all or
  // of this payer, or when the machine gives no thread.
  absl::Status Run(const Payer& payer, std::function<void()> question) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Leave(const std::string& payer) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  int questions_ ABSL_GUARDED_BY(mutex_) = 0;
  AddressShares shares_ ABSL_GUARDED_BY(mutex_){kMaxOfPayer};  // by a payer's name
  ThreadPool threads_{kThreads};                               // last: its jobs use what is above
};

}  // namespace upscaled::server
