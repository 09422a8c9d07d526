#include "engine/pipeline/image_run.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/pipeline/local_executor.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

class ImageRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = *CreateReferenceBackend({.threads = 2});
    executable_ = *backend_->Compile(network_, Precision::kExact);
    const Size size = source_.spec().size();
    result_ =
        Image({size.width * network_.scale, size.height * network_.scale, 3, SampleType::kU8});
    expected_ = Image(result_.spec());
    const TileTask whole = test::WholeTask(*executable_, source_.view(), expected_.mutable_view());
    ASSERT_TRUE(test::RunImage(*backend_->CreateStream(), *executable_, {whole}).ok());
  }

  std::vector<TileTask> Tiles() {
    return CutImage(*executable_, source_.view(), result_.mutable_view(), {17, 11});
  }

  std::mt19937 random_ = test::FreshRandom();
  const Network network_ = test::RandomPooledNetwork(random_, /*max_macs_per_px=*/2e3);
  const size_t poolings_ = ListPoolings(network_).size();
  const Image source_ = test::RandomImage({40, 30, 3, SampleType::kU8}, random_);
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
  Image result_, expected_;
};

TEST_F(ImageRunTest, TakesAPassForEachPoolingAndOneForTheResult) {
  const std::unique_ptr<Stream> stream = backend_->CreateStream();
  size_t passes = 0;
  ImageRun run(*executable_, Tiles());
  const absl::Status status = run.Run([&](std::span<const TileTask> tiles) {
    for (const TileTask& tile : tiles) {
      EXPECT_EQ(tile.pooling->number(), passes);
      EXPECT_EQ(tile.pooling->gathers(), passes < poolings_);
    }
    ++passes;
    return stream->Run(*executable_, tiles);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(passes, poolings_ + 1);
  EXPECT_TRUE(test::SameImages(result_.view(), expected_.view()));
}

TEST_F(ImageRunTest, GoesThroughAnExecutorByItself) {
  const auto executor = MakeLocalExecutor(*backend_);
  absl::Notification ended;
  absl::Status status;
  ImageRun::Start(
      std::make_shared<ImageRun>(*executable_, Tiles()),
      [&](std::vector<TileTask> tiles, TileExecutor::TileDone done) {
        executor->Submit(executable_, std::move(tiles), nullptr, std::move(done));
      },
      [&](const absl::Status& of_run) {
        status = of_run;
        ended.Notify();
      });
  ended.WaitForNotification();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(test::SameImages(result_.view(), expected_.view()));
}

TEST_F(ImageRunTest, EndsWithThePassThatATileFailsIn) {
  int submits = 0, ends = 0;
  absl::Status status;
  ImageRun::Start(
      std::make_shared<ImageRun>(*executable_, Tiles()),
      [&](const std::vector<TileTask>& tiles, const TileExecutor::TileDone& done) {
        ++submits;
        for (size_t i = 0; i < tiles.size(); ++i) {
          EXPECT_EQ(ends, 0) << "tiles may still be running";
          done(i, i == 1   ? absl::InternalError("first")
                  : i == 2 ? absl::InternalError("second")
                           : absl::OkStatus());
        }
      },
      [&](const absl::Status& of_run) {
        status = of_run;
        ++ends;
      });
  EXPECT_EQ(submits, 1);
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(status, absl::InternalError("first"));
}

// Known without planning every tile.
TEST_F(ImageRunTest, TheCostOfAnImageIsAboutThatOfItsTiles) {
  const TileTask task = test::WholeTask(*executable_, source_.view(), result_.mutable_view());
  const auto whole = static_cast<double>(task.plan->Cost(/*cached=*/false));
  EXPECT_EQ(ImageRun::Cost(*executable_, source_.spec().size(), {40, 30}), whole);
  for (const Size tile : {Size{17, 11}, Size{5, 30}, Size{20, 7}}) {
    double cost = 0;
    for (const TileTask& task :
         CutImage(*executable_, source_.view(), result_.mutable_view(), tile)) {
      cost += static_cast<double>(task.plan->Cost(/*cached=*/false));
    }
    const double estimate = ImageRun::Cost(*executable_, source_.spec().size(), tile);
    EXPECT_GT(estimate, cost / 2);
    EXPECT_LT(estimate, cost * 2);
  }
}

}  // namespace
}  // namespace upscaled
