// Byte streams over memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/as_bytes.h"
#include "engine/image/byte_stream.h"

namespace upscaled {

inline bool BeginsWith(std::span<const uint8_t> bytes, std::string_view begin) {
  return bytes.size() >= begin.size() && std::memcmp(bytes.data(), begin.data(), begin.size()) == 0;
}

// Reads borrowed memory. The memory must outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const uint8_t> bytes) : rest_(bytes) {}
  explicit MemorySource(std::string_view bytes) : rest_(AsBytes(bytes)) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    const size_t count = std::min(dst.size(), rest_.size());
    if (count > 0) std::memcpy(dst.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }

 private:
  std::span<const uint8_t> rest_;
};

// Appends to a string of its own.
class StringSink final : public ByteSink {
 public:
  absl::Status Write(std::span<const uint8_t> bytes) override {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }

  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Writes `bytes` in pieces for a slow sink.
inline absl::Status WriteInPieces(std::span<const uint8_t> bytes, ByteSink& sink) {
  constexpr size_t kPieceBytes = size_t{64} << 10;
  absl::Status status;
  for (; status.ok() && !bytes.empty(); bytes = bytes.subspan(std::min(kPieceBytes, bytes.size())))
    status = sink.Write(bytes.first(std::min(kPieceBytes, bytes.size())));
  return status;
}

}  // namespace upscaled
