// The boxes of ISO/IEC 14496-12 in HEIF files. Private to engine/image.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/image/endian.h"

namespace upscaled {

constexpr uint32_t BoxType(const char (&name)[5]) {
  return uint32_t(uint8_t(name[0])) << 24 | uint8_t(name[1]) << 16 | uint8_t(name[2]) << 8 |
         uint8_t(name[3]);
}

// "hvc1"; other bytes than text become '?'.
inline std::string BoxName(uint32_t type) {
  std::string name;
  for (int shift = 24; shift >= 0; shift -= 8) {
    const auto byte = static_cast<char>(type >> shift);
    name.push_back(byte >= ' ' && byte <= '~' ? byte : '?');
  }
  return name;
}

// Numbers of a box from its beginning on; those beyond its end are 0, and make it not ok.
class BoxReader {
 public:
  explicit BoxReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  uint64_t Take(int bytes) {
    uint64_t value = 0;
    ok_ = ok_ && rest_.size() >= static_cast<size_t>(bytes);
    if (!ok_) return 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | rest_[i];
    rest_ = rest_.subspan(bytes);
    return value;
  }
  uint32_t Take32() { return static_cast<uint32_t>(Take(4)); }
  std::span<const uint8_t> TakeBytes(uint64_t bytes) {
    ok_ = ok_ && rest_.size() >= bytes;
    if (!ok_) return {};
    const std::span<const uint8_t> taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  // Up to a zero byte, or the end. The zero byte is passed over.
  std::string_view TakeText() {
    const std::string_view rest(reinterpret_cast<const char*>(rest_.data()), rest_.size());
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest_ = rest_.subspan(std::min(rest.size(), text.size() + 1));
    return text;
  }
  // Version and flags of a full box.
  uint32_t TakeVersion() { return Take32() >> 24; }

  bool ok() const { return ok_; }
  bool at_end() const { return !ok_ || rest_.empty(); }
  std::span<const uint8_t> rest() const { return rest_; }

  struct Box {
    uint32_t type;
    std::span<const uint8_t> payload;
  };
  // nullopt: no whole box is left.
  std::optional<Box> TakeBox() {
    if (rest_.size() < 8) return std::nullopt;
    uint64_t size = LoadBe32(rest_.data()), header = 8;
    const uint32_t type = LoadBe32(&rest_[4]);
    if (size == 1 && rest_.size() >= 16) {
      size = uint64_t{LoadBe32(&rest_[8])} << 32 | LoadBe32(&rest_[12]);
      header = 16;
    }
    if (size == 0) size = rest_.size();
    if (size < header || size > rest_.size()) return std::nullopt;
    const Box box{type, rest_.subspan(header, size - header)};
    rest_ = rest_.subspan(size);
    return box;
  }

 private:
  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace upscaled
