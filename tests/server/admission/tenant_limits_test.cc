// The effect of tenants' limits on calls and on their work, by the clock.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/admission/admission.h"
#include "server/base/error.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kOnePixel = kQueuePixelCost;

Payer PayerWith(const TenantLimits& limits, const std::string& address = "10.0.0.1") {
  return {.address = address,
          .tenant = limits.tenant,
          .limits = std::make_shared<TenantLimits>(limits)};
}

class TenantLimitsTest : public ::testing::Test {
 protected:
  absl::StatusOr<AdmissionController::Reservation> Reserve(const Payer& payer, int64_t pixels) {
    return admission_.Reserve({.cost = pixels * kOnePixel, .payer = payer});
  }
  // Computes the others' queued work at a speed of `pixels` a second, to make the speed known.
  void LearnSpeed(int64_t pixels) {
    auto work = Reserve({.address = "somebody"}, pixels);
    ASSERT_TRUE(work.ok()) << work.status();
    clock_.Advance(absl::Seconds(1));
    work->ReportProgress(pixels * kOnePixel);
  }
  static void ExpectRefusal(const absl::Status& refusal, const std::string& limit,
                            const std::string& maximum, const std::string& message) {
    EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted) << refusal;
    EXPECT_EQ(ReasonOf(refusal), ErrorReason::kOverloaded);
    EXPECT_THAT(std::string(refusal.message()), HasSubstr(message));
    EXPECT_THAT(std::string(refusal.message()), HasSubstr("\"shop\""));
    const ErrorMetadata metadata = MetadataOf(refusal);
    EXPECT_EQ(metadata.at("limit"), limit);
    EXPECT_EQ(metadata.at("maximum"), maximum);
    EXPECT_EQ(metadata.at("tenant"), "shop");
  }

  FakeClock clock_;
  AdmissionController admission_{Limits(), int64_t{1} << 30, clock_};
};

TEST_F(TenantLimitsTest, CallsAtATimeOverAllAddresses) {
  const TenantLimits limits{.tenant = "shop", .max_calls = 2};
  auto first = admission_.AdmitCall(0, PayerWith(limits, "10.0.0.1"));
  auto second = admission_.AdmitCall(0, PayerWith(limits, "10.0.0.2"));
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status refusal = admission_.AdmitCall(0, PayerWith(limits, "10.0.0.3")).status();
  ExpectRefusal(refusal, "tenant.calls", "2", "has 2 calls running");
  EXPECT_EQ(RetryDelayOf(refusal), absl::Seconds(1));
  EXPECT_TRUE(admission_.AdmitCall(0, PayerWith({.tenant = "other", .max_calls = 1})).ok());
  EXPECT_TRUE(admission_.AdmitCall(0, {.address = "10.0.0.1"}).ok());
  first->Release();
  EXPECT_TRUE(admission_.AdmitCall(0, PayerWith(limits)).ok());
}

