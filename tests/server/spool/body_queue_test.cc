#include "server/spool/body_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/base/error.h"
#include "tests/client/temp_folder.h"
#include "tests/server/spool/await_disk_work.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<uint8_t> Noise(size_t bytes, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<uint8_t> noise(bytes);
  for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
  return noise;
}

class BodyQueueTest : public ::testing::Test {
 protected:
  void Open(size_t memory_blocks_per_body, size_t memory_blocks, size_t disk_blocks) {
    budget_ = std::make_shared<BodyBudget>(
        BodyBudgetOptions{.memory_bytes_per_body = memory_blocks_per_body * kBodyBlockBytes,
                          .memory_bytes = memory_blocks * kBodyBlockBytes,
                          .spool_dir = folder_.path(),
                          .spool_bytes = disk_blocks * kBodyBlockBytes},
        disk_);
    queue_ = NewQueue();
  }
  std::shared_ptr<BodyQueue> NewQueue() {
    return std::make_shared<BodyQueue>(budget_, [this] { ++told_of_room_; });
  }
  ~BodyQueueTest() override {
    AwaitDisk();
    disk_->Close();
  }
  // Until the disk has taken its work.
  void AwaitDisk() { AwaitDiskWork(*disk_); }

  // Appends until nothing more is taken, also after the disk has taken something.
  static size_t Fill(BodyQueue& queue, std::span<const uint8_t> bytes, DiskQueue& disk) {
    size_t taken = 0;
    while (taken < bytes.size()) {
      size_t n = queue.Append(bytes.subspan(taken));
      if (n == 0) {
        AwaitDiskWork(disk);
        n = queue.Append(bytes.subspan(taken));
      }
      if (n == 0) break;
      taken += n;
    }
    return taken;
  }
  size_t Fill(std::span<const uint8_t> bytes) { return Fill(*queue_, bytes, *disk_); }
  static std::vector<uint8_t> ReadAll(BodyQueue& queue, size_t piece_bytes = 50'000) {
    std::vector<uint8_t> all, piece(piece_bytes);
    while (true) {
      const absl::StatusOr<size_t> n = queue.Read(piece);
      EXPECT_TRUE(n.ok()) << n.status();
      if (!n.ok() || *n == 0) return all;
      all.insert(all.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*n));
    }
  }

  client::TempFolder folder_;
  std::atomic<int> told_of_room_ = 0;
  Timer timer_;
  const std::shared_ptr<DiskQueue> disk_ = std::make_shared<DiskQueue>(timer_);
  std::shared_ptr<BodyBudget> budget_;
  std::shared_ptr<BodyQueue> queue_;
};

TEST_F(BodyQueueTest, ASlowBodyIsReadyWhenItIsWhole) {
  Open(/*memory_blocks_per_body=*/20, /*memory_blocks=*/40, /*disk_blocks=*/100);
  int ready = 0;
  EXPECT_FALSE(queue_->begun());
  queue_->OnReady([&] { ++ready; });
  EXPECT_TRUE(queue_->awaited());
  const std::vector<uint8_t> noise = Noise(kStreamBytes - 1);  // too few to tell a fast client
  ASSERT_EQ(Fill(noise), noise.size());
  EXPECT_TRUE(queue_->begun());
  EXPECT_EQ(ready, 0);
  queue_->End();
  EXPECT_EQ(ready, 1);
  EXPECT_FALSE(queue_->awaited());
  EXPECT_EQ(ReadAll(*queue_), noise);
  queue_->OnReady([&] { ++ready; });
  EXPECT_EQ(ready, 2) << "at once";
}

TEST_F(BodyQueueTest, ABodyThatFailsOrCannotBeKeptIsReady) {
  for (const size_t disk_blocks : {0, 2}) {
    Open(/*memory_blocks_per_body=*/2, /*memory_blocks=*/2, disk_blocks);
    bool ready = false;
    queue_->OnReady([&] { ready = true; });
    const std::vector<uint8_t> noise = Noise(10 * kBodyBlockBytes);
    EXPECT_LT(Fill(noise), noise.size());
    EXPECT_TRUE(ready) << disk_blocks;
  }
  bool ready = false;
  queue_ = NewQueue();
  queue_->OnReady([&] { ready = true; });
  queue_->Fail(absl::AbortedError("the client has stalled"));
  EXPECT_TRUE(ready);
}

TEST_F(BodyQueueTest, MemoryThenDiskThenMemoryKeepTheOrder) {
  Open(/*memory_blocks_per_body=*/3, /*memory_blocks=*/10, /*disk_blocks=*/100);
  const std::vector<uint8_t> noise = Noise(20 * kBodyBlockBytes + 777);
  EXPECT_EQ(Fill(noise), noise.size());
  AwaitDisk();
  EXPECT_GE(budget_->spool_bytes_in_use(), static_cast<int64_t>(16 * kBodyBlockBytes));
  queue_->End();
  EXPECT_EQ(ReadAll(*queue_), noise);
  AwaitDisk();
  EXPECT_EQ(budget_->spool_bytes_in_use(), 0);
}

TEST_F(BodyQueueTest, AReaderInTimeNeverMeetsTheDisk) {
  Open(2, 10, 100);
  const std::vector<uint8_t> noise = Noise(kBodyBlockBytes);
  std::vector<uint8_t> piece(kBodyBlockBytes);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(queue_->Append(noise), noise.size());
    size_t read = 0;
    while (read < noise.size()) read += *queue_->Read(std::span(piece).subspan(read));
    ASSERT_EQ(piece, noise);
  }
  EXPECT_EQ(budget_->spool_bytes_in_use(), 0);
}

