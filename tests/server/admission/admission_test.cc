#include "server/admission/admission.h"

#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/model/repository.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMemory = 1000;
constexpr int64_t kPixel = kQueuePixelCost;

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

TEST_F(AdmissionTest, ACallThatWaitsForASlowClientLosesItsSlotToAnother) {
  const Payer slow{.address = "10.0.0.1"}, other{.address = "10.0.0.2"};
  absl::Status told;
  const auto give_way = [&](const absl::Status& status) { told = status; };
  auto waiting = admission_.AdmitCall(100, slow, give_way);
  auto unending = admission_.AdmitCall(0, slow);  // nothing could end it
  auto working = admission_.AdmitCall(0, slow, give_way);
  ASSERT_TRUE(waiting.ok() && unending.ok() && working.ok());
  waiting->BeginWait();
  unending->BeginWait();
  clock_.Advance(kSlotPatience / 2);
  waiting->EndWait(/*bytes=*/kSlotBytes - 1);
  waiting->BeginWait();
  EXPECT_FALSE(admission_.CheckCall(other).ok());
  EXPECT_FALSE(admission_.AdmitCall(0, other).ok()) << "the client has some time left";
  clock_.Advance(kSlotPatience / 2);
  EXPECT_TRUE(admission_.CheckCall(other).ok());
  EXPECT_TRUE(told.ok()) << "asking takes nothing";

  EXPECT_FALSE(admission_.AdmitCall(kMemory, other).ok());
  EXPECT_TRUE(told.ok()) << "the other call gets no memory, and would have its slot for nothing";
  const auto next = admission_.AdmitCall(0, other);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(ReasonOf(told), ErrorReason::kOverloaded);
  EXPECT_TRUE(RetryDelayOf(told).has_value());
  EXPECT_THAT(std::string(told.message()), HasSubstr("less than 65536 bytes"));
  EXPECT_EQ(admission_.state().requests, 3);
  EXPECT_EQ(admission_.state().memory_bytes, 100) << "until it has ended";
  EXPECT_FALSE(admission_.AdmitCall(0, other).ok()) << "once";
  waiting->Release();
  EXPECT_EQ(admission_.state().requests, 3);
  EXPECT_EQ(admission_.state().memory_bytes, 0);
}

TEST_F(AdmissionTest, AClientThatMovesKeepsItsSlot) {
  bool told = false;
  auto slot = admission_.AdmitCall(0, {}, [&](const absl::Status&) { told = true; });
  const auto second = admission_.AdmitCall(), third = admission_.AdmitCall();
  for (int i = 0; i < 10; ++i) {
    slot->BeginWait();
    clock_.Advance(kSlotPatience * 0.9);
    EXPECT_FALSE(admission_.AdmitCall().ok());
    slot->EndWait(kSlotBytes);
  }
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(admission_.AdmitCall().ok()) << "it does not wait for its client";
  EXPECT_FALSE(told);
}

TEST_F(AdmissionTest, ACallThatGetsAStalledOnesSlotTakesNoMoment) {
  const auto ends = [](const absl::Status&) {};
  auto waiting = admission_.AdmitCall(0, {}, ends);
  const auto second = admission_.AdmitCall(), third = admission_.AdmitCall();
  waiting->BeginWait();
  clock_.Advance(kSlotPatience);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(admission_.CheckCall({}).ok());
  const auto next = admission_.AdmitCall();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(RetryDelayOf(admission_.CheckCall({})), kUnknownRetryDelay);
  EXPECT_GT(RetryDelayOf(admission_.AdmitCall().status()), kUnknownRetryDelay);
}

TEST_F(AdmissionTest, AReservationThatMayStayAsItIsTakesNoMoment) {
  const auto first = admission_.AdmitCall(), second = admission_.AdmitCall(),
             third = admission_.AdmitCall();
  auto reservation = *admission_.Reserve({.memory_bytes = 100});
  const auto other = *admission_.Reserve({.memory_bytes = 300, .scratch_bytes = 100});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(reservation.TryHold(601));
  EXPECT_EQ(admission_.state().memory_bytes, 400);
  EXPECT_TRUE(reservation.TryHold(600)) << "fits to the byte, with the scratch";
  EXPECT_EQ(admission_.state().memory_bytes, 900);
  EXPECT_TRUE(reservation.TryHold(50));
  EXPECT_EQ(admission_.state().memory_bytes, 350);
  EXPECT_EQ(RetryDelayOf(admission_.AdmitCall().status()), kUnknownRetryDelay);
  reservation.Release();
  EXPECT_EQ(admission_.state().memory_bytes, 300);
}