TEST_F(TenantLimitsTest, CallsAtATimeWithTheTimeUntilOneEnds) {
  LearnSpeed(1000);
  const Payer shop = PayerWith({.tenant = "shop", .max_calls = 2});
  auto first = admission_.AdmitCall(0, shop), second = admission_.AdmitCall(0, shop);
  auto small = Reserve(shop, 500), large = Reserve(shop, 4000);
  ASSERT_TRUE(first.ok() && second.ok() && small.ok() && large.ok());
  const auto delay = [&] { return RetryDelayOf(admission_.AdmitCall(0, shop).status()); };
  EXPECT_EQ(delay(), absl::Seconds(1)) << "both get as much until the smaller one ends";
  {
    auto other = Reserve(PayerWith({.tenant = "other", .weight = 3}), 100'000);
    EXPECT_EQ(delay(), absl::Seconds(4)) << "which has its share meanwhile";
  }
  clock_.Advance(absl::Seconds(1));
  for (auto* work : {&*small, &*large}) work->ReportProgress(500 * kOnePixel);
  small->Release();
  first->Release();
  EXPECT_TRUE(admission_.AdmitCall(0, shop).ok());
  auto third = admission_.AdmitCall(0, shop);
  EXPECT_EQ(delay(), absl::Milliseconds(3500)) << "as nothing is known of what the third one needs";
}

TEST_F(TenantLimitsTest, DelaysGoByTheSpeedOfWhatIsThereAndThenByTheTenantsOwn) {
  LearnSpeed(1000);
  const Payer shop = PayerWith({.tenant = "shop", .max_calls = 1, .max_queue_pixels = 100});
  const auto call = admission_.AdmitCall(0, shop);
  auto work = Reserve(shop, 3000);
  const auto expect = [&](absl::Duration for_call, absl::Duration for_work) {
    EXPECT_EQ(RetryDelayOf(admission_.AdmitCall(0, shop).status()), for_call);
    EXPECT_EQ(RetryDelayOf(Reserve(shop, 50).status()), for_work);
  };
  expect(absl::Seconds(3), absl::Milliseconds(2950));
  ASSERT_TRUE(
      work->Change({.cost = 3000 * kOnePixel, .speed = 500.0 * kOnePixel, .payer = shop}).ok());
  expect(absl::Seconds(6), absl::Milliseconds(5900));
  auto other = admission_.Reserve({.cost = 3000 * kOnePixel, .speed = 1500.0 * kOnePixel});
  expect(absl::Seconds(8), absl::Milliseconds(7867));  // half of it, which is faster
  clock_.Advance(absl::Milliseconds(150));
  work->ReportProgress(150 * kOnePixel);
  expect(absl::Milliseconds(7503), absl::Milliseconds(7371));  // too short to be measured
  clock_.Advance(absl::Milliseconds(850));
  work->ReportProgress(1000 * kOnePixel);
  expect(absl::Seconds(2), absl::Milliseconds(1950));  // whatever others have
}

TEST_F(TenantLimitsTest, ATenantsOwnSpeedIsOfTheTimeInWhichItHadWork) {
  const Payer shop = PayerWith({.tenant = "shop", .max_queue_pixels = 100});
  {
    auto work = Reserve(shop, 200);
    clock_.Advance(absl::Seconds(2));
    work->ReportProgress(200 * kOnePixel);
  }
  clock_.Advance(absl::Hours(1));
  auto work = Reserve(shop, 500);
  EXPECT_EQ(RetryDelayOf(Reserve(shop, 50).status()), absl::Milliseconds(4500));
  // A lower speed is soon known.
  for (int i = 1; i <= 20; ++i) {
    clock_.Advance(absl::Seconds(1));
    work->ReportProgress(10 * i * kOnePixel);
  }
  EXPECT_NEAR(absl::ToDoubleSeconds(*RetryDelayOf(Reserve(shop, 50).status())), 25, 2.5);
}

TEST_F(TenantLimitsTest, WhatATenantHadBeforeAPauseIsSoonOutweighed) {
  const Payer shop = PayerWith({.tenant = "shop", .max_queue_pixels = 100});
  {
    auto work = Reserve(shop, 10'000);
    clock_.Advance(absl::Seconds(10));
    work->ReportProgress(10'000 * kOnePixel);
  }
  clock_.Advance(absl::Seconds(1));
  auto work = Reserve(shop, 5000);
  const auto delay_s = [&] {
    return absl::ToDoubleSeconds(*RetryDelayOf(Reserve(shop, 100).status()));
  };
  EXPECT_NEAR(delay_s(), 5, 0.01) << "it is known at once, by what was";
  clock_.Advance(absl::Seconds(1));
  work->ReportProgress(500 * kOnePixel);  // beside others now
  EXPECT_NEAR(delay_s(), 8, 0.1) << "9 by this second alone, 4.5 by what was before";
}

TEST_F(TenantLimitsTest, CallsWithNothingQueuedAreTakenToBeLikeTheLastOne) {
  const Payer shop = PayerWith({.tenant = "shop", .max_calls = 1});
  {
    const auto call = admission_.AdmitCall(0, shop);
    clock_.Advance(absl::Seconds(4));
  }
  const auto call = admission_.AdmitCall(0, shop);
  const auto delay = [&] { return RetryDelayOf(admission_.AdmitCall(0, shop).status()); };
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(delay(), absl::Seconds(3));
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(delay(), absl::Milliseconds(200)) << "it is slower";
}

TEST_F(TenantLimitsTest, ACallOfBeforeTheLimitsDoesNotPayOffWhatOthersOwe) {
  const Payer old = PayerWith({.tenant = "shop"});
  const Payer limited = PayerWith({.tenant = "shop", .pixels_per_second = 10});
  const auto spent = Reserve(limited, 100'000);
  ASSERT_TRUE(spent.ok());
  ASSERT_FALSE(Reserve(limited, 1).ok());
  EXPECT_TRUE(Reserve(old, 1).ok());
  EXPECT_FALSE(Reserve(limited, 1).ok());
}

TEST_F(TenantLimitsTest, QueuedWorkWithTheTimeUntilItFits) {
  LearnSpeed(1000);
  const Payer shop = PayerWith({.tenant = "shop", .max_queue_pixels = 100});
  auto large = Reserve(shop, 300);
  ASSERT_TRUE(large.ok()) << "what is alone can be had, or it never could";
  ExpectRefusal(Reserve(shop, 1).status(), "tenant.queue_pixels", "100",
                "has 300 pixels' work queued, and the request would add 1");
  EXPECT_TRUE(Reserve(PayerWith({.tenant = "other", .max_queue_pixels = 100}), 100).ok());
  large->Release();

  auto half = Reserve(shop, 60);
  ASSERT_TRUE(half.ok());
  const absl::Status alone = Reserve(shop, 90).status();
  EXPECT_EQ(RetryDelayOf(alone), absl::Milliseconds(50)) << "50 pixels are too many";
  // Another one has its share meanwhile.
  auto other = Reserve(PayerWith({.tenant = "other", .weight = 3}), 100'000);
  EXPECT_EQ(RetryDelayOf(Reserve(shop, 90).status()), absl::Milliseconds(200));
  half->ReportProgress(50 * kOnePixel);
  EXPECT_TRUE(Reserve(shop, 90).ok());
}

TEST_F(TenantLimitsTest, WorkASecondComesBackExactlyWhenItSays) {
  const Payer shop = PayerWith({.tenant = "shop", .pixels_per_second = 100});
  // One second's worth is kept; the last one goes into debt.
  ASSERT_TRUE(Reserve(shop, 90).ok()) << "is given back, as it is not computed";
  for (const int64_t pixels : {90, 260}) {
    auto work = Reserve(shop, pixels);
    ASSERT_TRUE(work.ok()) << work.status();
    work->ReportProgress(pixels * kOnePixel);
  }
  const absl::Status refusal = Reserve(shop, 7).status();
  ExpectRefusal(refusal, "tenant.pixels_per_second", "100", "for 2.5s to come, and the request");
  const absl::Duration delay = RetryDelayOf(refusal).value();
  EXPECT_EQ(delay, absl::Milliseconds(2500));
  EXPECT_TRUE(Reserve(PayerWith({.tenant = "other", .pixels_per_second = 100}), 7).ok());
  clock_.Advance(delay - absl::Milliseconds(1));
  EXPECT_EQ(RetryDelayOf(Reserve(shop, 7).status()), absl::Milliseconds(1));
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Reserve(shop, 1'000'000).ok()) << "no image is too large for a rate";
}

TEST_F(TenantLimitsTest, AChangedReservationPaysForWhatItBecomes) {
  const Payer shop = PayerWith({.tenant = "shop", .pixels_per_second = 100});
  auto work = Reserve(shop, 1);
  ASSERT_TRUE(work.ok());
  ASSERT_TRUE(work->Change({.cost = 300 * kOnePixel, .payer = shop}).ok());
  EXPECT_EQ(RetryDelayOf(Reserve(shop, 1).status()), absl::Seconds(2));
  work->ReportProgress(200 * kOnePixel);
  work->Release();  // it paid for what is computed
  EXPECT_EQ(RetryDelayOf(Reserve(shop, 1).status()), absl::Seconds(1));
  EXPECT_EQ(admission_.state().queue_cost, 0);
}

TEST_F(TenantLimitsTest, BytesASecondAreRefusedWithTheNextCall) {
  const Payer shop = PayerWith({.tenant = "shop", .bytes_per_second = 1000});
  EXPECT_TRUE(admission_.Receive(shop, 1'000).ok()) << "one second's worth";
  EXPECT_TRUE(admission_.Receive(shop, 4'000).ok()) << "there was no debt when they came";
  ExpectRefusal(admission_.Receive(shop, 1), "tenant.bytes_per_second", "1000",
                "has sent more bytes than it may a second, for 4s to come");
  const absl::Status refusal = admission_.AdmitCall(0, shop).status();
  ExpectRefusal(refusal, "tenant.bytes_per_second", "1000", "for 4.001s to come");
  EXPECT_EQ(RetryDelayOf(refusal), absl::Milliseconds(4001));
  EXPECT_EQ(admission_.CheckCall(shop), refusal) << "before its body comes";
  EXPECT_TRUE(admission_.AdmitCall(0, PayerWith({.tenant = "other"})).ok());
  clock_.Advance(absl::Milliseconds(4001));
  EXPECT_TRUE(admission_.AdmitCall(0, shop).ok());
}

TEST_F(TenantLimitsTest, NewLimitsHoldForWhatATenantHas) {
  const auto limits = [](int64_t calls, int64_t per_second) {
    return PayerWith({.tenant = "shop", .max_calls = calls, .pixels_per_second = per_second});
  };
  auto call = admission_.AdmitCall(0, limits(1, 100));
  auto work = Reserve(limits(1, 100), 300);
  ASSERT_TRUE(call.ok() && work.ok());
  work->ReportProgress(300 * kOnePixel);
  EXPECT_FALSE(admission_.AdmitCall(0, limits(1, 100)).ok());
  EXPECT_TRUE(admission_.AdmitCall(0, limits(2, 100)).ok());
  EXPECT_EQ(RetryDelayOf(Reserve(limits(1, 100), 1).status()), absl::Seconds(2));
  EXPECT_EQ(RetryDelayOf(Reserve(limits(1, 400), 1).status()), absl::Milliseconds(500));
  EXPECT_TRUE(Reserve(limits(1, TenantLimits::kNone), 1).ok());
}

TEST_F(TenantLimitsTest, WhatIsAheadIsAShareOfWhatOthersHave) {
  auto other = Reserve(PayerWith({.tenant = "other", .weight = 2}), 1000);
  auto own = Reserve(PayerWith({.tenant = "shop"}), 30);
  ASSERT_TRUE(other.ok() && own.ok());
  EXPECT_EQ(own->CostAhead(), 60 * kOnePixel);
  EXPECT_EQ(other->CostAhead(), 500 * kOnePixel);
}

}  // namespace
}  // namespace upscaled::server
