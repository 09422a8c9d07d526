// Any bytes as an ONNX model.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/model/onnx/loader.h"
#include "tests/fuzz/check_network.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto network = upscaled::ParseOnnx({reinterpret_cast<const char*>(data), size});
  if (network.ok()) upscaled::CheckLoadedNetwork(*network);
  return 0;
}
