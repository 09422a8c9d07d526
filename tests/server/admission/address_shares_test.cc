#include "server/admission/address_shares.h"

#include <gtest/gtest.h>

namespace upscaled::server {
namespace {

TEST(AddressSharesTest, EachAddressHasItsOwn) {
  AddressShares shares(10);
  shares.Take("a", 7);
  EXPECT_TRUE(shares.Fits("a", 3));
  EXPECT_FALSE(shares.Fits("a", 4));
  EXPECT_TRUE(shares.Fits("b", 10));
  shares.Give("a", 7);
  EXPECT_EQ(shares.taken("a"), 0);
  EXPECT_TRUE(shares.Fits("a", 10));
}

TEST(AddressSharesTest, NobodyHasNoShare) {
  AddressShares shares(1);
  shares.Take("", 5);
  EXPECT_EQ(shares.taken(""), 0);
  EXPECT_TRUE(shares.Fits("", 100));
}

}  // namespace
}  // namespace upscaled::server