TEST_F(AdmissionTest, AReservationHoldsNoMoreThanItsAddressMay) {
  Limits limits = SmallLimits();
  limits.max_requests_per_address = 1;  // a third of the memory
  AdmissionController admission(limits, kMemory, clock_);
  auto reservation = *admission.Reserve({.memory_bytes = 100, .payer = {.address = "a"}});
  EXPECT_FALSE(reservation.TryHold(334));
  EXPECT_TRUE(reservation.TryHold(333));
  EXPECT_EQ(admission.state().memory_bytes, 333);
}

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

TEST_F(AdmissionTest, AnAddressHasAShareOfSlotsAndMemory) {
  Limits limits = SmallLimits();
  limits.max_requests_per_address = 2;
  AdmissionController admission(limits, kMemory, clock_);
  auto first = admission.AdmitCall(100, {.address = "a"});
  auto second = admission.AdmitCall(100, {.address = "a"});
  ASSERT_TRUE(first.ok() && second.ok());
  absl::Status refusal = admission.AdmitCall(0, {.address = "a"}).status();
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kOverloaded);
  EXPECT_TRUE(RetryDelayOf(refusal).has_value());
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("2 requests of this address"));
  EXPECT_EQ(MetadataOf(refusal)["limit"], "max-requests-per-address");

  // Two thirds of 1000 bytes, with 200 of them for the calls.
  auto memory = admission.Reserve({.memory_bytes = 466, .payer = {.address = "a"}});
  ASSERT_TRUE(memory.ok()) << memory.status();
  refusal = admission.Reserve({.memory_bytes = 1, .payer = {.address = "a"}}).status();
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kOverloaded);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("666"));
  refusal = admission.Reserve({.memory_bytes = 667, .payer = {.address = "a"}}).status();
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kLimitExceeded);

  auto other = admission.AdmitCall(100, {.address = "b"});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(admission.Reserve({.memory_bytes = 200, .payer = {.address = "b"}}).ok());
  second->Release();
  EXPECT_TRUE(admission.AdmitCall(100, {.address = "a"}).ok());
}

TEST_F(AdmissionTest, MemoryMovesToAnotherAddressThatHasRoom) {
  Limits limits = SmallLimits();
  limits.max_requests_per_address = 1;  // a third of the memory
  AdmissionController admission(limits, kMemory, clock_);
  const auto reserve = [&](const char* address, int64_t bytes) {
    return admission.Reserve({.memory_bytes = bytes, .payer = {.address = address}});
  };
  auto shared = reserve("a", 300);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_FALSE(reserve("a", 300).ok());
  shared->ChargeMemoryTo("b");
  EXPECT_EQ(shared->payer().address, "b");
  auto own = reserve("a", 300);
  EXPECT_TRUE(own.ok()) << own.status();
  EXPECT_FALSE(reserve("b", 300).ok());
  shared->ChargeMemoryTo("a");
  EXPECT_EQ(shared->payer().address, "b") << "a has no room for it";
  EXPECT_EQ(admission.state().memory_bytes, 600);
  shared->Release();
  EXPECT_TRUE(reserve("b", 300).ok());
}

TEST_F(AdmissionTest, MemoryIsReservedUntilTheReservationGoes) {
  auto first = admission_.Reserve({.memory_bytes = 600, .cost = 10 * kPixel});
  ASSERT_TRUE(first.ok());
  const absl::Status refusal =
      admission_.Reserve({.memory_bytes = 401, .cost = 10 * kPixel}).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kOverloaded);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("needs 401 bytes of memory, and 400 of 1000 are free"));
  EXPECT_EQ(admission_.state().memory_bytes, 600) << "a refusal reserves nothing";

  auto second = admission_.Reserve({.memory_bytes = 400, .cost = 10 * kPixel});
  ASSERT_TRUE(second.ok()) << "fits to the byte";
  AdmissionController::Reservation reservation = *std::move(first);
  reservation = *std::move(second);  // frees what it held
  EXPECT_EQ(admission_.state().memory_bytes, 400);
  EXPECT_EQ(admission_.state().queue_cost, 10 * kPixel);
  reservation.Release();
  EXPECT_EQ(admission_.state().memory_bytes, 0);
  EXPECT_EQ(admission_.state().queue_cost, 0);
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

