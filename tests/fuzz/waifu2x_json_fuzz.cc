// Any bytes as a waifu2x .json model.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/model/waifu2x_json_loader.h"
#include "tests/fuzz/check_network.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool enlarge_first : {false, true}) {
    const auto network = upscaled::ParseWaifu2xJson(text, enlarge_first);
    if (network.ok()) upscaled::CheckLoadedNetwork(*network);
  }
  return 0;
}
