#include "tests/bench/image_kernels/cpu/image_kernels.h"

#include <gtest/gtest.h>

#include "hwy/targets.h"
#include "tests/bench/image_kernels/image_kernels_check.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

TEST(CpuImageKernelsTest, AreTheirDefinitionsInEveryInstructionSet) {
  std::mt19937 random = test::FreshRandom();
  const auto kernels = cpu::CreateImageKernels(test::RandomInt(random, 1, 4));
  for (int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    test::ExpectDefinitions(*kernels, random);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(CpuImageKernelsTest, GiveTheSameBytesForEveryNumberOfThreads) {
  std::mt19937 random = test::FreshRandom();
  const auto one = cpu::CreateImageKernels(1);
  for (size_t step = 0; step < one->steps().size(); ++step) {
    const ImageWork work = test::RandomWork(one->steps()[step].op, random);
    const std::vector<uint8_t> src = test::RandomSource(work, random);
    const std::vector<uint8_t> expected = test::RunStep(*one, step, work, src);
    for (const int threads : {2, 3, 7}) {
      const auto several = cpu::CreateImageKernels(threads);
      EXPECT_TRUE(test::RunStep(*several, step, work, src) == expected)
          << one->steps()[step].name << ", " << threads << " threads, " << work.size.width << "x"
          << work.size.height;
    }
  }
}

}  // namespace
}  // namespace upscaled
