// The body of a request between its connection and the handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/spool/body_budget.h"
#include "server/spool/spool_file.h"

namespace upscaled::server {

// A body this fast, on the average of its first kStreamBytes, is read while it comes. A slower one
// is received whole first: no handler waits for a slow client.
inline constexpr int64_t kStreamBytes = int64_t{1} << 20;
inline constexpr int64_t kStreamBytesPerSecond = int64_t{1} << 20;

// First in, first out, in blocks. Bodies without room in memory wait in a file, the newest first,
// to be read last: a body read in time never meets the disk. Thread safe; one thread appends, one
// reads.
class BodyQueue : public std::enable_shared_from_this<BodyQueue> {
 public:
  // `on_room` is called, from any thread, when Append, refused before, may take more. The body's
  // disk is at the expense of `payer` (see BodyBudget).
  BodyQueue(std::shared_ptr<BodyBudget> budget, std::function<void()> on_room,
            std::string payer = "");
  ~BodyQueue();

  // Returns how many of `bytes`, the first ones, it has taken; does not wait. Takes all if no
  // reader is left: after Fail and Discard.
  size_t Append(std::span<const uint8_t> bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the last Append was refused because of other bodies. `on_room` tells nothing of them.
  bool waits_for_others() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `ready` once, on any thread and perhaps at once, when a handler has work: the body is
  // whole or has failed, no more of it can be kept, or it comes at kStreamBytesPerSecond.
  void OnReady(std::function<void()> ready) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether it is still to be called.
  bool awaited() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether its first byte, or its end, has come.
  bool begun() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Nothing more comes.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);
  // Reading ends at once with `status`, unless it has failed before.
  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // No reader is left.
  void Discard() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for some bytes; 0: the end. `dst` is not empty.
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Place : uint8_t { kMemory, kOnItsWay, kFile };
  struct Block {
    std::vector<uint8_t> bytes;  // empty in the file
    Place place = Place::kMemory;
    size_t slot = 0;       // unless in memory
    size_t size = 0;       // bytes that it holds
    bool spare = false;    // beside the budget
    bool dropped = false;  // on its way to the file, and not needed any more
  };

  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellIfReady() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t Take(std::span<const uint8_t> bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the last block has space.
  bool MakeSpace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AddBlock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins to write the newest blocks to the file.
  void Spill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first block has been read this much further. Returns whether there is room now.
  bool Advance(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseMemory(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Among the budget's work for the disk.
  void WriteBlock(Block& block) ABSL_LOCKS_EXCLUDED(mutex_);
  void TellOfRoom() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<BodyBudget> budget_;
  const std::function<void()> on_room_;
  const std::shared_ptr<SpoolFile> file_;

  mutable absl::Mutex mutex_;
  std::deque<std::shared_ptr<Block>> blocks_ ABSL_GUARDED_BY(mutex_);
  size_t read_ ABSL_GUARDED_BY(mutex_) = 0;           // bytes of the first block
  size_t memory_blocks_ ABSL_GUARDED_BY(mutex_) = 0;  // with those on their way
  size_t on_their_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_spare_ ABSL_GUARDED_BY(mutex_) = false;
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
  bool waits_for_others_ ABSL_GUARDED_BY(mutex_) = false;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;  // the last Append found neither memory nor disk
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes, by Append
  absl::Time begun_ ABSL_GUARDED_BY(mutex_);   // when the first of them came
  std::function<void()> ready_ ABSL_GUARDED_BY(mutex_);
  bool discards_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
