// Any bytes as an ncnn model: the .param up to the first zero byte, the .bin behind it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/model/ncnn_loader.h"
#include "tests/fuzz/check_network.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), size);
  const auto network =
      upscaled::ParseNcnn(bytes.substr(0, end), bytes.substr(std::min(end + 1, size)));
  if (network.ok()) upscaled::CheckLoadedNetwork(*network);
  return 0;
}
