#include "tests/bench/image_kernels/opencl/image_kernels.h"

#include <gtest/gtest.h>

#include "tests/bench/image_kernels/image_kernels_check.h"
#include "tests/engine/backends/opencl/test_context.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

TEST(OpenClImageKernelsTest, AreTheirDefinitions) {
  const auto context = test::MakeContext();
  if (absl::IsUnavailable(context.status())) GTEST_SKIP() << context.status();
  ASSERT_TRUE(context.ok()) << context.status();
  std::mt19937 random = test::FreshRandom();
  const auto kernels = opencl::CreateImageKernels(*context);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  test::ExpectDefinitions(**kernels, random);
}

}  // namespace
}  // namespace upscaled
