#include "server/rpc/message_spool.h"

#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "engine/base/as_bytes.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// Before each message.
using Length = uint32_t;

std::string LengthOf(std::string_view message) {
  const auto length = static_cast<Length>(message.size());
  return {reinterpret_cast<const char*>(&length), sizeof length};
}

}  // namespace

bool MessageSpool::empty() const {
  absl::MutexLock lock(&mutex_);
  return messages_ == 0;
}

bool MessageSpool::full() const {
  absl::MutexLock lock(&mutex_);
  return !rest_.empty();
}

absl::Status MessageSpool::Add(std::string_view message) {
  const std::string length = LengthOf(message);
  ASSIGN_OR_RETURN(const size_t prefixed, spool_.Append(AsBytes(length)));
  size_t spooled = 0;
  if (prefixed == length.size()) {
    ASSIGN_OR_RETURN(spooled, spool_.Append(AsBytes(message)));
  }
  absl::MutexLock lock(&mutex_);
  rest_ = length.substr(prefixed);
  rest_ += message.substr(spooled);
  ++messages_;
  return absl::OkStatus();
}

bool MessageSpool::AddInMemory(std::string_view message) {
  std::string bytes = LengthOf(message);
  bytes += message;
  if (!spool_.AppendInMemory(AsBytes(bytes))) return false;
  absl::MutexLock lock(&mutex_);
  ++messages_;
  return true;
}

absl::StatusOr<std::string> MessageSpool::Take() {
  Length length = 0;
  const auto whole = [&] {
    const size_t left = taken_.size() - begin_;
    if (left < sizeof length) return false;
    std::memcpy(&length, taken_.data() + begin_, sizeof length);
    return left - sizeof length >= length;
  };
  while (!whole()) {
    ASSIGN_OR_RETURN(std::string block, spool_.Take());
    if (block.empty()) {
      absl::MutexLock lock(&mutex_);
      block = std::exchange(rest_, {});
    }
    if (block.empty()) return absl::InternalError("a message on the disk is cut short");
    // Once a block: many messages may lie in one.
    taken_.erase(0, std::exchange(begin_, 0));
    taken_ += block;
  }
  std::string message = taken_.substr(begin_ + sizeof length, length);
  begin_ += sizeof length + length;
  absl::MutexLock lock(&mutex_);
  --messages_;
  return message;
}

}  // namespace upscaled::server
