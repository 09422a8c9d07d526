#include "engine/base/random_uuid.h"

#include <string>

#include "gtest/gtest.h"

namespace upscaled {
namespace {

TEST(RandomUuidTest, IsKnownByItsForm) {
  for (int i = 0; i < 100; ++i) {
    const std::string id = RandomUuid();
    EXPECT_TRUE(IsUuid(id)) << id;
    EXPECT_EQ(id[14], '4') << id;
    EXPECT_NE(std::string("89ab").find(id[19]), std::string::npos) << id;
  }
  const std::string id = RandomUuid();
  for (const std::string& other :
       {std::string(), id.substr(1), id + "0", std::string(36, 'a'), std::string(36, '-'),
        "g" + id.substr(1), "A" + id.substr(1), std::string("results")}) {
    EXPECT_FALSE(IsUuid(other)) << other;
  }
}

}  // namespace
}  // namespace upscaled
