// Integers as files hold them, at any alignment.
#pragma once

#include <cstdint>

namespace upscaled {

inline uint32_t LoadBe16(const uint8_t* p) { return p[0] << 8 | p[1]; }
inline uint32_t LoadBe32(const uint8_t* p) { return LoadBe16(p) << 16 | LoadBe16(p + 2); }
inline uint32_t LoadLe16(const uint8_t* p) { return p[0] | p[1] << 8; }
inline uint32_t LoadLe24(const uint8_t* p) { return LoadLe16(p) | p[2] << 16; }
inline uint32_t LoadLe32(const uint8_t* p) { return LoadLe16(p) | LoadLe16(p + 2) << 16; }

inline void StoreBe32(uint32_t value, uint8_t* p) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

}  // namespace upscaled
