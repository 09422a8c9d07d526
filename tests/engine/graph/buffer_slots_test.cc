#include "engine/graph/buffer_slots.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

TEST(BufferSlotsTest, NoTwoShareASlotAtATimeAndNoneIsWasted) {
  std::mt19937 random = test::FreshRandom();
  for (int i = 0; i < 100; ++i) {
    std::vector<Lifetime> lifetimes;
    for (int step = 0; step < 40; ++step) {
      lifetimes.push_back({step, step + test::RandomInt(random, 0, 5)});
    }
    const std::vector<int> slots = AssignSlots(lifetimes);
    int max_at_once = 0;
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      int at_once = 0;  // when `a` begins
      for (size_t b = 0; b <= a; ++b) {
        if (lifetimes[b].last < lifetimes[a].first) continue;
        ++at_once;
        if (b != a) {
          EXPECT_NE(slots[b], slots[a]);
        }
      }
      max_at_once = std::max(max_at_once, at_once);
    }
    EXPECT_EQ(*std::max_element(slots.begin(), slots.end()) + 1, max_at_once);
  }
}

}  // namespace
}  // namespace upscaled
