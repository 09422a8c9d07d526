#include "tests/engine/backends/check_candidate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled::test {

void CheckCandidate(const KernelCandidates& candidates, const std::string& name, float tolerance,
                    std::mt19937& random) {
  const Layer& layer = candidates.layer();
  SCOPED_TRACE(name + " " + Describe(layer));
  const Size in{layer.kernel_px + RandomInt(random, 0, 20),
                layer.kernel_px + RandomInt(random, 0, 20)};
  const reference::Tensor input = RandomTensor(layer.in_channels, in, random);
  reference::Tensor expected({0, 0, OutputSide(layer, in.width), OutputSide(layer, in.height)},
                             layer.out_channels);
  const reference::Tensor* const inputs[] = {&input};
  reference::ComputeLayer(layer, inputs, expected);

  const std::unique_ptr<LayerCandidate> candidate = candidates.Try(name, in);
  candidate->Run();  // leaves nothing behind that Compute would see
  if (const std::optional<absl::Duration> time = candidate->LastRunTime()) {
    EXPECT_GT(*time, absl::ZeroDuration());
    EXPECT_LT(*time, absl::InfiniteDuration());
  }
  const std::vector<float> actual = candidate->Compute(input.values);
  ASSERT_EQ(actual.size(), expected.values.size());
  float largest = 0;
  for (const float value : expected.values) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected.values[i], tolerance * largest) << "value " << i;
  }
}

}  // namespace upscaled::test
