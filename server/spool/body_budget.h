// Memory and disk for bodies of requests and answers with clients slower or faster than the server:
// for all bodies of one server.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/byte_budget.h"
#include "server/admission/address_shares.h"
#include "server/spool/disk_queue.h"

namespace upscaled::server {

struct BodyBudgetOptions {
  size_t memory_bytes_per_body = size_t{1} << 20;
  // In all; each body has one block (kBodyBlockBytes) of its own in addition, to go on.
  size_t memory_bytes = size_t{64} << 20;
  std::string spool_dir;   // where files without names are made
  size_t spool_bytes = 0;  // of disk in all; 0: bodies wait when their memory is full
};

// Bodies are kept in blocks of this size.
inline constexpr size_t kBodyBlockBytes = size_t{64} << 10;

// UNAVAILABLE, to try again later. Names no folder: clients learn nothing of this machine.
absl::Status SpoolError(absl::string_view why);

// Thread safe. `disk` writes and removes the spool files. The page cache absorbs most writes, but
// once it is full a slow disk blocks the writer. It must never be the connection thread. One thread
// suffices for one disk. Bodies within memory are not affected.
//
// A payer, named as Payer::name(), may have three quarters of the disk: its slow clients leave room
// for others'. The empty one is the server's own, without a share.
class BodyBudget {
 public:
  // `disk` may be null if `spool_bytes` is 0.
  explicit BodyBudget(const BodyBudgetOptions& options, std::shared_ptr<DiskQueue> disk = nullptr)
      : options_(options),
        disk_(std::move(disk)),
        memory_(options.memory_bytes),
        disk_shares_(std::max<int64_t>(
            static_cast<int64_t>(options.spool_bytes / kBodyBlockBytes * 3 / 4), 1)) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  const BodyBudgetOptions& options() const { return options_; }
  bool TakeMemoryBlock() { return memory_.Take(kBodyBlockBytes); }
  void ReturnMemoryBlock() { memory_.Return(kBodyBlockBytes); }
  // False: the disk or the payer's share of it is full.
  bool TakeDiskBlock(const std::string& payer) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReturnDiskBlocks(const std::string& payer, size_t blocks) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t spool_bytes_in_use() const { return disk_in_use_; }

  // Runs `work` off the caller's thread, one after the other; drops it at the server's end.
  void RunOnDisk(std::function<void()> work) { disk_->Post(std::move(work)); }

 private:
  const BodyBudgetOptions options_;
  const std::shared_ptr<DiskQueue> disk_;
  ByteBudget memory_;
  absl::Mutex mutex_;
  std::atomic<int64_t> disk_in_use_ = 0;               // changed under mutex_
  AddressShares disk_shares_ ABSL_GUARDED_BY(mutex_);  // in blocks, of payers
};

}  // namespace upscaled::server
