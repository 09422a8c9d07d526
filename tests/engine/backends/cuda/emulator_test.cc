// The emulator finds the faults it is made for.
#include "tests/engine/backends/cuda/emulator.h"

#include <cstdint>
#include <random>
#include <vector>

#include "engine/backends/cuda/kernels/device.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FreshRandom;
using test::RunEmulated;

constexpr int kThreads = 64;

// Each thread passes its number to the next one, 20 times over.
bool PassesNumbers(bool sync, std::mt19937& random) {
  bool right = true;
  RunEmulated(
      {1, 1, 1, kThreads, kThreads * 4},
      [&] {
        const int thread = cuda::ThreadIndex();
        for (int i = 0; i < 20; ++i) {
          *cuda::SharedAt<int>(thread * 4) = thread + i;
          if (sync) cuda::SyncThreads();
          const int from = (thread + 1) % kThreads;
          right &= *cuda::SharedAt<int>(from * 4) == from + i;
          if (sync) cuda::SyncThreads();
        }
      },
      random);
  return right;
}

TEST(EmulatorTest, ThreadsMeetAtBarriersAlone) {
  std::mt19937 random = FreshRandom();
  EXPECT_TRUE(PassesNumbers(true, random));
  EXPECT_FALSE(PassesNumbers(false, random));
}

TEST(EmulatorTest, CopiesMayHappenAtAnyTimeBeforeTheWait) {
  std::mt19937 random = FreshRandom();
  alignas(16) const uint32_t source[4] = {1, 2, 3, 4};
  int early = 0, late = 0, waited = 0;
  RunEmulated(
      {64, 1, 1, 1, 16},
      [&] {
        cuda::CopyAsync16(0, source, true);
        cuda::CommitCopies();
        ++(*cuda::SharedAt<uint32_t>(0) == 1 ? early : late);
        cuda::WaitCopies<0>();
        if (*cuda::SharedAt<uint32_t>(0) == 1) ++waited;
      },
      random);
  EXPECT_GT(early, 0);
  EXPECT_GT(late, 0);
  EXPECT_EQ(waited, 64);
}

TEST(EmulatorTest, ReportsThreadsThatWaitForEver) {
  EXPECT_NONFATAL_FAILURE(
      {
        std::mt19937 random;
        RunEmulated(
            {1, 1, 1, 1, 16}, [] { cuda::SyncWarps(1, 64); }, random);
      },
      "wait for each other");
}

TEST(EmulatorTest, WaitsWithPatienceGiveUp) {
  std::mt19937 random;
  int tries = 1;
  RunEmulated(
      {1, 1, 1, 1, 16},
      [&] {
        cuda::Patience patience;
        cuda::InitBarrier(0, 1);
        cuda::Arrive(0);
        cuda::WaitForPhase(0, 0, patience);
        EXPECT_FALSE(patience.IsUsedUp());
        for (int i = 0; i < 2; ++i) cuda::WaitForPhase(0, 1, patience);
        tries = patience.tries;
      },
      random);
  EXPECT_EQ(tries, 0);
}

}  // namespace
}  // namespace upscaled
