#include "engine/model/onnx/numbers.h"

#include <algorithm>
#include <cmath>

namespace upscaled::onnx {

bool SameWhenAligned(const PerProbe& a, const PerProbe& b) {
  return std::equal(a.begin(), a.begin() + kAlignedProbes, b.begin());
}

int64_t ToInteger(double value) {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  return std::isnan(value) ? 0 : static_cast<int64_t>(std::clamp(value, -kMost, kMost));
}

TensorProto ToTensor(const Numbers& numbers) {
  TensorProto tensor;
  tensor.mutable_dims()->Assign(numbers.dims.begin(), numbers.dims.end());
  tensor.set_data_type(numbers.whole ? TensorProto::INT64 : TensorProto::FLOAT);
  for (const double value : numbers.values) {
    if (numbers.whole) {
      tensor.add_int64_data(ToInteger(value));
    } else {
      tensor.add_float_data(static_cast<float>(value));
    }
  }
  return tensor;
}

}  // namespace upscaled::onnx
