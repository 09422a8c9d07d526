// Any bytes as a file of torch.save, and as the pickle in one.
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model/architectures/architecture.h"
#include "engine/model/pytorch/loader.h"
#include "tests/engine/model/weights_files.h"
#include "tests/fuzz/check_network.h"
#include "tests/fuzz/check_tensors.h"

namespace {

void Check(const std::string& bytes) {
  const auto file = upscaled::ParsePytorch(bytes);
  if (!file.ok()) return;
  upscaled::CheckTensors(**file);
  const auto network = upscaled::BuildNetwork(**file, "");
  if (network.ok()) upscaled::CheckLoadedNetwork(*network);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  Check(upscaled::test::PytorchZip(bytes, {{.name = "0", .bytes = std::string(24, '\x3f')},
                                           {.name = "1", .bytes = std::string(1728, '\x3c')}}));
  return 0;
}
