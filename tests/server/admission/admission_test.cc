#include "server/admission/admission.h"

#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMemory = 1000;

class AdmissionTest : public ::testing::Test {
 protected:
  static Limits SmallLimits() {
    Limits limits;
    limits.max_concurrent_requests = 3;
    limits.max_queue_pixels = 500;
    return limits;
  }

  FakeClock clock_;
  AdmissionController admission_{SmallLimits(), kMemory, clock_};
};

TEST_F(AdmissionTest, SlotsAreBoundedAndComeBack) {
  std::vector<AdmissionController::CallSlot> slots;
  for (int i = 0; i < 3; ++i) {
    auto slot = admission_.AdmitCall();
    ASSERT_TRUE(slot.ok()) << slot.status();
    slots.push_back(*std::move(slot));
  }
  EXPECT_EQ(admission_.state().requests, 3);
  const absl::Status refusal = admission_.AdmitCall().status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kOverloaded);
  EXPECT_EQ(RetryDelayOf(refusal), absl::Seconds(1)) << "nothing is known about the speed";
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("busy with 3 requests"));
  EXPECT_EQ(MetadataOf(refusal)["limit"], "max-concurrent-requests");

  AdmissionController::CallSlot moved = std::move(slots.back());
  slots.pop_back();
  EXPECT_EQ(admission_.state().requests, 3) << "a moved slot is still taken";
  moved.Release();
  moved.Release();
  EXPECT_EQ(admission_.state().requests, 2);
  EXPECT_TRUE(admission_.AdmitCall().ok());
  EXPECT_EQ(admission_.state().requests, 2) << "a dropped slot is free";
}

TEST_F(AdmissionTest, MemoryIsReservedUntilTheTicketGoes) {
  auto first = admission_.Reserve({.memory_bytes = 600, .source_pixels = 10});
  ASSERT_TRUE(first.ok());
  const absl::Status refusal =
      admission_.Reserve({.memory_bytes = 401, .source_pixels = 10}).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kOverloaded);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("needs 401 bytes of memory, and 400 of 1000 are free"));
  EXPECT_EQ(admission_.state().memory_bytes, 600) << "a refusal reserves nothing";

  auto second = admission_.Reserve({.memory_bytes = 400, .source_pixels = 10});
  ASSERT_TRUE(second.ok()) << "fits to the byte";
  AdmissionController::Reservation reservation = *std::move(first);
  reservation = *std::move(second);  // frees what it held
  EXPECT_EQ(admission_.state().memory_bytes, 400);
  EXPECT_EQ(admission_.state().queue_pixels, 10);
  reservation.Release();
  EXPECT_EQ(admission_.state().memory_bytes, 0);
  EXPECT_EQ(admission_.state().queue_pixels, 0);
}

TEST_F(AdmissionTest, CallsReserveTheMemoryOfTheirMessages) {
  auto first = admission_.AdmitCall(600);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(admission_.state().memory_bytes, 600);
  const absl::Status refusal = admission_.AdmitCall(401).status();
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kOverloaded);
  EXPECT_EQ(MetadataOf(refusal)["limit"], "memory-budget");
  EXPECT_EQ(admission_.state().requests, 1) << "a refusal takes no slot";
  EXPECT_EQ(ReasonOf(admission_.Reserve({.memory_bytes = 401}).status()), ErrorReason::kOverloaded);
  AdmissionController::CallSlot moved = *std::move(first);
  EXPECT_EQ(admission_.state().memory_bytes, 600);
  moved.Release();
  EXPECT_EQ(admission_.state().memory_bytes, 0);
  EXPECT_EQ(ReasonOf(admission_.AdmitCall(1001).status()), ErrorReason::kLimitExceeded);
}

TEST_F(AdmissionTest, ScratchIsSharedAndStays) {
  ASSERT_TRUE(admission_.Reserve({.memory_bytes = 100, .scratch_bytes = 300}).ok());
  EXPECT_EQ(admission_.state().memory_bytes, 0) << "the reservation is gone";
  EXPECT_EQ(admission_.state().scratch_bytes, 300);
  auto smaller = admission_.Reserve({.memory_bytes = 600, .scratch_bytes = 200});
  ASSERT_TRUE(smaller.ok());
  EXPECT_EQ(admission_.state().scratch_bytes, 300);
  EXPECT_EQ(ReasonOf(admission_.Reserve({.memory_bytes = 101}).status()), ErrorReason::kOverloaded);
  EXPECT_EQ(ReasonOf(admission_.Reserve({.scratch_bytes = 401}).status()),
            ErrorReason::kOverloaded);
  EXPECT_EQ(admission_.state().scratch_bytes, 300) << "a refusal reserves nothing";
  EXPECT_TRUE(admission_.Reserve({.scratch_bytes = 400}).ok()) << "fits to the byte";
  smaller->Release();
  const absl::Status refusal = admission_.Reserve({.memory_bytes = 601}).status();
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kLimitExceeded) << "the scratch never goes";
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("needs 1001 bytes of memory"));
}

