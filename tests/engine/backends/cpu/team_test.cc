// Threads that share tiles: numbers of helpers, and results that do not depend on them.
#include "engine/backends/cpu/team.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

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

// A team of such a pool, whose parts need scratch of one float.
class AnyTeam : public Team {
 public:
  explicit AnyTeam(HelperPool& pool, int cpu = kAnyCpu, int most_threads = kMany)
      : Team(pool, cpu, 1, most_threads) {}
};

// Among how many threads work is shared now.
int ThreadsOf(Team& team) {
  int threads = 0;
  team.Run(kMany, nullptr, [&](int part, int parts, float*) {
    if (part == 0) threads = parts;
  });
  return threads;
}

void AwaitThreads(Team& team, int threads) {
  test::Await([&] { return ThreadsOf(team) == threads; });
}

TEST(TeamTest, AloneDoesAllItself) {
  Team alone;
  float scratch = 0;
  alone.Run(kMany, &scratch, [&](int part, int parts, float* own) {
    EXPECT_EQ(part, 0);
    EXPECT_EQ(parts, 1);
    EXPECT_EQ(own, &scratch);
  });
  EXPECT_EQ(alone.Dissolve(), absl::ZeroDuration());
}

TEST(TeamTest, EachPartHasAThreadAndScratchOfItsOwn) {
  constexpr size_t kScratch = 1000;
  HelperPool pool(std::vector<int>(4, kAnyCpu));
  Team team(pool, kAnyCpu, kScratch, kMany);
  AwaitThreads(team, 4);
  std::vector<float> scratch(kScratch);
  std::array<std::thread::id, 4> threads;
  std::array<float*, 4> places = {};
  team.Run(kMany, scratch.data(), [&](int part, int parts, float* own) {
    ASSERT_EQ(parts, 4);
    threads[part] = std::this_thread::get_id();
    places[part] = own;
    std::fill_n(own, kScratch, static_cast<float>(part));
  });
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(places[0], scratch.data());
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < i; ++j) EXPECT_NE(threads[i], threads[j]);
    EXPECT_EQ(std::count(places[i], places[i] + kScratch, static_cast<float>(i)), kScratch);
  }
  EXPECT_GT(team.Dissolve(), absl::ZeroDuration());
}

TEST(TeamTest, TakesNoMorePartsThanThereAre) {
  HelperPool pool(std::vector<int>(4, kAnyCpu));
  AnyTeam team(pool);
  AwaitThreads(team, 4);
  std::atomic<int> done = 0;
  team.Run(2, nullptr, [&](int, int parts, float*) {
    EXPECT_EQ(parts, 2);
    ++done;
  });
  EXPECT_EQ(done, 2);
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
    std::thread::id helper;
    team.Run(kMany, nullptr, [&](int part, int parts, float*) {
      EXPECT_EQ(parts, 2);
      if (part == 1) helper = std::this_thread::get_id();
    });
    return helper;
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
          std::array<int, kStreams> done = {};
          int wanted = 0;
          team.Run(kMany, nullptr, [&](int part, int parts, float*) {
            done.at(part) = 1;
            if (part == 0) wanted = parts;
          });
          ASSERT_EQ(std::ranges::count(done, 1), wanted);
          if (wanted > 1) ++shared;
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