TEST_F(BodyQueueTest, WithoutDiskItIsFullAndSaysWhenItIsNot) {
  Open(2, 10, 0);
  const std::vector<uint8_t> noise = Noise(10 * kBodyBlockBytes);
  // One block next to the budget's. It is counted with them.
  EXPECT_EQ(Fill(noise), 2 * kBodyBlockBytes);
  EXPECT_FALSE(queue_->waits_for_others());
  EXPECT_EQ(told_of_room_, 0);
  std::vector<uint8_t> piece(kBodyBlockBytes);
  ASSERT_EQ(*queue_->Read(piece), kBodyBlockBytes);
  EXPECT_EQ(told_of_room_, 1);
  EXPECT_EQ(Fill(std::span(noise).subspan(2 * kBodyBlockBytes)), kBodyBlockBytes);
}

TEST_F(BodyQueueTest, BudgetsAreForAllBodiesTogether) {
  Open(8, /*memory_blocks=*/3, /*disk_blocks=*/2);
  const std::vector<uint8_t> noise = Noise(20 * kBodyBlockBytes);
  // Its own block, three of memory, two of disk.
  EXPECT_EQ(Fill(noise), 6 * kBodyBlockBytes);
  EXPECT_TRUE(queue_->waits_for_others());
  const std::shared_ptr<BodyQueue> other = NewQueue();
  EXPECT_EQ(Fill(*other, noise, *disk_), kBodyBlockBytes);  // each goes on
  EXPECT_TRUE(other->waits_for_others());
  queue_->Discard();
  AwaitDisk();
  EXPECT_EQ(budget_->spool_bytes_in_use(), 0);
  EXPECT_EQ(Fill(*other, std::span(noise).subspan(kBodyBlockBytes), *disk_), 5 * kBodyBlockBytes);
}

TEST_F(BodyQueueTest, SlotsOfTheFileAreUsedAgain) {
  Open(1, 10, /*disk_blocks=*/4);
  const std::vector<uint8_t> noise = Noise(100 * kBodyBlockBytes);
  std::vector<uint8_t> read;
  size_t appended = 0;
  std::vector<uint8_t> piece(kBodyBlockBytes);
  while (read.size() < noise.size()) {
    appended += Fill(std::span(noise).subspan(appended));
    ASSERT_LE(budget_->spool_bytes_in_use(), static_cast<int64_t>(4 * kBodyBlockBytes));
    const absl::StatusOr<size_t> n = queue_->Read(piece);
    ASSERT_TRUE(n.ok()) << n.status();
    read.insert(read.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*n));
  }
  EXPECT_EQ(read, noise);
}

TEST_F(BodyQueueTest, AppendingAndReadingAtOnce) {
  Open(2, 4, 8);
  const std::vector<uint8_t> noise = Noise(size_t{30} << 20);
  std::thread writer([&] {
    std::mt19937 random(2);
    for (size_t at = 0; at < noise.size();) {
      const size_t n = std::min<size_t>(1 + random() % 100'000, noise.size() - at);
      at += queue_->Append(std::span(noise).subspan(at, n));
    }
    queue_->End();
  });
  EXPECT_EQ(ReadAll(*queue_, 70'001), noise);
  writer.join();
}

TEST_F(BodyQueueTest, AFullDiskFailsThisBodyAlone) {
  Open(1, 10, 100);
  budget_ = std::make_shared<BodyBudget>(BodyBudgetOptions{.memory_bytes_per_body = kBodyBlockBytes,
                                                           .spool_dir = "/nowhere/at/all",
                                                           .spool_bytes = 100 * kBodyBlockBytes},
                                         disk_);
  queue_ = NewQueue();
  const std::vector<uint8_t> noise = Noise(10 * kBodyBlockBytes);
  EXPECT_EQ(Fill(noise), noise.size());  // and drops them
  std::vector<uint8_t> piece(100);
  const absl::Status status = queue_->Read(piece).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kOverloaded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("(spool-dir): No such file or directory"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/nowhere")));
  const std::shared_ptr<BodyQueue> other = NewQueue();
  EXPECT_EQ(other->Append(std::span(noise).first(100)), 100u);
  EXPECT_EQ(*other->Read(piece), 100u);
}

TEST_F(BodyQueueTest, FailEndsAWaitingRead) {
  Open(1, 1, 0);
  absl::Status status;
  std::thread reader([&] {
    uint8_t byte;
    status = queue_->Read({&byte, 1}).status();
  });
  queue_->Fail(absl::AbortedError("stalled"));
  reader.join();
  EXPECT_EQ(status, absl::AbortedError("stalled"));
  queue_->Fail(absl::CancelledError("later"));
  uint8_t byte;
  EXPECT_EQ(queue_->Read({&byte, 1}).status(), absl::AbortedError("stalled"));
  EXPECT_EQ(queue_->Append(Noise(1000)), 1000u);  // for nobody
}

TEST_F(BodyQueueTest, DestroyedWhileBlocksAreOnTheirWay) {
  Open(1, 10, 100);
  absl::Notification go;
  disk_->Post([&] { go.WaitForNotification(); });
  const std::vector<uint8_t> noise = Noise(kBodyBlockBytes);
  EXPECT_EQ(queue_->Append(noise), noise.size());
  EXPECT_EQ(queue_->Append(noise), 0u);
  EXPECT_EQ(budget_->spool_bytes_in_use(), static_cast<int64_t>(kBodyBlockBytes));
  queue_->Discard();
  queue_ = nullptr;
  go.Notify();
  AwaitDisk();
  AwaitDisk();
  EXPECT_EQ(budget_->spool_bytes_in_use(), 0);
}

}  // namespace
}  // namespace upscaled::server
