#include "server/spool/body_spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "server/base/error.h"
#include "tests/client/temp_folder.h"
#include "tests/server/spool/await_disk_work.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

class BodySpoolTest : public ::testing::Test {
 protected:
  ~BodySpoolTest() override { disk_->Close(); }
  std::shared_ptr<BodyBudget> Budget(size_t disk_blocks) {
    return std::make_shared<BodyBudget>(
        BodyBudgetOptions{.spool_dir = folder_.path(),
                          .spool_bytes = disk_blocks * kBodyBlockBytes},
        disk_);
  }
  static std::vector<uint8_t> Bytes(size_t count) {
    std::mt19937 random(3);
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
  }

  client::TempFolder folder_;
  Timer timer_;
  const std::shared_ptr<DiskQueue> disk_ = std::make_shared<DiskQueue>(timer_);
};

TEST_F(BodySpoolTest, GivesWhatWasAppended) {
  for (const size_t count : {size_t{0}, size_t{1}, kBodyBlockBytes - 1, kBodyBlockBytes,
                             kBodyBlockBytes + 1, 3 * kBodyBlockBytes, 3 * kBodyBlockBytes + 77}) {
    for (const size_t piece : {size_t{999}, kBodyBlockBytes, size_t{100'000}}) {
      const std::vector<uint8_t> bytes = Bytes(count);
      BodySpool spool(Budget(10));
      for (size_t at = 0; at < count; at += piece) {
        ASSERT_TRUE(spool.Append(std::span(bytes).subspan(at, std::min(piece, count - at))).ok());
      }
      std::vector<uint8_t> all, some(piece);
      while (true) {
        const absl::StatusOr<size_t> n = spool.Read(some);
        ASSERT_TRUE(n.ok()) << n.status();
        if (*n == 0) break;
        ASSERT_LE(all.size() + *n, count);
        all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(*n));
      }
      EXPECT_TRUE(all == bytes) << count << " by " << piece;
    }
  }
}

TEST_F(BodySpoolTest, RefusesWhatTheDiskHasNoRoomFor) {
  const auto budget = Budget(2);
  {
    BodySpool spool(budget);
    ASSERT_TRUE(spool.Append(Bytes(3 * kBodyBlockBytes)).ok()) << "one block stays in memory";
    EXPECT_EQ(budget->spool_bytes_in_use(), 2 * kBodyBlockBytes);
    const absl::Status full = spool.Append(Bytes(1));
    EXPECT_EQ(ReasonOf(full), ErrorReason::kOverloaded) << full;
    EXPECT_THAT(full.message(), HasSubstr("131072 bytes"));
  }
  AwaitDiskWork(*disk_);
  EXPECT_EQ(budget->spool_bytes_in_use(), 0);
  BodySpool none(Budget(0));
  ASSERT_TRUE(none.Append(Bytes(kBodyBlockBytes)).ok());
  EXPECT_EQ(ReasonOf(none.Append(Bytes(1))), ErrorReason::kLimitExceeded);
}

// A payer's slow clients leave room for others'.
TEST_F(BodySpoolTest, APayerHasThreeQuartersOfTheDisk) {
  const auto budget = Budget(8);
  const auto fill = [&](BodySpool& spool) {
    size_t blocks = 0;  // on the disk: one more waits in memory
    absl::Status status = spool.Append(Bytes(kBodyBlockBytes));
    while ((status = spool.Append(Bytes(kBodyBlockBytes))).ok()) ++blocks;
    EXPECT_EQ(ReasonOf(status), ErrorReason::kOverloaded) << status;
    return blocks;
  };
  {
    BodySpool first(budget, "greedy"), second(budget, "greedy"), other(budget, "modest");
    EXPECT_EQ(fill(first), 6u);
    EXPECT_EQ(fill(second), 0u);
    EXPECT_EQ(fill(other), 2u);
  }
  test::Await([&] { return budget->spool_bytes_in_use() == 0; });
  BodySpool again(budget, "greedy"), own(budget);
  EXPECT_EQ(fill(again), 6u);
  EXPECT_EQ(fill(own), 2u);
  BodySpool server(Budget(8));
  EXPECT_EQ(fill(server), 8u) << "the server has no share";
}

}  // namespace
}  // namespace upscaled::server
