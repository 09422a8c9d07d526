#include "engine/autotune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "tests/engine/autotune/fake_candidates.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FakeCandidates;
using test::FakeKernel;
using test::FreshRandom;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TunerTest : public ::testing::Test {
 protected:
  TunerTest() : folder_(MakeFolder()), file_(folder_ / "tune.json") {}
  ~TunerTest() override { std::filesystem::remove_all(folder_); }

  FakeCandidates Candidates(Layer layer, std::vector<FakeKernel> kernels) {
    return {clock_, std::move(layer), std::move(kernels)};
  }
  // Its second kernel is the fastest.
  FakeCandidates Two(int channels) {
    return Candidates(test::FakeConv(channels, 4, 3, random_),
                      {{"first", absl::Milliseconds(2)}, {"second", absl::Milliseconds(1)}});
  }
  absl::StatusOr<std::unique_ptr<Tuner>> Make(bool measure) {
    return Tuner::Create({.file = file_,
                          .measure = measure,
                          .clock = &clock_,
                          .warn = [this](const std::string& text) { warnings_.push_back(text); }});
  }
  void Write(const std::string& text) const { std::ofstream(file_) << text; }
  std::string Text() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  const std::filesystem::path folder_, file_;
  std::mt19937 random_ = FreshRandom();
  FakeClock clock_;
  std::vector<std::string> warnings_;

 private:
  static std::filesystem::path MakeFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tuner-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    return name;
  }
};

TEST_F(TunerTest, MeasuresOnceAndRemembers) {
  const auto tuner = Make(/*measure=*/true);
  ASSERT_TRUE(tuner.ok()) << tuner.status();
  FakeCandidates candidates = Two(5);
  EXPECT_EQ((*tuner)->Choose(candidates), "second");
  const auto runs = candidates.runs;
  EXPECT_EQ((*tuner)->Choose(candidates), "second");
  EXPECT_EQ(candidates.runs, runs);
  // A later process.
  const auto later = Make(/*measure=*/false);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ((*later)->Choose(candidates), "second");
  EXPECT_EQ(candidates.runs, runs);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TunerTest, TilesAreMeasuredOnceAndRemembered) {
  test::FakeTiles tiles(clock_,
                        {{{480, 270}, absl::Milliseconds(2)}, {{240, 540}, absl::Milliseconds(1)}});
  constexpr Size kFastest{240, 540};
  EXPECT_EQ((*Make(/*measure=*/true))->ChooseTile(tiles), kFastest);
  const auto runs = tiles.runs;
  EXPECT_EQ((*Make(/*measure=*/false))->ChooseTile(tiles), kFastest);
  EXPECT_EQ((*Make(/*measure=*/true))->ChooseTile(tiles), kFastest);
  EXPECT_EQ(tiles.runs, runs);
  // Another build, which ships other tiles.
  test::FakeTiles other(clock_, {{{720, 408}, absl::Milliseconds(1)}});
  EXPECT_EQ((*Make(/*measure=*/false))->ChooseTile(other), (Size{720, 408}));
}

TEST_F(TunerTest, WhatItDoesNotKnowKeepsTheShippedOrder) {
  ASSERT_EQ((*Make(true))->Choose(Two(5)), "second");
  const auto tuner = Make(/*measure=*/false);
  FakeCandidates other_layer = Two(6), other_device = Two(5);
  other_device.device_name = "another";
  EXPECT_EQ((*tuner)->Choose(other_layer), "first");
  EXPECT_EQ((*tuner)->Choose(other_device), "first");
  EXPECT_THAT(other_layer.runs, IsEmpty());
  EXPECT_THAT(other_device.runs, IsEmpty());
}

TEST_F(TunerTest, LayersOfDifferentSpeedHaveDifferentKeys) {
  std::vector<std::string> keys;
  Layer layer = test::FakeConv(16, 32, 3, random_);
  const auto add = [&](Precision precision) { keys.push_back(TuningKey(layer, precision)); };
  add(Precision::kExact);
  EXPECT_EQ(keys[0], "exact conv 16-32 3x3/1");
  add(Precision::kFast);
  layer.in_channels = 17, add(Precision::kExact);
  layer.out_channels = 33, add(Precision::kExact);
  layer.kernel_px = 5, add(Precision::kExact);
  layer.stride_px = 2, add(Precision::kExact);
  layer.op = Op::kConvTranspose, add(Precision::kExact);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST_F(TunerTest, AKernelThatIsNotThereIsMeasuredAnew) {
  TuningTable table;
  FakeCandidates candidates = Two(5);
  table.Set("fake", TuningKey(candidates.layer(), Precision::kExact), {"gone", {}});
  ASSERT_TRUE(table.Save(file_).ok());
  EXPECT_EQ((*Make(/*measure=*/false))->Choose(candidates), "first");
  EXPECT_EQ((*Make(/*measure=*/true))->Choose(candidates), "second");
  EXPECT_EQ((*Make(/*measure=*/false))->Choose(candidates), "second");
}

TEST_F(TunerTest, WrongKernelsAreReported) {
  const FakeCandidates candidates = Candidates(
      test::FakeConv(3, 4, 3, random_),
      {{"first", absl::Milliseconds(2)}, {"second", absl::Milliseconds(1), /*right=*/false}});
  EXPECT_EQ((*Make(true))->Choose(candidates), "first");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("kernel 'second' computes exact conv 3-4 3x3/1")));
}

