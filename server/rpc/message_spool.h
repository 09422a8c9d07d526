// Messages of one call on the disk: an answer's for a slow client, or a request's for their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/spool/answer_spool.h"
#include "server/spool/body_budget.h"

namespace upscaled::server {

// First in, first out. Thread safe: one thread adds, one takes, and both meet the disk.
class MessageSpool {
 public:
  // Its disk is at the expense of `payer` (see BodyBudget).
  MessageSpool(std::shared_ptr<BodyBudget> budget, std::string payer)
      : spool_(std::move(budget), std::move(payer)) {}

  // Whether all messages have been taken.
  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the disk has no room: add no message until it is empty.
  bool full() const ABSL_LOCKS_EXCLUDED(mutex_);

  // If it is not full. UNAVAILABLE if the disk does not take the message.
  absl::Status Add(std::string_view message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds a message with room in memory, on any thread: it does not meet the disk. Returns whether
  // it has.
  bool AddInMemory(std::string_view message) ABSL_LOCKS_EXCLUDED(mutex_);
  // If it is not empty. INTERNAL if the disk does not give the message back.
  absl::StatusOr<std::string> Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  AnswerSpool spool_;
  std::string taken_;  // bytes that Take has got beyond its message
  size_t begin_ = 0;   // of the next message in it
  mutable absl::Mutex mutex_;
  size_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string rest_ ABSL_GUARDED_BY(mutex_);  // of the last message, that the disk has no room for
};

}  // namespace upscaled::server
