// Programs of networks without kernels, but with known fusions.
#pragma once

#include "engine/backends/cuda/program.h"
#include "gtest/gtest.h"
#include "tests/engine/graph/fake_kernels.h"

namespace upscaled::test {

// `first_conv` (may be null) names the convolutions computed straight from the image.
inline cuda::Program PlanForCuda(const Network& network,
                                 bool (*first_conv)(const Layer& conv) = nullptr) {
  constexpr unsigned kAll = kFuseAdd | kFuseCrop | kFuseResize | kFuseShuffle;
  std::vector<FakeKernelInfo> kernels = {{{"conv", kAll}, FakeKernelSet::Convolutions()},
                                         {{"elementwise"}, FakeKernelSet::Plain()}};
  if (first_conv != nullptr) {
    kernels.push_back({{"first_conv", kFuseImage}, {Op::kConv}, /*configs=*/1, first_conv});
  }
  absl::StatusOr<NetworkPlan> plan = PlanNetwork(network, FakeKernelSet(std::move(kernels)));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return cuda::BuildProgram(*std::move(plan));
}

}  // namespace upscaled::test
