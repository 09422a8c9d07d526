#include "engine/backends/cpu/spare_buffers.h"

#include <algorithm>
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
  constexpr size_t kLeast = kFloats / 9 * 8 + 8;  // which are one more than the buffer, with 1/8
  HugeBuffer again = spares.Take(kLeast);
  EXPECT_EQ(again.data(), data);
  EXPECT_EQ(again.size(), kFloats);
  EXPECT_GE(SpareBuffers::MostBytes(kLeast), HugeBuffer::BytesFor(kFloats));
  spares.Return(std::move(again));
  constexpr size_t kFewer = kFloats / 9 * 8 - 8;
  EXPECT_EQ(spares.Take(kFewer).size(), kFewer) << "more would be kept than is reserved";
}

TEST(SpareBuffersTest, StayWhereALargerOneIsMade) {
  SpareBuffers spares;
  spares.Return(spares.Take(kFloats));
  EXPECT_EQ(spares.Take(2 * kFloats).size(), 2 * kFloats);
  EXPECT_EQ(spares.Take(kFloats - 1).size(), kFloats) << "it was dropped";
}

// Buffers of 120, 30 and 160 MiB, used one after the other: the last has room without the first.
TEST(SpareBuffersTest, TheOldestGoWhereThereIsNoRoom) {
  SpareBuffers spares;
  for (const size_t floats : {30 * kFloats, 30 * kFloats / 4, 40 * kFloats}) {
    spares.Return(spares.Take(floats));
  }
  EXPECT_EQ(spares.Take(30 * kFloats / 4 - 1).size(), 30 * kFloats / 4) << "it was dropped";
  EXPECT_EQ(spares.Take(39 * kFloats).size(), 40 * kFloats) << "the third was not kept";
  EXPECT_EQ(spares.Take(29 * kFloats).size(), 29 * kFloats) << "the first was kept, too";
}

TEST(SpareBuffersTest, AsMuchIsKeptAsWasUsedAtOneTime) {
  SpareBuffers spares;
  HugeBuffer first = spares.Take(80 * kFloats), second = spares.Take(81 * kFloats);  // 644 MiB
  spares.Return(std::move(first));
  spares.Return(std::move(second));
  first = spares.Take(79 * kFloats);
  second = spares.Take(79 * kFloats);
  EXPECT_EQ(first.size(), 80 * kFloats);
  EXPECT_EQ(second.size(), 81 * kFloats);
  spares.Return(std::move(first));
  spares.Return(std::move(second));
  const HugeBuffer other = spares.Take(10 * kFloats);
  EXPECT_EQ(spares.Take(79 * kFloats).size(), 81 * kFloats) << "the second made room, too";
  EXPECT_EQ(spares.Take(79 * kFloats).size(), 79 * kFloats) << "more is held than ever was used";
}

TEST(SpareBuffersTest, NothingIsKeptOnceCleared) {
  SpareBuffers spares;
  spares.Return(spares.Take(2 * kFloats));
  spares.Clear();
  EXPECT_EQ(spares.Take(2 * kFloats - 1).size(), 2 * kFloats - 1);
}

TEST(SpareBuffersTest, PoisonedOnesHoldNothingOfTheUserBefore) {
  SpareBuffers spares(/*poisons=*/true);
  HugeBuffer buffer = spares.Take(kFloats);
  std::fill_n(buffer.data(), kFloats, 7.0f);
  spares.Return(std::move(buffer));
  buffer = spares.Take(kFloats);
  EXPECT_EQ(std::count(buffer.data(), buffer.data() + kFloats, 7.0f), 0);
  EXPECT_EQ(std::count(buffer.data(), buffer.data() + kFloats, 0.0f), 0);
}

TEST(HugeBufferTest, ReserveOfAPoisonedOneLeavesNothing) {
  HugeBuffer buffer = HugeBuffer::Poisoned();
  for (const size_t floats : {100, 5000, 100, 5000}) {
    buffer.Reserve(floats);
    EXPECT_GE(buffer.size(), floats);
    EXPECT_EQ(std::count(buffer.data(), buffer.data() + buffer.size(), 7.0f), 0);
    EXPECT_EQ(std::count(buffer.data(), buffer.data() + buffer.size(), 0.0f), 0);
    std::fill_n(buffer.data(), buffer.size(), 7.0f);
  }
}

TEST(SpareBuffersTest, SmallOnesAreNotWorthIt) {
  SpareBuffers spares;
  spares.Return(spares.Take(1001));
  EXPECT_EQ(spares.Take(1000).size(), 1000u);
}

}  // namespace
}  // namespace upscaled::cpu
