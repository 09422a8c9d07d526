// A device with a context spoiled on purpose. failure_test.cc shows the same with a runtime of our
// own; here the driver decides. The last of its program.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/kernels/pooling.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

// The error in every stream of the device's context.
cudaError_t ReadWhereNothingIs() {
  auto* const nowhere = reinterpret_cast<float*>(uintptr_t{16});
  const cuda::TensorView dst{.data = nowhere,
                             .rect = {0, 0, 1, 1},
                             .region = {0, 0, 1, 1},
                             .layer = {1, 1},
                             .channels = cuda::kPlaneChannels};
  const cudaError_t launched =
      cuda::LaunchLoadMeans(nowhere, dst, 1, {}, nowhere, Precision::kExact, nullptr);
  return launched == cudaSuccess ? cudaDeviceSynchronize() : launched;
}

// Either is up to the driver, and nothing else.
TEST(CudaLostContextTest, ANewBackendWorksOnThreadsOldAndNewOrAsksForARestart) {
  auto lost = CreateCudaBackend("cuda", {});
  if (absl::IsUnavailable(lost.status())) GTEST_SKIP() << lost.status();
  ASSERT_TRUE(lost.ok()) << lost.status();
  std::mt19937 random = test::FreshRandom();
  Network network = test::InputAlone();
  test::AppendConv(network, 16, 3);
  test::AppendConv(network, 3, 3);
  const Image source = test::RandomImage({40, 30, 3, SampleType::kU8}, random);
  const auto run = [&](Backend& backend) {
    const auto executable = backend.Compile(network, Precision::kFast);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return executable.ok() ? test::RunTiles(backend, **executable, source, {40, 30}) : Image();
  };
  const Image expected = run(**lost);

  EXPECT_EQ(ReadWhereNothingIs(), cudaErrorIllegalAddress);
  EXPECT_EQ((*lost)->Compile(network, Precision::kFast).status().code(),
            absl::StatusCode::kUnavailable);

  const auto backend = CreateCudaBackend("cuda", {});
  if (!backend.ok()) {
    std::cout << backend.status() << "\n";
    for (const absl::Status& status : {backend.status(), CreateCudaBackend("cuda", {}).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()),
                  ::testing::HasSubstr("cannot be used until the server is restarted"));
    }
    return;
  }
  const auto works = [&] { EXPECT_TRUE(test::SameImages(run(**backend).view(), expected.view())); };
  works();
  std::thread(works).join();
  lost->reset();  // frees nothing of the new context
  works();
}

}  // namespace
}  // namespace upscaled
