// Any bytes as a .safetensors file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model/architectures/architecture.h"
#include "engine/model/tensors/safetensors.h"
#include "tests/fuzz/check_network.h"
#include "tests/fuzz/check_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = upscaled::ParseSafetensors({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  upscaled::CheckTensors(**file);
  const auto network = upscaled::BuildNetwork(**file, "");
  if (network.ok()) upscaled::CheckLoadedNetwork(*network);
  return 0;
}
