// Which kernel computes a layer: forced, tuned or the first of the list.
#include "engine/graph/kernel_set.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/graph/fake_kernels.h"

namespace upscaled {
namespace {

using test::FakeKernelInfo;
using test::FakeKernelSet;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Answers with the last name, and notes what it is asked.
class LastChooser final : public KernelChooser {
 public:
  std::string Choose(const KernelCandidates& candidates) override {
    EXPECT_EQ(candidates.device(), "fake device");
    asked.push_back(candidates.names());
    return candidates.names().back();
  }

  std::vector<std::vector<std::string>> asked;
};

std::vector<FakeKernelInfo> Kernels() {
  return {{{"winograd"}, {Op::kConv}},
          {{"direct", kFuseShuffle}, {Op::kConv, Op::kFullyConnected}, /*configs=*/2},
          {{"transposed"}, {Op::kConvTranspose}},
          {{"plain"}, {Op::kAdd, Op::kConv, Op::kFullyConnected}},
          {{"naive", kFuseNothing, /*baseline=*/true}, {Op::kConv, Op::kMul}},
          {{"first", kFuseImage}, {Op::kConv}}};
}

class ChooseKernelTest : public ::testing::Test {
 protected:
  std::string Choose(const FusedLayers& layers, KernelChooser* chooser = nullptr,
                     const KernelInfo* forced = nullptr) {
    const auto choice = ChooseKernel(kernels_, layers, forced, chooser);
    return choice.ok() ? kernels_.NameOf(*choice) : std::string(choice.status().message());
  }
  std::vector<std::string> Rank(const FusedLayers& layers, const KernelInfo* forced = nullptr) {
    std::vector<std::string> names;
    for (const KernelChoice& choice : RankKernels(kernels_, layers, forced)) {
      names.push_back(kernels_.NameOf(choice));
    }
    return names;
  }

  FakeKernelSet kernels_{Kernels()};
  LastChooser chooser_;
  Layer conv_{.op = Op::kConv, .name = "conv"};
  Layer transposed_{.op = Op::kConvTranspose, .name = "up"};
  Layer shuffle_{.op = Op::kPixelShuffle, .name = "shuffle"};
};

TEST_F(ChooseKernelTest, TheListIsBestFirstAndBaselinesAreNotInIt) {
  EXPECT_THAT(Rank({&conv_}), ElementsAre("winograd0", "direct0", "direct1", "plain0"));
  EXPECT_EQ(Choose({&conv_}), "winograd0");
  kernels_.good = "direct1";
  EXPECT_THAT(Rank({&conv_}), ElementsAre("direct1", "winograd0", "direct0", "plain0"));
}

TEST_F(ChooseKernelTest, OnlyKernelsThatFuseTakeWhatIsFused) {
  EXPECT_THAT(Rank({&conv_, &shuffle_}), ElementsAre("direct0", "direct1"));
  EXPECT_THAT(Rank({.main = &conv_, .reads_image = true}), ElementsAre("first0"));
}

TEST_F(ChooseKernelTest, ForcedKernelsTakeWhatTheySupport) {
  const KernelInfo* const naive = kernels_[4];
  EXPECT_EQ(Choose({&conv_}, &chooser_, naive), "naive0");
  EXPECT_EQ(Choose({&transposed_}, &chooser_, naive), "transposed0");
  EXPECT_THAT(Rank({&conv_}, kernels_[1]), ElementsAre("direct0", "direct1"));
  EXPECT_EQ(Choose({&conv_}, &chooser_, kernels_[1]), "direct0");
  EXPECT_THAT(chooser_.asked, IsEmpty());
}

TEST_F(ChooseKernelTest, TheChooserIsAskedForConvolutionsWithAChoice) {
  EXPECT_EQ(Choose({&conv_}, &chooser_), "plain0");
  EXPECT_THAT(chooser_.asked,
              ElementsAre(ElementsAre("winograd0", "direct0", "direct1", "plain0")));
  const Layer connected{.op = Op::kFullyConnected};
  EXPECT_EQ(Choose({&connected}, &chooser_), "direct0");
  EXPECT_EQ(Choose({&transposed_}, &chooser_), "transposed0");
  EXPECT_EQ(chooser_.asked.size(), 1u);
}

// Tables know only convolutions: their statements must hold with the shuffle, too.
TEST_F(ChooseKernelTest, TheChooserIsNotAskedWhereFusionLeavesAnotherChoice) {
  EXPECT_EQ(Choose({&conv_, &shuffle_}, &chooser_), "direct0");
  EXPECT_THAT(chooser_.asked, IsEmpty());
}

TEST_F(ChooseKernelTest, ALayerHasAtMostSixteenChoices) {
  const FakeKernelSet many({{{"many"}, {Op::kConv}, /*configs=*/20}});
  EXPECT_EQ(RankKernels(many, {&conv_}).size(), kMaxChoices);
}

TEST_F(ChooseKernelTest, ALayerThatNoKernelSupportsIsNamed) {
  const Layer mul{.op = Op::kMul, .name = "times"};
  EXPECT_EQ(ChooseKernel(kernels_, {&mul}, nullptr, nullptr).status(),
            absl::UnimplementedError("the fake backend cannot run layer 'times' (mul)"));
}

TEST(FindForcedKernelTest, NamesWhatThereIs) {
  const std::vector<FakeKernelInfo> kernels = Kernels();
  const std::span<const FakeKernelInfo> list(kernels);
  EXPECT_EQ(*FindForcedKernel("fake", list, ""), nullptr);
  EXPECT_EQ(*FindForcedKernel("fake", list, "direct"), &kernels[1]);
  EXPECT_EQ(FindForcedKernel("fake", list, "fastest").status(),
            absl::InvalidArgumentError("kernel 'fastest' is not one of the fake backend's: "
                                       "winograd, direct, transposed, plain, naive, first"));
}

}  // namespace
}  // namespace upscaled
