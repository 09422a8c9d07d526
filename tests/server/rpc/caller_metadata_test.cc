#include "server/rpc/caller_metadata.h"

#include <gtest/gtest.h>

namespace upscaled::server {
namespace {

TEST(CallerMetadataTest, CredentialsAreViewsOfTheirEntries) {
  const CallerMetadata metadata = {{"authorization", "Bearer abc"}, {"x-api-key", "def"}};
  const Credentials credentials = CredentialsOf(metadata, PeerAddress());
  EXPECT_EQ(credentials.authorization, "Bearer abc");
  EXPECT_EQ(credentials.api_key, "def");
  EXPECT_FALSE(credentials.repeats);
  EXPECT_TRUE(CredentialsOf({{"authorization", "a"}, {"authorization", "b"}}, {}).repeats);
  EXPECT_TRUE(CredentialsOf({{"x-api-key", "a"}, {"x-api-key", "b"}}, {}).repeats);
  const Credentials none = CredentialsOf({}, PeerAddress());
  EXPECT_EQ(none.authorization, "");
  EXPECT_EQ(none.api_key, "");
}

TEST(CallerMetadataTest, AllEntriesKeepTheirOrder) {
  const CallerMetadata metadata = {
      {"x-forwarded-for", "192.0.2.1"}, {"other", "x"}, {"x-forwarded-for", "192.0.2.2"}};
  EXPECT_EQ(AllEntries(metadata, "x-forwarded-for"), "192.0.2.1, 192.0.2.2");
  EXPECT_EQ(AllEntries(metadata, "forwarded"), "");
}

TEST(CallerMetadataTest, ARepeatedTraceIsNone) {
  EXPECT_EQ(TraceparentOf({{"traceparent", "00-1"}}), "00-1");
  EXPECT_EQ(TraceparentOf({}), "");
  EXPECT_EQ(TraceparentOf({{"traceparent", "00-1"}, {"traceparent", "00-2"}}), "");
}

}  // namespace
}  // namespace upscaled::server
