#include "engine/backends/cpu/spare_buffers.h"

#include <cstddef>
#include <utility>

#include "gtest/gtest.h"

namespace upscaled::cpu {
namespace {

constexpr size_t kFloats = size_t{1} << 20;  // two huge pages

TEST(SpareBuffersTest, ServeThoseThatNeedNotMuchLess) {
  SpareBuffers spares;
  HugeBuffer buffer = spares.Take(kFloats);
  float* const data = buffer.data();
  spares.Return(std::move(buffer));
  HugeBuffer again = spares.Take(kFloats / 2 + 1);
  EXPECT_EQ(again.data(), data);
  EXPECT_EQ(again.size(), kFloats);
  spares.Return(std::move(again));
  EXPECT_EQ(spares.Take(kFloats / 4).size(), kFloats / 4) << "a quarter would keep too much";
}

TEST(SpareBuffersTest, StayWhereALargerOneIsMade) {
  SpareBuffers spares;
  spares.Return(spares.Take(kFloats));
  EXPECT_EQ(spares.Take(2 * kFloats).size(), 2 * kFloats);
  EXPECT_EQ(spares.Take(kFloats - 1).size(), kFloats) << "it was dropped";
}

// Buffers of 120, 30 and 160 MiB, of which none is touched: the last has room without the first.
TEST(SpareBuffersTest, TheOldestGoWhereThereIsNoRoom) {
  SpareBuffers spares;
  HugeBuffer first = spares.Take(30 * kFloats), second = spares.Take(30 * kFloats / 4);
  HugeBuffer third = spares.Take(40 * kFloats);
  spares.Return(std::move(first));
  spares.Return(std::move(second));
  spares.Return(std::move(third));
  EXPECT_EQ(spares.Take(30 * kFloats / 4 - 1).size(), 30 * kFloats / 4) << "it was dropped";
  EXPECT_EQ(spares.Take(29 * kFloats).size(), 40 * kFloats) << "the third was not kept";
  EXPECT_EQ(spares.Take(29 * kFloats).size(), 29 * kFloats) << "the first was kept, too";
}

TEST(SpareBuffersTest, OneOverTheLimitGoesAlone) {
  SpareBuffers spares;
  HugeBuffer large = spares.Take(65 * kFloats);  // 260 MiB
  spares.Return(spares.Take(kFloats));
  spares.Return(std::move(large));
  EXPECT_EQ(spares.Take(64 * kFloats).size(), 64 * kFloats) << "it was kept";
  EXPECT_EQ(spares.Take(kFloats - 1).size(), kFloats) << "the small one went as well";
}

TEST(SpareBuffersTest, SmallOnesAreNotWorthIt) {
  SpareBuffers spares;
  spares.Return(spares.Take(1001));
  EXPECT_EQ(spares.Take(1000).size(), 1000u);
}

}  // namespace
}  // namespace upscaled::cpu
