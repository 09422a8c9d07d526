#include "tests/bench/image_kernels/cuda/image_kernels.h"

#include <gtest/gtest.h>

#include "tests/bench/image_kernels/image_kernels_check.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

TEST(CudaImageKernelsTest, AreTheirDefinitions) {
  const auto kernels = cuda::CreateImageKernels(0);
  if (absl::IsUnavailable(kernels.status())) GTEST_SKIP() << kernels.status();
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  std::mt19937 random = test::FreshRandom();
  test::ExpectDefinitions(**kernels, random);
}

}  // namespace
}  // namespace upscaled
