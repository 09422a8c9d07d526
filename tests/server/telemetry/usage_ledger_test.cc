#include "server/telemetry/usage_ledger.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

const absl::CivilDay kDay(2026, 11, 23);

absl::Time At(absl::CivilSecond utc) { return absl::FromCivil(utc, absl::UTCTimeZone()); }

RequestRecord CallOf(const std::string& tenant, absl::StatusCode code = absl::StatusCode::kOk) {
  RequestRecord record;
  record.tenant = tenant;
  record.code = code;
  record.cost = 1000;
  record.received_bytes = 10;
  record.sent_bytes = 20;
  record.source_pixels = 3;
  record.result_pixels = 12;
  return record;
}

class UsageLedgerTest : public ::testing::Test {
 protected:
  std::unique_ptr<UsageLedger> Open() {
    auto ledger = UsageLedger::Open(
        timer_, file_, [this](const absl::Status& failure) { failures_.push_back(failure); });
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    return *std::move(ledger);
  }
  static std::vector<UsageRow> Read(UsageLedger& ledger, const UsageQuery& query) {
    auto rows = ledger.Read(query);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return *std::move(rows);
  }

  Timer timer_;
  client::TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "usage.db";
  std::vector<absl::Status> failures_;  // of the ledger's thread; to be read when that is gone
};

TEST_F(UsageLedgerTest, AddsUpByTenantAndDayOfUtc) {
  const auto ledger = Open();
  ledger->Add(CallOf("shop"), At(absl::CivilSecond(2026, 11, 23, 23, 59, 59)));
  ledger->Add(CallOf("shop", absl::StatusCode::kResourceExhausted), At(kDay));
  ledger->Add(CallOf("shop", absl::StatusCode::kInvalidArgument), At(kDay));
  ledger->Add(CallOf("shop"), At(kDay + 1));
  ledger->Add(CallOf("bank"), At(kDay));
  const auto rows = Read(*ledger, {kDay, kDay + 1});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].key, (UsageKey{kDay, "bank"}));
  EXPECT_EQ(rows[1].key, (UsageKey{kDay, "shop"}));
  EXPECT_EQ(rows[1].usage, (Usage{.calls = 3,
                                  .refusals = 1,
                                  .cost = 3000,
                                  .received_bytes = 30,
                                  .sent_bytes = 60,
                                  .source_pixels = 9,
                                  .result_pixels = 36}));
  EXPECT_EQ(rows[2].key, (UsageKey{kDay + 1, "shop"}));
}

TEST_F(UsageLedgerTest, GivesTheDaysAndTheTenantThatAreAskedFor) {
  const auto ledger = Open();
  for (int day = 0; day < 5; ++day) {
    for (const char* tenant : {"", "bank", "shop"}) ledger->Add(CallOf(tenant), At(kDay + day));
  }
  EXPECT_EQ(Read(*ledger, {kDay + 1, kDay + 3}).size(), 9u);
  const auto rows = Read(*ledger, {kDay + 1, kDay + 3, "shop"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].key, (UsageKey{kDay + 1, "shop"}));
  EXPECT_EQ(Read(*ledger, {kDay + 3, kDay + 1}).size(), 0u);
  EXPECT_EQ(Read(*ledger, {kDay, kDay, "' OR 1=1 --"}).size(), 0u);
}

TEST_F(UsageLedgerTest, GoesOnAfterARestart) {
  for (int run = 0; run < 3; ++run) Open()->Add(CallOf("shop"), At(kDay));
  const auto rows = Read(*Open(), {kDay, kDay});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].usage.calls, 3);
  struct stat state = {};
  ASSERT_EQ(stat(file_.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, mode_t{0600});
}

TEST_F(UsageLedgerTest, LosesNoCallOfManyThreads) {
  constexpr int kThreads = 4, kCalls = 1000;
  const auto ledger = Open();
  std::vector<std::thread> callers;
  for (int i = 0; i < kThreads; ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        ledger->Add(CallOf("shop"), At(kDay));
        if (call % 100 == 0) Read(*ledger, {kDay, kDay});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(Read(*ledger, {kDay, kDay})[0].usage.calls, kThreads * kCalls);
}

// Files of this process cannot be written while it lives.
class FullDisk {
 public:
  FullDisk() {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none = {.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST_F(UsageLedgerTest, WhatADiskDoesNotTakeIsWrittenLater) {
  const auto ledger = Open();
  {
    const FullDisk full;
    ledger->Add(CallOf("shop"), At(kDay));
    EXPECT_FALSE(ledger->Read({kDay, kDay}).ok());
    ledger->Add(CallOf("shop"), At(kDay));
    EXPECT_FALSE(ledger->Read({kDay, kDay}).ok());
  }
  EXPECT_EQ(Read(*ledger, {kDay, kDay})[0].usage.calls, 2);
}

TEST_F(UsageLedgerTest, OneProcessAtATime) {
  const auto first = Open();
  const auto second = UsageLedger::Open(timer_, file_, nullptr);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process has it open"));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(file_.string()));
}

TEST_F(UsageLedgerTest, MoreTenantsThanThereIsRoomForAreTold) {
  auto ledger = Open();
  for (size_t i = 0; i < UsageLedger::kMaxWaiting + 7; ++i) {
    // Enough calls to outrun the writer, since it empties the map periodically.
    for (int day = 0; day < 3; ++day) {
      ledger->Add(CallOf("t" + std::to_string(i)), At(kDay + day));
    }
  }
  ledger.reset();
  ASSERT_FALSE(failures_.empty());
  EXPECT_THAT(std::string(failures_.front().message()), HasSubstr("tenants wait to be written"));
}

TEST_F(UsageLedgerTest, ADamagedFileIsSaidSo) {
  client::WriteText(file_, std::string(8192, 'x'));
  const auto ledger = UsageLedger::Open(timer_, file_, nullptr);
  EXPECT_EQ(ledger.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ledger.status().message()), HasSubstr(file_.string()));
}

}  // namespace
}  // namespace upscaled::server
