#include "server/identity/address_buckets.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

// The addresses without a token when `victim` has taken its only one.
std::vector<std::string> Neighbours(const std::string& victim, AddressBuckets& buckets) {
  EXPECT_TRUE(buckets.Take(victim));
  std::vector<std::string> neighbours;
  for (int i = 0; i < 60'000; ++i) {
    const std::string address = absl::StrCat("10.0.", i / 250, ".", i % 250);
    if (buckets.TimeToNext(address) > absl::ZeroDuration()) neighbours.push_back(address);
  }
  return neighbours;
}

TEST(AddressBucketsTest, NoCallerCanChooseAnAddressThatSharesAnothersBucket) {
  FakeClock clock;
  const Rate once{.per_second = 1, .burst = 1};
  AddressBuckets here(once, clock), there(once, clock);
  const std::vector<std::string> neighbours = Neighbours("192.0.2.1", here);
  EXPECT_GT(neighbours.size(), 1u) << "as there are fewer buckets than addresses";
  EXPECT_NE(Neighbours("192.0.2.1", there), neighbours);
}

}  // namespace
}  // namespace upscaled::server
