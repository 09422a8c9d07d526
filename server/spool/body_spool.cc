#include "server/spool/body_spool.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

absl::Status NoDisk() {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kLimitExceeded,
                   "this server keeps 0 bytes of bodies on its disk (spool-bytes)",
                   {{"limit", "spool-bytes"}, {"maximum", "0"}});
}

absl::Status DiskFull(size_t bytes) {
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kOverloaded,
                   absl::StrCat("requests fill the ", bytes,
                                " bytes of disk that are for bodies (spool-bytes), or those of "
                                "this caller fill three quarters of them"),
                   {{"limit", "spool-bytes"}, {"maximum", absl::StrCat(bytes)}});
}

}  // namespace

BodySpool::BodySpool(std::shared_ptr<BodyBudget> budget, std::string payer)
    : budget_(std::move(budget)), file_(std::make_shared<SpoolFile>(budget_, std::move(payer))) {}

absl::Status BodySpool::Append(std::span<const uint8_t> bytes) {
  last_.reserve(kBodyBlockBytes);
  while (!bytes.empty()) {
    if (last_.size() == kBodyBlockBytes) RETURN_IF_ERROR(WriteBlock());
    const auto piece = bytes.first(std::min(bytes.size(), kBodyBlockBytes - last_.size()));
    last_.insert(last_.end(), piece.begin(), piece.end());
    bytes = bytes.subspan(piece.size());
  }
  return absl::OkStatus();
}

absl::Status BodySpool::WriteBlock() {
  const size_t disk_bytes = budget_->options().spool_bytes;
  if (disk_bytes == 0) return NoDisk();
  const std::optional<size_t> slot = file_->TakeSlot();
  if (!slot.has_value()) return DiskFull(disk_bytes);
  RETURN_IF_ERROR(file_->Write(*slot, last_));
  slots_.push_back(*slot);
  last_.clear();
  return absl::OkStatus();
}

absl::StatusOr<size_t> BodySpool::Read(std::span<uint8_t> dst) {
  const size_t file_bytes = slots_.size() * kBodyBlockBytes;
  size_t count = 0;
  if (read_ < file_bytes) {
    const size_t offset = read_ % kBodyBlockBytes;
    const size_t wanted = std::min(dst.size(), kBodyBlockBytes - offset);
    ASSIGN_OR_RETURN(count,
                     file_->Read(slots_[read_ / kBodyBlockBytes], offset, dst.first(wanted)));
  } else {
    const auto left = std::span<const uint8_t>(last_).subspan(read_ - file_bytes);
    count = std::min(dst.size(), left.size());
    std::copy_n(left.begin(), count, dst.begin());
  }
  read_ += count;
  return count;
}

}  // namespace upscaled::server