TEST_F(AdmissionTest, QueuedPixelsShrinkWithProgress) {
  auto reservation = admission_.Reserve({.source_pixels = 400});
  ASSERT_TRUE(reservation.ok());
  const absl::Status refusal = admission_.Reserve({.source_pixels = 101}).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("has 101 pixels, and the queue has room for 100 of 500"));
  reservation->ReportProgress(1, 4);
  EXPECT_EQ(admission_.state().queue_pixels, 300);
  reservation->ReportProgress(3, 4);
  reservation->ReportProgress(2, 4);  // late, and of no effect
  EXPECT_EQ(admission_.state().queue_pixels, 100);
  EXPECT_TRUE(admission_.Reserve({.source_pixels = 400}).ok());
  reservation->ReportProgress(4, 4);
  EXPECT_EQ(admission_.state().queue_pixels, 0);
  reservation->Release();
  reservation->ReportProgress(4, 4);
  EXPECT_EQ(admission_.state().queue_pixels, 0);
}

TEST_F(AdmissionTest, WhatNeverFitsIsNoOverload) {
  absl::Status status = admission_.Reserve({.memory_bytes = 1001}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded);
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("needs 1001 bytes of memory, the device's scratch included, more than the "
                        "server's 1000"));
  status = admission_.Reserve({.source_pixels = 501}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("501 pixels of queue"));
  EXPECT_EQ(MetadataOf(status)["maximum"], "500");
}

TEST_F(AdmissionTest, RetryDelayFollowsTheThroughput) {
  auto reservation = admission_.Reserve({.source_pixels = 400});
  ASSERT_TRUE(reservation.ok());
  clock_.Advance(absl::Seconds(10));
  reservation->ReportProgress(1, 4);  // 10 pixels a second
  // 400 - (500 - 300) = 200 too many
  const auto delay = RetryDelayOf(admission_.Reserve({.source_pixels = 400}).status());
  ASSERT_TRUE(delay.has_value());
  EXPECT_NEAR(absl::ToDoubleSeconds(*delay), 20, 0.01);
  clock_.Advance(absl::Seconds(100));
  reservation->ReportProgress(101, 400);  // a pixel in 100 s
  EXPECT_EQ(RetryDelayOf(admission_.Reserve({.source_pixels = 400}).status()), absl::Seconds(30));
}

TEST_F(AdmissionTest, DrainingRefusesCallsAndFinishesTheAdmitted) {
  auto slot = admission_.AdmitCall();
  ASSERT_TRUE(slot.ok());
  admission_.StartDraining();
  const absl::Status refusal = admission_.AdmitCall().status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kDraining);
  EXPECT_TRUE(admission_.Reserve({.memory_bytes = 1, .source_pixels = 1}).ok());
  EXPECT_FALSE(admission_.AwaitIdle(absl::ZeroDuration()));
  std::thread call([&] { slot->Release(); });
  EXPECT_TRUE(admission_.AwaitIdle(absl::InfiniteDuration()));
  call.join();
}

TEST_F(AdmissionTest, NothingLeaksUnderConcurrency) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::atomic<int> admitted = 0, refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (int i = 0; i < 500; ++i) {
        auto slot = admission_.AdmitCall();
        auto reservation =
            admission_.Reserve({.memory_bytes = static_cast<int64_t>(random() % 600),
                                .source_pixels = static_cast<int64_t>(random() % 300)});
        ++(slot.ok() && reservation.ok() ? admitted : refused);
        const AdmissionState state = admission_.state();
        EXPECT_LE(state.requests, 3);
        EXPECT_LE(state.memory_bytes, kMemory);
        EXPECT_LE(state.queue_pixels, 500);
        if (reservation.ok()) reservation->ReportProgress(random() % 5, 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(admitted, 0);
  EXPECT_EQ(admission_.state().requests, 0);
  EXPECT_EQ(admission_.state().memory_bytes, 0);
  EXPECT_EQ(admission_.state().queue_pixels, 0);
}

}  // namespace
}  // namespace upscaled::server
