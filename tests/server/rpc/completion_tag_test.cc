#include "server/rpc/completion_tag.h"

#include <gtest/gtest.h>

namespace upscaled::server {
namespace {

TEST(CompletionTagTest, OwnsItsCallWhileAnOperationIsInFlight) {
  int told = 0;
  CompletionTag tag([&told](bool ok) { told += ok ? 1 : 10; });
  auto call = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = call;
  EXPECT_EQ(tag.Arm(std::move(call)), &tag);
  EXPECT_FALSE(watched.expired());
  tag.Complete(true);
  EXPECT_TRUE(watched.expired());
  tag.Complete(false);
  EXPECT_EQ(told, 11);
}

TEST(CompletionTagTest, OwnsNothingOnceDisarmed) {
  CompletionTag tag([](bool) {});
  auto call = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = call;
  tag.Arm(std::move(call));
  tag.Disarm();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace upscaled::server
