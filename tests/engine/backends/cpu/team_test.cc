// Threads with shared tiles: numbers of helpers, and results independent of them.
#include "engine/backends/cpu/team.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/run_tile.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/await.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled::cpu {
namespace {

using test::Describe;
using test::FreshRandom;
using test::RandomInt;

constexpr int kMany = 100;
constexpr int kAnyCpu = -1;

// A team of such a pool. Its threads need scratch of one float.
class AnyTeam : public Team {
 public:
  explicit AnyTeam(HelperPool& pool, int cpu = kAnyCpu, int most_threads = kMany)
      : Team(pool, cpu, 1, most_threads) {}
};

// Among how many threads work is shared now.
int ThreadsOf(Team& team) {
  return team.Run(kMany, kMany, nullptr, [](int, int, float*) {});
}

void AwaitThreads(Team& team, int threads) {
  test::Await([&] { return ThreadsOf(team) == threads; });
}

TEST(TeamTest, AloneDoesAllItself) {
  Team alone;
  float scratch = 0;
  EXPECT_EQ(alone.Run(kMany, kMany, &scratch,
                      [&](int begin, int end, float* own) {
                        EXPECT_EQ(begin, 0);
                        EXPECT_EQ(end, kMany);
                        EXPECT_EQ(own, &scratch);
                      }),
            1);
  EXPECT_EQ(alone.Dissolve(), absl::ZeroDuration());
}

// Counts one more computation of the units.
void Count(int begin, int end, std::vector<std::atomic<int>>& times) {
  ASSERT_LE(0, begin);
  ASSERT_LT(begin, end);
  ASSERT_LE(static_cast<size_t>(end), times.size());
  for (int i = begin; i < end; ++i) ++times[i];
}

bool AllOnce(const std::vector<std::atomic<int>>& times) {
  return std::ranges::all_of(times, [](int n) { return n == 1; });
}

TEST(SharedUnitsTest, EachIsTakenOnce) {
  std::mt19937 random = FreshRandom();
  SharedUnits units;
  for (int round = 0; round < 200; ++round) {
    const int threads = RandomInt(random, 1, 5), count = RandomInt(random, threads, 300);
    units.Deal(count, threads);
    std::vector<std::atomic<int>> times(count);
    std::vector<std::thread> takers;
    for (int i = 0; i < threads; ++i) {
      takers.emplace_back([&, i] {
        for (SharedUnits::Units taken; !(taken = units.Take(i)).empty();) {
          Count(taken.begin, taken.end, times);
        }
      });
    }
    for (std::thread& taker : takers) taker.join();
    EXPECT_TRUE(AllOnce(times)) << count << " units, " << threads << " threads";
  }
}

TEST(SharedUnitsTest, ASlowThreadLeavesUnitsToOthers) {
  constexpr int kUnits = 400, kHalf = kUnits / 2;
  SharedUnits units;
  units.Deal(kUnits, 2);
  // The slow one has begun its first units when the other one has done everything else.
  int slow = units.Take(0).count(), fast = 0;
  for (SharedUnits::Units taken; !(taken = units.Take(1)).empty(); fast += taken.count()) {
    if (fast < kHalf) {
      EXPECT_GE(taken.begin, kHalf) << "its own come first";
    }
  }
  EXPECT_EQ(slow + fast, kUnits);
  EXPECT_GT(fast, kHalf + kHalf / 4);
  EXPECT_TRUE(units.Take(0).empty());
}

TEST(TeamTest, ALateHelperKeepsNoThreadWaiting) {
  HelperPool pool(std::vector<int>(2, kAnyCpu));
  AnyTeam team(pool);
  AwaitThreads(team, 2);
  // The units are gone when Run returns, even if the helper begins late. Sanitizers see it if it
  // touches them.
  std::mt19937 random = FreshRandom();
  for (int round = 0; round < 2'000; ++round) {
    const int units = RandomInt(random, 1, 30);
    auto times = std::make_unique<std::vector<std::atomic<int>>>(units);
    team.Run(units, kMany, nullptr, [&](int begin, int end, float*) { Count(begin, end, *times); });
    ASSERT_TRUE(AllOnce(*times));
  }
}

TEST(TeamTest, EachThreadHasScratchOfItsOwn) {
  constexpr size_t kScratch = 1000;
  constexpr int kThreads = 4;
  HelperPool pool(std::vector<int>(kThreads, kAnyCpu));
  Team team(pool, kAnyCpu, kScratch, kMany);
  std::vector<float> scratch(kScratch);
  absl::Mutex mutex;
  std::set<float*> places;
  const auto all_there = [&] { return places.size() == kThreads; };
  test::Await([&] {
    places.clear();
    // Each holds one of the units for a while, so the others take theirs.
    team.Run(kThreads, kMany, scratch.data(), [&](int, int, float* own) {
      std::fill_n(own, kScratch, 1.0f);
      absl::MutexLock lock(&mutex);
      places.insert(own);
      mutex.AwaitWithTimeout(absl::Condition(&all_there), absl::Milliseconds(100));
    });
    return all_there();
  });
  EXPECT_TRUE(places.contains(scratch.data())) << "the caller's";
  EXPECT_GT(team.Dissolve(), absl::ZeroDuration());
}

TEST(TeamTest, TakesNoMoreThreadsThanItMay) {
  HelperPool pool(std::vector<int>(4, kAnyCpu));
  AnyTeam team(pool);
  AwaitThreads(team, 4);
  const auto nothing = [](int, int, float*) {};
  for (int i = 0; i < kMany; ++i) {
    EXPECT_LE(team.Run(kMany, 2, nullptr, nothing), 2);
    EXPECT_LE(team.Run(/*units=*/3, kMany, nullptr, nothing), 3);
  }
}

TEST(TeamTest, HelpersAreSharedEvenlyAndGoWhenAllHaveWork) {
  HelperPool pool(std::vector<int>(4, kAnyCpu));
  AnyTeam first(pool);
  AwaitThreads(first, 4);
  {
    AnyTeam second(pool);
    EXPECT_LE(ThreadsOf(first), 2);
    AwaitThreads(second, 2);
    {
      AnyTeam third(pool), fourth(pool);
      for (AnyTeam* team : {&first, &second, &third, &fourth}) EXPECT_EQ(ThreadsOf(*team), 1);
    }
    AwaitThreads(first, 2);
    second.Dissolve();
    AwaitThreads(first, 4);
    EXPECT_EQ(ThreadsOf(second), 1);
  }
}

TEST(TeamTest, SmallWorkIsNotShared) {
  HelperPool pool(std::vector<int>(2, kAnyCpu));
  AnyTeam other(pool);
  AwaitThreads(other, 2);
  other.Dissolve();
  AnyTeam team(pool, kAnyCpu, /*most_threads=*/1);
  for (int i = 0; i < kMany; ++i) EXPECT_EQ(ThreadsOf(team), 1);
}

TEST(TeamTest, HelpersLeaveCpusThatGetATeamOfTheirOwn) {
  HelperPool pool(std::vector<int>{0, 1, 2});
  AnyTeam team(pool, 0, /*most_threads=*/2);
  const auto helper_beside_team_on = [&](int cpu) {
    AnyTeam other(pool, cpu);
    ThreadsOf(team);  // the helper goes, if it is on that CPU
    AwaitThreads(team, 2);
    std::atomic<std::thread::id> helper;
    test::Await([&] {
      const auto caller = std::this_thread::get_id();
      team.Run(2, kMany, nullptr, [&](int, int, float*) {
        if (std::this_thread::get_id() != caller) {
          helper = std::this_thread::get_id();
          return;
        }
        // Leaves the helper time to take its unit.
        for (int i = 0; i < kMany && helper.load() == std::thread::id(); ++i) {
          absl::SleepFor(absl::Milliseconds(1));
        }
      });
      return helper.load() != std::thread::id();
    });
    return helper.load();
  };
  const std::thread::id second = helper_beside_team_on(1), first = helper_beside_team_on(2);
  EXPECT_NE(first, second);
  EXPECT_EQ(helper_beside_team_on(1), second);
}

TEST(TeamTest, ManyTeamsComeAndGo) {
  constexpr int kThreads = 4, kStreams = 8, kTeams = 50, kRuns = 50;
  HelperPool pool(std::vector<int>(kStreams, kAnyCpu));
  std::atomic<int> shared = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kTeams; ++n) {
        AnyTeam team(pool);
        test::Await([&] { return ThreadsOf(team) > 1; });
        for (int run = 0; run < kRuns; ++run) {
          std::vector<std::atomic<int>> times(kMany);
          const int threads = team.Run(
              kMany, kMany, nullptr, [&](int begin, int end, float*) { Count(begin, end, times); });
          ASSERT_TRUE(AllOnce(times));
          if (threads > 1) ++shared;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(shared, 0);
}

TEST(CpuStreamTest, TellsWhatItsHelpersSpent) {
  std::mt19937 random = FreshRandom();
  Network network = test::InputAlone();
  for (const int channels : {64, 64, 3}) test::AppendConv(network, channels, 3);
  const Image source = test::RandomImage({200, 100, 3, SampleType::kU8}, random);
  Image result(source.spec());
  for (const int threads : {1, 2}) {
    const auto backend = CreateCpuBackend({.threads = threads, .poisons_memory = true});
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto executable = (*backend)->Compile(network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto stream = (*backend)->CreateStream();
    const auto run = [&] {
      const TileTask task = test::WholeTask(**executable, source.view(), result.mutable_view());
      const absl::Status status = stream->Run(**executable, {&task, 1});
      EXPECT_TRUE(status.ok()) << status;
      return stream->HelpedTime();
    };
    if (threads > 1) {
      test::Await([&] { return run() > absl::ZeroDuration(); });
    } else {
      EXPECT_EQ(run(), absl::ZeroDuration());
    }
  }
}

class SharedTileTest : public ::testing::TestWithParam<Precision> {};

TEST_P(SharedTileTest, HasTheBytesOfOneThread) {
  const bool fast = GetParam() == Precision::kFast;
  if (fast && !HasVnni(ListIsas().front())) GTEST_SKIP() << "no AVX512_VNNI here";
  std::mt19937 random = FreshRandom();
  HelperPool pool(std::vector<int>(3, kAnyCpu));
  HugeBuffer workspace = HugeBuffer::Poisoned();
  for (int i = 0; i < 12; ++i) {
    const Network network = fast         ? test::RandomFastNetwork(random)
                            : i % 4 == 3 ? test::RandomAttentionNetwork(random)
                                         : test::RandomNetwork(random);
    SCOPED_TRACE(Describe(network));
    const auto backend =
        CreateCpuBackend({.threads = 1, .always_stages = i % 2 == 0, .poisons_memory = true});
    ASSERT_TRUE(backend.ok()) << backend.status();
    const auto compiled = (*backend)->Compile(network, GetParam());
    if (fast && absl::IsUnimplemented(compiled.status())) continue;  // a layer next to nothing
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto& executable = static_cast<const CpuExecutable&>(**compiled);
    const Size size{RandomInt(random, 100, 300), RandomInt(random, 1, 40)};
    SCOPED_TRACE(::testing::Message() << size.width << "x" << size.height);
    const Image source = test::RandomImage({size.width, size.height, 3, SampleType::kU8}, random);

    std::vector<Rect> overflowed;
    const auto run = [&](Team& team) {
      Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kF32});
      ImageRun image(executable,
                     {test::WholeTask(executable, source.view(), result.mutable_view())});
      const absl::Status status = image.Run([&](std::span<const TileTask> tasks) {
        overflowed = RunTile(executable.program(), tasks.front(), workspace, team,
                             [](const RowSchedule::Step&) {});
        return absl::OkStatus();
      });
      EXPECT_TRUE(status.ok()) << status;
      return result;
    };
    Team alone;
    const Image expected = run(alone);
    const std::vector<Rect> expected_overflowed = overflowed;
    Team team(pool, kAnyCpu, executable.program().scratch_floats, kMany);
    AwaitThreads(team, 3);
    const Image result = run(team);
    EXPECT_TRUE(test::SameImages(result.view(), expected.view()));
    EXPECT_EQ(overflowed, expected_overflowed);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, SharedTileTest,
                         ::testing::Values(Precision::kExact, Precision::kFast),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

}  // namespace
}  // namespace upscaled::cpu