TEST_F(AdmissionTest, QueuedWorkShrinksWithProgress) {
  std::vector<AdmissionController::Reservation> others;
  for (int i = 0; i < 3; ++i) others.push_back(*admission_.Reserve({.cost = 100 * kPixel}));
  auto reservation = admission_.Reserve({.cost = 100 * kPixel});
  ASSERT_TRUE(reservation.ok());
  const absl::Status refusal = admission_.Reserve({.cost = 100 * kPixel + 1}).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MetadataOf(refusal)["limit"], "max-queue-pixels");
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("takes 101 of the queue's 500 pixels' work, and 100 are free"));
  reservation->ReportProgress(25 * kPixel);
  EXPECT_EQ(admission_.state().queue_cost, 375 * kPixel);
  reservation->ReportProgress(75 * kPixel);
  reservation->ReportProgress(50 * kPixel);  // late, and of no effect
  EXPECT_EQ(admission_.state().queue_cost, 325 * kPixel);
  EXPECT_TRUE(admission_.Reserve({.cost = 120 * kPixel}).ok());
  reservation->ReportProgress(100 * kPixel);
  EXPECT_EQ(admission_.state().queue_cost, 300 * kPixel);
  reservation->Release();
  reservation->ReportProgress(100 * kPixel);
  EXPECT_EQ(admission_.state().queue_cost, 300 * kPixel);
}