TEST_F(TunerTest, ADeviceThatRunsNothingLeavesNoEntry) {
  const FakeKernel dead{"first", absl::Milliseconds(2), /*right=*/true, /*runs=*/false};
  const FakeKernel dead_too{"second", absl::Milliseconds(1), /*right=*/true, /*runs=*/false};
  const auto tuner = Make(/*measure=*/true);
  EXPECT_EQ((*tuner)->Choose(Candidates(test::FakeConv(5, 4, 3, random_), {dead, dead_too})),
            "first");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("'first' could not be tried for exact conv 5-4"),
                                     HasSubstr("'second' could not be tried")));
  EXPECT_EQ((*tuner)->Choose(Two(5)), "second");  // measured once the device works again
}

TEST_F(TunerTest, WhatCannotBeWrittenIsSaidAndUsedAllTheSame) {
  std::filesystem::remove_all(folder_);
  const auto tuner = Make(/*measure=*/true);
  ASSERT_TRUE(tuner.ok()) << tuner.status();
  const FakeCandidates candidates = Two(5);
  EXPECT_EQ((*tuner)->Choose(candidates), "second");
  EXPECT_EQ((*tuner)->Choose(candidates), "second");
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr(absl::StrCat("cannot create a file beside ", file_.string()))));
}

TEST_F(TunerTest, TheFileIsReplacedAndNothingLeftBeside) {
  const auto tuner = Make(/*measure=*/true);
  for (const int channels : {3, 4, 5}) (*tuner)->Choose(Two(channels));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  const auto table = TuningTable::Load(file_);
  ASSERT_TRUE(table.ok()) << table.status();
  for (const int channels : {3, 4, 5}) {
    const auto* entry = table->Find("fake", absl::StrCat("exact conv ", channels, "-4 3x3/1"));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->choice, "second");
    EXPECT_EQ(entry->gflops.size(), 2u);
  }
}

TEST_F(TunerTest, WhatManyThreadsFindIsAllKept) {
  const auto tuner = Make(/*measure=*/true);
  constexpr int kThreads = 8;
  std::vector<FakeCandidates> candidates;
  for (int i = 0; i < kThreads; ++i) candidates.push_back(Two(3 + i));
  std::vector<std::thread> threads;
  for (const FakeCandidates& of : candidates) {
    threads.emplace_back([&] { (*tuner)->Choose(of); });
  }
  for (std::thread& thread : threads) thread.join();
  const auto table = TuningTable::Load(file_);
  ASSERT_TRUE(table.ok()) << table.status();
  for (const FakeCandidates& of : candidates) {
    const auto* entry = table->Find("fake", TuningKey(of.layer(), Precision::kExact));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ((*tuner)->Choose(of), entry->choice);
  }
}

TEST_F(TunerTest, LoadingNeedsAFile) {
  const absl::Status status = Make(/*measure=*/false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file_.string()));
}

TEST_F(TunerTest, AnotherEnginesTableIsIgnoredWithAWarningAndReplaced) {
  ASSERT_EQ((*Make(true))->Choose(Two(5)), "second");
  std::string text = Text();
  const std::string version = absl::StrCat("\"", ToAbsl(EngineVersion()), "\"");
  ASSERT_TRUE(absl::StrContains(text, version)) << text;
  text.replace(text.find(version), version.size(), "\"0.0.1\"");
  Write(text);
  EXPECT_EQ((*Make(/*measure=*/false))->Choose(Two(5)), "first");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("was measured by engine \"0.0.1\"")));
  EXPECT_EQ((*Make(/*measure=*/true))->Choose(Two(6)), "second");
  EXPECT_THAT(Text(), HasSubstr(version));
  EXPECT_THAT(Text(), ::testing::Not(HasSubstr("5-4")));
}

TEST_F(TunerTest, ATableOfAnOlderFormatIsIgnoredWithAWarningAndReplaced) {
  Write(R"({"tuning_table": 1, "engine": "0.1.0", "devices": {"fake": {"a": {"kernel": "b"}}}})");
  EXPECT_EQ((*Make(/*measure=*/false))->Choose(Two(5)), "first");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("is of the older format 1, this engine has 2")));
  EXPECT_EQ((*Make(/*measure=*/true))->Choose(Two(5)), "second");
  EXPECT_TRUE(TuningTable::Load(file_).ok());
}

TEST_F(TunerTest, WhatIsNoTableIsRefusedInEveryMode) {
  const struct {
    const char* text;
    const char* why;
  } kCases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{\"tuning_table\": 2", "not a JSON object"},
      {"{}", "'tuning_table' must be 2"},
      {R"({"tuning_table": 3, "devices": {}})", "'tuning_table' must be 2"},
      {R"({"tuning_table": 0, "devices": {}})", "'tuning_table' must be 2"},
      {R"({"tuning_table": 2, "engine": "0"})", "no object 'devices'"},
      {R"({"tuning_table": 2, "devices": {"cpu": 3}})", "'cpu' is no object"},
      {R"({"tuning_table": 2, "devices": {"cpu": {"conv": 3}}})", "'conv' is no object"},
      {R"({"tuning_table": 2, "devices": {"cpu": {"conv": {"choice": 3}}}})",
       "'conv' is no object"},
      {R"({"tuning_table": 2, "devices": {"cpu": {"conv": {"choice": "a", "gflops": {"a": "b"}}}}})",
       "'conv' is no object"},
  };
  for (const auto& [text, why] : kCases) {
    Write(text);
    for (const bool measure : {false, true}) {
      const absl::Status status = Make(measure).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat(file_.string(), " is no tuning table: ")))
          << text;
      EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << text;
    }
    EXPECT_EQ(Text(), text) << "was overwritten";
  }
}

}  // namespace
}  // namespace upscaled
