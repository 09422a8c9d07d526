#include "server/spool/spool_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/unnamed_file.h"

namespace upscaled::server {
namespace {

off_t OffsetOf(size_t slot) { return static_cast<off_t>(slot * kBodyBlockBytes); }

}  // namespace

SpoolFile::~SpoolFile() {
  if (slots_ == 0 && !fd_.valid()) return;
  auto file = std::make_shared<UniqueFd>(std::move(fd_));  // std::function copies
  budget_->RunOnDisk([budget = budget_, payer = payer_, file, slots = slots_] {
    *file = UniqueFd();
    budget->ReturnDiskBlocks(payer, slots);
  });
}

std::optional<size_t> SpoolFile::TakeSlot() {
  if (free_.empty()) {
    if (!budget_->TakeDiskBlock(payer_)) return std::nullopt;
    return slots_++;
  }
  const size_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SpoolFile::ReturnSlot(size_t slot) {
  free_.push_back(slot);
  if (free_.size() < slots_) return;
  free_.clear();
  // Before all later writes, as the budget's work runs one after the other.
  budget_->RunOnDisk([self = shared_from_this(), slots = std::exchange(slots_, 0)] {
    // A file that refuses to be cut keeps its blocks until it is closed.
    [[maybe_unused]] const int cut = self->fd_.valid() ? ftruncate(self->fd_.get(), 0) : 0;
    self->budget_->ReturnDiskBlocks(self->payer_, slots);
  });
}

absl::Status SpoolFile::Write(size_t slot, std::span<const uint8_t> bytes) {
  if (!fd_.valid()) {
    absl::StatusOr<UniqueFd> file = OpenUnnamedFile(budget_->options().spool_dir);
    if (!file.ok()) return SpoolError(file.status().message());
    fd_ = *std::move(file);
  }
  off_t offset = OffsetOf(slot);
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SpoolError(strerror(n < 0 ? errno : ENOSPC));
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> SpoolFile::Read(size_t slot, size_t offset, std::span<uint8_t> dst) const {
  while (true) {
    const ssize_t n =
        pread(fd_.get(), dst.data(), dst.size(), OffsetOf(slot) + static_cast<off_t>(offset));
    if (n > 0) return static_cast<size_t>(n);
    if (n < 0 && errno == EINTR) continue;
    return absl::InternalError(
        absl::StrCat("this server cannot read a body back from disk (spool-dir): ",
                     n < 0 ? strerror(errno) : "it is cut short"));
  }
}

}  // namespace upscaled::server