// However heavy a request is, it can be had, and leaves room for others.
TEST_F(AdmissionTest, OneRequestCountsAsAQuarterOfTheQueueAtMost) {
  auto heavy = admission_.Reserve({.cost = 10'000 * kPixel});
  ASSERT_TRUE(heavy.ok()) << heavy.status();
  EXPECT_EQ(admission_.state().queue_cost, 10'000 * kPixel) << "as it is";
  auto other = admission_.Reserve({.cost = 10'000 * kPixel});
  auto third = admission_.Reserve({.cost = 250 * kPixel});
  ASSERT_TRUE(other.ok() && third.ok());
  auto fourth = admission_.Reserve({.cost = 126 * kPixel});
  ASSERT_TRUE(fourth.ok());
  EXPECT_EQ(ReasonOf(admission_.Reserve({.cost = 1}).status()), ErrorReason::kOverloaded);
  heavy->ReportProgress(9'875 * kPixel);
  EXPECT_EQ(ReasonOf(admission_.Reserve({.cost = 1}).status()), ErrorReason::kOverloaded)
      << "what is left is a quarter still";
  heavy->ReportProgress(9'900 * kPixel);
  EXPECT_TRUE(admission_.Reserve({.cost = 25 * kPixel}).ok());
}

TEST_F(AdmissionTest, AReservationCanChange) {
  auto reservation = admission_.Reserve({.memory_bytes = 600, .cost = 100 * kPixel});
  ASSERT_TRUE(reservation.ok());
  EXPECT_TRUE(reservation->Change({.memory_bytes = 700, .cost = 50 * kPixel}).ok())
      << "what it holds is free for it";
  EXPECT_EQ(admission_.state().memory_bytes, 700);
  EXPECT_EQ(admission_.state().queue_cost, 50 * kPixel);
  auto other = admission_.Reserve({.memory_bytes = 300});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(ReasonOf(reservation->Change({.memory_bytes = 701})), ErrorReason::kOverloaded);
  EXPECT_EQ(admission_.state().memory_bytes, 1000) << "a refusal changes nothing";
  EXPECT_EQ(admission_.state().queue_cost, 50 * kPixel);
  reservation->Release();
  EXPECT_EQ(admission_.state().memory_bytes, 300);
  EXPECT_EQ(admission_.state().queue_cost, 0);
}

TEST_F(AdmissionTest, TheQueuesUnitIsAPixelOfTheDefaultModel) {
  const ModelRepository repository = *ModelRepository::Open({"engine/model/bundled"});
  const ModelCard& card = **repository.Find("general-2x");
  const Network network = *LoadNetwork(card, *card.Find(2, kNoDenoise));
  const double multiply_adds = 4 * network.MacsPerOutputPixel();
  EXPECT_GT(kQueuePixelCost, multiply_adds) << "a tile has a halo";
  EXPECT_LT(kQueuePixelCost, 1.15 * multiply_adds);
}

TEST_F(AdmissionTest, WhatNeverFitsIsNoOverload) {
  const absl::Status status = admission_.Reserve({.memory_bytes = 1001}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded);
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("needs 1001 bytes of memory, the device's scratch included, more than the "
                        "server's 1000"));
}

TEST_F(AdmissionTest, MoreForARequestIsComputedAfterWhatItHas) {
  auto call = *admission_.Reserve({});
  auto first = *call.ReserveMore({.memory_bytes = 600, .cost = 100});
  const auto second = *call.ReserveMore({.memory_bytes = 400, .cost = 30});
  const auto other = *admission_.Reserve({.cost = 50});
  EXPECT_EQ(call.ReserveMore({.memory_bytes = 1}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(second.CostAhead(), 100 + 50);
  EXPECT_EQ(other.CostAhead(), 50) << "of the call's as much as its own";
  first.ReportProgress(80);
  EXPECT_EQ(second.CostAhead(), 20 + 50);
  call.Release(), first.Release();
  EXPECT_EQ(second.CostAhead(), 30) << "of the other as much as its own";
}

TEST_F(AdmissionTest, TellsTheQueuesOfDeviceClasses) {
  auto first = *admission_.Reserve({.cost = 100, .device_class = 1});
  auto second = *admission_.Reserve({.cost = 20});  // for none, as long as nobody has chosen one
  ASSERT_TRUE(second.Change({.cost = 30, .device_class = 1}).ok());
  const auto third = *admission_.Reserve({.cost = 7, .device_class = 0});
  EXPECT_THAT(admission_.state().class_queue_costs, ElementsAre(7, 130));
  first.ReportProgress(40);
  EXPECT_THAT(admission_.state().class_queue_costs, ElementsAre(7, 90));
  ASSERT_TRUE(second.Change({.cost = 50, .device_class = 0}).ok());
  EXPECT_THAT(admission_.state().class_queue_costs, ElementsAre(57, 60));
  first.Release(), second.Release();
  EXPECT_THAT(admission_.state().class_queue_costs, ElementsAre(7, 0));
}

TEST_F(AdmissionTest, RetryDelayFollowsTheThroughput) {
  std::vector<AdmissionController::Reservation> all;
  for (int i = 0; i < 5; ++i) all.push_back(*admission_.Reserve({.cost = 100 * kPixel}));
  clock_.Advance(absl::Seconds(10));
  all.front().ReportProgress(100 * kPixel);  // 10 pixels a second
  EXPECT_NEAR(absl::ToDoubleSeconds(admission_.state().queue_time), 40, 0.01);
  // 120 - (500 - 400) = 20 too many
  auto delay = RetryDelayOf(admission_.Reserve({.cost = 120 * kPixel}).status());
  ASSERT_TRUE(delay.has_value());
  EXPECT_NEAR(absl::ToDoubleSeconds(*delay), 2, 0.01);
  clock_.Advance(absl::Seconds(1000));
  all.back().ReportProgress(kPixel);  // a pixel in 1000 s
  EXPECT_EQ(RetryDelayOf(admission_.Reserve({.cost = 120 * kPixel}).status()), absl::Seconds(30));
}

TEST_F(AdmissionTest, ASlotIsFreeWhenTheFirstCallHasItsShare) {
  const Payer a{.address = "a"}, b{.address = "b"};
  std::vector<AdmissionController::CallSlot> slots;
  for (const Payer& payer : {a, a, b}) slots.push_back(*admission_.AdmitCall(0, payer));
  const auto reserve = [&](const Payer& payer, int64_t pixels) {
    return *admission_.Reserve({.cost = pixels * kPixel, .payer = payer});
  };
  auto small = reserve(a, 30), large = reserve(a, 100), other = reserve(b, 50);
  const auto delay = [&] { return RetryDelayOf(admission_.AdmitCall().status()); };
  EXPECT_EQ(delay(), absl::Seconds(1)) << "nothing is known about the speed";
  clock_.Advance(absl::Seconds(1));
  small.ReportProgress(10 * kPixel);  // 10 pixels a second
  EXPECT_EQ(delay(), absl::Seconds(8)) << "as both of a's get 20, and the other one 40";
  small.Release();
  clock_.Advance(absl::Seconds(8));  // the moment that was given to the last caller
  EXPECT_EQ(delay(), absl::Seconds(10)) << "when both payers have had 50";
}

TEST_F(AdmissionTest, DrainingRefusesCallsAndFinishesTheAdmitted) {
  auto slot = admission_.AdmitCall();
  ASSERT_TRUE(slot.ok());
  admission_.StartDraining();
  const absl::Status refusal = admission_.AdmitCall().status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refusal), ErrorReason::kDraining);
  EXPECT_TRUE(admission_.Reserve({.memory_bytes = 1, .cost = 1}).ok());
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
                                .cost = static_cast<int64_t>(random() % 125) * kPixel});
        ++(slot.ok() && reservation.ok() ? admitted : refused);
        const AdmissionState state = admission_.state();
        EXPECT_LE(state.requests, 3);
        EXPECT_LE(state.memory_bytes, kMemory);
        EXPECT_LE(state.queue_cost, 500 * kPixel);
        if (reservation.ok()) reservation->ReportProgress(random() % 125 * kPixel);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(admitted, 0);
  EXPECT_EQ(admission_.state().requests, 0);
  EXPECT_EQ(admission_.state().memory_bytes, 0);
  EXPECT_EQ(admission_.state().queue_cost, 0);
}

}  // namespace
}  // namespace upscaled::server
