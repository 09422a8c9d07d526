// Programs of networks where there are no kernels, but what they fuse is known.
#pragma once

#include "engine/backends/cuda/program.h"
#include "gtest/gtest.h"
#include "tests/engine/graph/fake_kernels.h"

namespace upscaled::test {

// `first_conv` (may be null) says which convolutions are computed straight from the image.
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
