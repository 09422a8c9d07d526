#include "server/spool/body_budget.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace upscaled::server {

bool BodyBudget::TakeDiskBlock(const std::string& payer) {
  absl::MutexLock lock(&mutex_);
  const int64_t bytes = disk_in_use_ + static_cast<int64_t>(kBodyBlockBytes);
  if (bytes > static_cast<int64_t>(options_.spool_bytes) || !disk_shares_.Fits(payer, 1)) {
    return false;
  }
  disk_shares_.Take(payer, 1);
  disk_in_use_ = bytes;
  return true;
}

void BodyBudget::ReturnDiskBlocks(const std::string& payer, size_t blocks) {
  absl::MutexLock lock(&mutex_);
  disk_shares_.Give(payer, static_cast<int64_t>(blocks));
  disk_in_use_ -= static_cast<int64_t>(blocks * kBodyBlockBytes);
}

absl::Status SpoolError(absl::string_view why) {
  return MakeError(
      absl::StatusCode::kUnavailable, ErrorReason::kOverloaded,
      absl::StrCat("this server cannot keep bodies of requests on disk (spool-dir): ", why),
      {{"limit", "spool-dir"}});
}

}  // namespace upscaled::server
