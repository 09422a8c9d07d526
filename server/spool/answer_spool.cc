#include "server/spool/answer_spool.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/as_bytes.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {

bool AnswerSpool::empty() const {
  absl::MutexLock lock(&mutex_);
  return taken_ == written_ && tail_.empty();
}

absl::StatusOr<size_t> AnswerSpool::Append(std::span<const uint8_t> bytes) {
  if (budget_->options().spool_bytes == 0) return 0;
  size_t taken = 0;
  while (taken < bytes.size()) {
    bool full = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto piece = bytes.subspan(taken).first(
          std::min(bytes.size() - taken, kBodyBlockBytes - tail_.size()));
      tail_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      taken += piece.size();
      full = tail_.size() == kBodyBlockBytes;
    }
    if (!full) break;
    ASSIGN_OR_RETURN(const bool written, WriteTail());
    if (!written) break;
  }
  return taken;
}

bool AnswerSpool::AppendInMemory(std::span<const uint8_t> bytes) {
  if (budget_->options().spool_bytes == 0) return false;
  absl::MutexLock lock(&mutex_);
  if (tail_.size() + bytes.size() > kBodyBlockBytes) return false;
  tail_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return true;
}

absl::StatusOr<bool> AnswerSpool::WriteTail() {
  std::string block;
  {
    absl::MutexLock lock(&mutex_);
    if (tail_.size() < kBodyBlockBytes) return true;  // it was taken meanwhile
    writing_ = true;
    block = tail_;
  }
  const std::optional<size_t> slot = file_->TakeSlot();  // the next one: none is returned
  const absl::Status status = slot ? file_->Write(*slot, AsBytes(block)) : absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  RETURN_IF_ERROR(status);
  if (!slot.has_value()) return false;
  tail_.clear();
  ++written_;
  return true;
}

absl::StatusOr<std::string> AnswerSpool::Take() {
  size_t slot = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto still = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !writing_; };
    mutex_.Await(absl::Condition(&still));
    if (taken_ == written_) return std::exchange(tail_, {});
    slot = taken_;
  }
  std::string block(kBodyBlockBytes, '\0');
  for (size_t read = 0; read < block.size();) {
    ASSIGN_OR_RETURN(
        const size_t count,
        file_->Read(slot, read,
                    {reinterpret_cast<uint8_t*>(block.data()) + read, block.size() - read}));
    read += count;
  }
  absl::MutexLock lock(&mutex_);
  ++taken_;
  return block;
}

}  // namespace upscaled::server
