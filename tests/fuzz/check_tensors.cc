#include "tests/fuzz/check_tensors.h"

#include <cstdlib>

namespace upscaled {

void CheckTensors(const TensorFile& file) {
  for (const auto& [name, info] : file.tensors()) {
    const auto values = file.Read(name);
    const auto count = CountValues(info.shape);
    if (!count.ok()) std::abort();
    if (values.ok() && static_cast<int64_t>(values->size()) != *count) std::abort();
  }
}

}  // namespace upscaled
