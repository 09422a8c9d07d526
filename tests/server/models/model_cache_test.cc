#include "server/models/model_cache.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"
#include "server/base/error.h"
#include "tests/server/models/slow_backend.h"
#include "tests/support/fake_executable.h"

namespace upscaled::server {
namespace {

using test::SlowBackend;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelCacheTest : public ::testing::Test {
 protected:
  ModelCacheTest()
      : repository_(*ModelRepository::Open({"engine/model/bundled"})),
        card_(**repository_.Find("general-2x")) {}

  const ModelVariant& variant() const { return card_.variants.front(); }

  const ModelRepository repository_;
  const ModelCard& card_;
  SlowBackend backend_;
  ModelCache cache_{backend_};
};

TEST_F(ModelCacheTest, LoadsOnceForAllWhoAsk) {
  std::vector<std::shared_ptr<const Executable>> got(6);
  std::vector<std::thread> threads;
  for (auto& executable : got) {
    threads.emplace_back([&] { executable = *cache_.Get(card_, variant(), Precision::kExact); });
  }
  backend_.AwaitCompiling(1);
  EXPECT_EQ(cache_.loaded_count(), 0);
  backend_.Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(backend_.AwaitCompiling(1), 1);
  EXPECT_EQ(cache_.loaded_count(), 1);
  for (const auto& executable : got) EXPECT_EQ(executable, got.front());
}

TEST_F(ModelCacheTest, ALoadDoesNotBlockOthers) {
  std::thread slow([&] { EXPECT_TRUE(cache_.Get(card_, variant(), Precision::kExact).ok()); });
  backend_.AwaitCompiling(1);
  ModelVariant other = variant();
  other.noise_level = 3;  // another key
  const absl::Status status = cache_.Get(card_, other, Precision::kFast).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  backend_.Open();
  slow.join();
}

TEST_F(ModelCacheTest, TellsForHowLongADeviceCompiles) {
  EXPECT_EQ(cache_.CompilingFor(absl::Minutes(1)), absl::ZeroDuration());
  std::thread slow([&] { EXPECT_TRUE(cache_.Get(card_, variant(), Precision::kExact).ok()); });
  backend_.AwaitCompiling(1);
  EXPECT_EQ(cache_.CompilingFor(absl::Minutes(1)), absl::Minutes(1));
  EXPECT_EQ(cache_.CompilingFor(absl::Minutes(2)), absl::Minutes(3));
  backend_.Open();
  slow.join();
  EXPECT_EQ(cache_.CompilingFor(absl::Minutes(1)), absl::ZeroDuration());
}

TEST_F(ModelCacheTest, WaitingForAnothersLoadEndsWithTheCancellation) {
  std::thread slow([&] { EXPECT_TRUE(cache_.Get(card_, variant(), Precision::kExact).ok()); });
  backend_.AwaitCompiling(1);
  Cancellation cancellation;
  absl::Status waited;
  std::thread waiting(
      [&] { waited = cache_.Get(card_, variant(), Precision::kExact, &cancellation).status(); });
  cancellation.Cancel(absl::CancelledError("gone"));
  waiting.join();  // while the load goes on
  EXPECT_EQ(waited, absl::CancelledError("gone"));
  EXPECT_EQ(cache_.loaded_count(), 0);
  backend_.Open();
  slow.join();
  EXPECT_EQ(cache_.loaded_count(), 1);
}

TEST_F(ModelCacheTest, WithoutRoomTheLongestUnusedIsLoadedAgainWhenItIsAskedFor) {
  backend_.Open();
  ModelCache cache(backend_, 2 * test::FakeExecutable::kWeightBytes);
  const auto get = [&](int noise_level) {
    ModelVariant of_level = variant();
    of_level.noise_level = noise_level;  // another key
    return *cache.Get(card_, of_level, Precision::kExact);
  };
  const auto levels = [&] {
    std::vector<int> levels;
    for (const ModelCache::Loaded& loaded : cache.loaded()) levels.push_back(loaded.noise_level);
    return levels;
  };
  get(0);
  get(1);
  get(0);
  get(2);
  EXPECT_THAT(levels(), ElementsAre(0, 2));
  const auto held = get(0), held_too = get(1);
  EXPECT_THAT(levels(), ElementsAre(0, 1));
  EXPECT_EQ(backend_.AwaitCompiling(4), 4);
  const auto held_beyond = get(3);  // requests have what they run
  EXPECT_THAT(levels(), ElementsAre(0, 1, 3));
  EXPECT_EQ(get(0), held);
}

TEST_F(ModelCacheTest, WhatNobodyHoldsGoesWhenItMust) {
  constexpr int64_t kBytes = test::FakeExecutable::kWeightBytes;
  backend_.Open();
  ModelCache cache(backend_, 2 * kBytes);
  const auto get = [&](int noise_level) {
    ModelVariant of_level = variant();
    of_level.noise_level = noise_level;
    return cache.Get(card_, of_level, Precision::kExact);
  };
  auto held = *get(0), held_too = *get(1), held_beyond = *get(2);
  EXPECT_EQ(cache.DropUnused(/*all=*/true), 0);
  held_beyond = nullptr;
  EXPECT_EQ(cache.loaded_count(), 3) << "until somebody looks";
  EXPECT_EQ(cache.DropUnused(/*all=*/false), kBytes);
  held_too = nullptr;
  EXPECT_EQ(cache.DropUnused(/*all=*/false), 0);
  EXPECT_EQ(cache.DropUnused(/*all=*/true), kBytes);
  EXPECT_EQ(*get(0), held);
}

TEST_F(ModelCacheTest, UnusedWeightsMakeRoomForOthers) {
  backend_.Open();
  ModelVariant other = variant();
  other.noise_level = 3;  // another key
  ASSERT_TRUE(cache_.Get(card_, other, Precision::kExact).ok());
  backend_.RunOutOfMemory();
  EXPECT_TRUE(cache_.Get(card_, variant(), Precision::kExact).ok());
  ASSERT_EQ(cache_.loaded_count(), 1);
  EXPECT_EQ(cache_.loaded()[0].noise_level, variant().noise_level);
}

TEST_F(ModelCacheTest, FilesThatWereReplacedMustBeReloaded) {
  ModelVariant replaced = variant();
  replaced.files_state = std::make_shared<const std::string>("as they were");
  const absl::Status status = cache_.Get(card_, replaced, Precision::kExact).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kReloadFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("general-2x"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("must be reloaded"));
}

TEST_F(ModelCacheTest, AFailureIsNotKept) {
  for (int attempt = 1; attempt <= 2; ++attempt) {
    EXPECT_EQ(cache_.Get(card_, variant(), Precision::kFast).status().code(),
              absl::StatusCode::kUnimplemented);
    EXPECT_EQ(backend_.AwaitCompiling(attempt), attempt);
  }
  EXPECT_EQ(cache_.loaded_count(), 0);
}

TEST_F(ModelCacheTest, RunningOutOfMemoryBlocksNobody) {
  backend_.Open();
  backend_.RunOutOfMemory();
  const absl::Status status = cache_.Get(card_, variant(), Precision::kExact).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("general-2x"));
  EXPECT_TRUE(RetryDelayOf(status).has_value());
  EXPECT_TRUE(cache_.Get(card_, variant(), Precision::kExact).ok());
}

TEST_F(ModelCacheTest, BrokenWeightsAreTheServersFault) {
  ModelVariant missing = variant();
  missing.weights = "/nowhere/model.param";
  missing.files_state = nullptr;  // else it would be one that has gone since
  const absl::Status status = cache_.Get(card_, missing, Precision::kExact).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("general-2x"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/model.param"));
}

}  // namespace
}  // namespace upscaled::server
