// The part of an answer on the disk for a slow client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/spool/body_budget.h"
#include "server/spool/spool_file.h"

namespace upscaled::server {

// First in, first out, in blocks of a file. Behind them the last bytes wait in memory. The file
// keeps its size until the answer's end. Thread safe: one thread appends, one takes, and both meet
// the disk.
class AnswerSpool {
 public:
  // Its disk is at the expense of `payer` (see BodyBudget).
  explicit AnswerSpool(std::shared_ptr<BodyBudget> budget, std::string payer = "")
      : budget_(std::move(budget)), file_(std::make_shared<SpoolFile>(budget_, std::move(payer))) {}

  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns how many of `bytes`, the first ones, it has taken: fewer than all if the disk is full
  // for the payer. RESOURCE_EXHAUSTED (kOverloaded) if the disk does not take them.
  absl::StatusOr<size_t> Append(std::span<const uint8_t> bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes all of `bytes` if they have room in memory behind the file's, without a look at the disk.
  // Returns whether it has.
  bool AppendInMemory(std::span<const uint8_t> bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the next bytes, at most a block (kBodyBlockBytes); "" if it is empty. INTERNAL if the
  // disk does not give them back.
  absl::StatusOr<std::string> Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Moves the whole block in `tail_` to the file. false: there is no room.
  absl::StatusOr<bool> WriteTail() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<BodyBudget> budget_;
  const std::shared_ptr<SpoolFile> file_;
  mutable absl::Mutex mutex_;
  size_t written_ ABSL_GUARDED_BY(mutex_) = 0;  // blocks in the file, in order
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;    // of those
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string tail_ ABSL_GUARDED_BY(mutex_);  // at most a block, behind the file's
};

}  // namespace upscaled::server
