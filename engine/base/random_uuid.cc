#include "engine/base/random_uuid.h"

#include <array>
#include <cstdint>
#include <random>

#include "absl/strings/str_format.h"

namespace upscaled {

std::string RandomUuid() {
  std::random_device random;
  std::array<uint32_t, 4> words;
  for (uint32_t& word : words) word = random();
  words[1] = (words[1] & 0xFFFF0FFF) | 0x4000;
  words[2] = (words[2] & 0x3FFFFFFF) | 0x80000000;
  return absl::StrFormat("%08x-%04x-%04x-%04x-%04x%08x", words[0], words[1] >> 16,
                         words[1] & 0xFFFF, words[2] >> 16, words[2] & 0xFFFF, words[3]);
}

}  // namespace upscaled
