#include "engine/model/architectures/batch_norm.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace upscaled {
namespace {

constexpr float kBatchNormEpsilon = 1e-5f;  // PyTorch's

}  // namespace

int AddBatchNorm(NetworkBuilder& builder, int input, const std::string& name) {
  if (!builder.ok()) return input;
  builder.Ignore(name + ".num_batches_tracked");
  const std::vector<int64_t> shape = {builder.Channels(input)};
  std::vector<float> factor = builder.Read(name + ".weight", shape);
  std::vector<float> offset = builder.Read(name + ".bias", shape);
  const std::vector<float> mean = builder.Read(name + ".running_mean", shape);
  const std::vector<float> variance = builder.Read(name + ".running_var", shape);
  if (!builder.ok()) return input;
  for (size_t i = 0; i < factor.size(); ++i) {
    factor[i] /= std::sqrt(variance[i] + kBatchNormEpsilon);
    offset[i] -= mean[i] * factor[i];
  }
  return builder.Affine(input, std::move(factor), std::move(offset));
}

}  // namespace upscaled
