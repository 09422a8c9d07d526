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

TEST(SpareBuffersTest, GoBeforeALargerOneIsMade) {
  SpareBuffers spares;
  spares.Return(spares.Take(kFloats));
  EXPECT_EQ(spares.Take(2 * kFloats).size(), 2 * kFloats);
  EXPECT_EQ(spares.Take(kFloats - 1).size(), kFloats - 1) << "it was kept all the same";
}

TEST(SpareBuffersTest, KeepSomeMemoryOnly) {
  SpareBuffers spares;
  constexpr size_t kLarge = size_t{40} << 20;  // 160 MiB, of which none is touched
  HugeBuffer first = spares.Take(kLarge), second = spares.Take(kLarge + 1);
  spares.Return(std::move(first));
  spares.Return(std::move(second));
  EXPECT_EQ(spares.Take(kLarge).size(), kLarge);
  EXPECT_EQ(spares.Take(kLarge).size(), kLarge) << "the second was kept, too";
}

TEST(SpareBuffersTest, SmallOnesAreNotWorthIt) {
  SpareBuffers spares;
  spares.Return(spares.Take(1001));
  EXPECT_EQ(spares.Take(1000).size(), 1000u);
}

}  // namespace
}  // namespace upscaled::cpu
