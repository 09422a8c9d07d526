// Equal calls at the same time share one computation: they join and leave it, pay for it, and give
// it their priority.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "absl/synchronization/notification.h"
#include "server/handlers/result_sharing.h"
#include "server/handlers/upscale_image.h"
#include "tests/server/handlers/call_streams.h"
#include "tests/server/handlers/engine_environment.h"
#include "tests/support/await.h"
#include "tests/support/gated_device.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;
using test::PngOf;
using testing::HasSubstr;

constexpr int kTilePx = 32;

// An image of `tiles` tiles, queued together.
std::string RowOfTiles(int tiles) { return PngOf(tiles * kTilePx, kTilePx); }

// A call on a thread of its own.
class RunningCall {
 public:
  RunningCall(const HandlerEnvironment& environment, const std::string& image, Payer payer) {
    call_.payer = std::move(payer);
    thread_ = std::thread([this, &environment, image] {
      GivenMessages<pb::UpscaleImageRequest> reader(MessagesOf(image));
      status_ = HandleUpscaleImage(environment, call_.context(), reader, writer_);
      ended_.Notify();
    });
  }
  ~RunningCall() { thread_.join(); }

  void Cancel() { call_.cancellation.Cancel(absl::CancelledError("the client left")); }

  bool has_ended() const { return ended_.HasBeenNotified(); }
  // Waits for the end.
  const absl::Status& status() const {
    ended_.WaitForNotification();
    return status_;
  }
  const RequestRecord& record() const {
    ended_.WaitForNotification();
    return call_.record;
  }
  std::string image() const {
    std::string bytes;
    for (const pb::UpscaleImageResponse& message : writer_.messages()) bytes += message.chunk();
    return bytes;
  }

 private:
  static std::vector<pb::UpscaleImageRequest> MessagesOf(const std::string& image) {
    std::vector<pb::UpscaleImageRequest> messages(2);
    messages[0].mutable_start()->mutable_options()->set_tile_px(kTilePx);
    messages[1].set_chunk(image);
    return messages;
  }

  TestCall call_;
  SentMessages<pb::UpscaleImageResponse> writer_;
  absl::Status status_;
  absl::Notification ended_;
  std::thread thread_;  // last: uses the others
};

class SharedImageTest : public testing::Test {
 protected:
  SharedImageTest() {
    engine_.handlers().sharing = &sharing_;
    gate_.Close();
  }
  ~SharedImageTest() override { gate_.Open(); }

  std::unique_ptr<RunningCall> Call(const std::string& image, Payer payer = {}) {
    return std::make_unique<RunningCall>(engine_.handlers(), image, std::move(payer));
  }
  // A computing call, once its tiles wait.
  std::unique_ptr<RunningCall> FirstCall(const std::string& image, Payer payer = {}) {
    const int64_t before = Tiles(), calls = sharing_.counts().computed;
    auto call = Call(image, std::move(payer));
    test::Await([&] { return sharing_.counts().computed > calls && Tiles() > before; });
    return call;
  }
  // A call in another one's computation.
  std::unique_ptr<RunningCall> JoinedCall(const std::string& image, Payer payer = {}) {
    const int64_t before = sharing_.counts().shared;
    auto call = Call(image, std::move(payer));
    test::Await([&] { return sharing_.counts().shared > before; });
    return call;
  }

  // Waiting and running ones.
  int64_t Tiles() const {
    const TileLoad load = engine_.scheduler().load();
    return load.queued_tiles + load.running_tiles;
  }
  // Lets the device compute this many tiles, one after the other.
  void Compute(int tiles) {
    for (int i = 0; i < tiles; ++i) {
      const int64_t passed = gate_.tiles_passed();
      gate_.Allow(1);
      test::Await([&] { return gate_.tiles_passed() > passed; });
    }
  }

  test::Gate gate_;
  EngineEnvironment engine_{{}, &gate_};
  ResultSharing sharing_{
      {.software = "test", .max_held_bytes = int64_t{4} << 20, .max_computations = 4}};
};

TEST_F(SharedImageTest, EqualCallsAreComputedOnceAndPaidForOnce) {
  const std::string image = RowOfTiles(3);
  const auto first = FirstCall(image), second = JoinedCall(image), third = JoinedCall(image);
  gate_.Open();
  ASSERT_TRUE(first->status().ok()) << first->status();
  ASSERT_TRUE(second->status().ok()) << second->status();
  ASSERT_TRUE(third->status().ok()) << third->status();
  EXPECT_TRUE(first->image() == second->image() && first->image() == third->image());
  EXPECT_FALSE(first->image().empty());
  EXPECT_EQ(gate_.tiles_passed(), 3);
  EXPECT_EQ(sharing_.counts().computed, 1);
  EXPECT_EQ(sharing_.counts().shared, 2);
  const auto cost = [](const auto& call) { return call->record().cost; };
  const int64_t all = cost(first) + cost(second) + cost(third);
  EXPECT_GT(all, 0);
  EXPECT_EQ(std::max({cost(first), cost(second), cost(third)}), all) << "one call pays for all";
  EXPECT_EQ(first->record().tiles + second->record().tiles + third->record().tiles, 3);
}

TEST_F(SharedImageTest, AnotherImageAndAnotherTenantShareNothing) {
  const std::string image = RowOfTiles(1);
  const auto first = FirstCall(image, {.tenant = "a"});
  const auto other_image = FirstCall(RowOfTiles(1), {.tenant = "a"});
  const auto other_tenant = FirstCall(image, {.tenant = "b"});
  gate_.Open();
  for (const auto* call : {&first, &other_image, &other_tenant}) {
    EXPECT_TRUE((*call)->status().ok()) << (*call)->status();
  }
  EXPECT_EQ(sharing_.counts().computed, 3);
  EXPECT_EQ(sharing_.counts().shared, 0);
}

TEST_F(SharedImageTest, WhenTheFirstPayerIsCancelledTheNextOnePaysAndLosesNothing) {
  const std::string image = RowOfTiles(3);
  const auto first = FirstCall(image, {.address = "a"});
  const auto second = JoinedCall(image, {.address = "b"});
  first->Cancel();
  EXPECT_EQ(first->status().message(), "the client left");
  gate_.Open();
  ASSERT_TRUE(second->status().ok()) << second->status();
  EXPECT_EQ(gate_.tiles_passed(), 3);
  EXPECT_EQ(sharing_.counts().computed, 1);
  EXPECT_GT(second->record().cost, 0);
  EXPECT_EQ(second->record().tiles, 3);
  EXPECT_EQ(first->record().tiles, 0);
}

TEST_F(SharedImageTest, ACallThatJoinedLeavesAloneAndPaysNothing) {
  const std::string image = RowOfTiles(3);
  const auto first = FirstCall(image), second = JoinedCall(image);
  second->Cancel();
  EXPECT_EQ(second->status().message(), "the client left");
  EXPECT_EQ(second->record().cost, 0);
  EXPECT_FALSE(first->has_ended());
  gate_.Open();
  ASSERT_TRUE(first->status().ok()) << first->status();
  EXPECT_EQ(first->record().tiles, 3);
}

TEST_F(SharedImageTest, WhenAllLeaveTheComputationEndsAndTheNextCallBeginsAnother) {
  constexpr int kTiles = 20;
  const std::string image = RowOfTiles(kTiles);
  {
    const auto first = FirstCall(image), second = JoinedCall(image);
    first->Cancel();
    second->Cancel();
    EXPECT_FALSE(first->status().ok());
    EXPECT_FALSE(second->status().ok());
  }
  test::Await([&] { return engine_.scheduler().load().queued_tiles == 0; });
  auto third = Call(image);
  gate_.Open();
  ASSERT_TRUE(third->status().ok()) << third->status();
  third.reset();
  EXPECT_EQ(sharing_.counts().computed, 2);
  EXPECT_LE(gate_.tiles_passed(), kTiles + 2) << "the streams held one tile each";
  test::Await([&] { return engine_.admission().state().memory_bytes == 0; });
  EXPECT_EQ(engine_.admission().state().queue_cost, 0);
}

// Decoding waits until it may fail.
class FailingImageTest : public SharedImageTest {
 protected:
  // The first image to be decoded fails with `error`, the others do not.
  void FailFirst(absl::Status error) {
    engine_.handlers().open_image =
        [this, error](const ImageHeader&, ByteSource& source, const DecodeLimits& limits,
                      Cancellation* cancellation,
                      const DecodeAccount&) -> absl::StatusOr<std::unique_ptr<ImageDecoder>> {
      if (opened_++ == 0) {
        may_fail_.WaitForNotification();
        return error;
      }
      return OpenImageDecoder(source, limits, cancellation);
    };
  }

  // A call in front of its decoder.
  std::unique_ptr<RunningCall> Decoding(const std::string& image) {
    auto call = Call(image);
    test::Await([&] { return opened_ == 1; });
    return call;
  }

  std::atomic<int> opened_ = 0;
  absl::Notification may_fail_;
};

TEST_F(FailingImageTest, AnErrorOfTheImageIsEveryCallers) {
  FailFirst(absl::InvalidArgumentError("the pixels are broken"));
  const std::string image = RowOfTiles(2);
  const auto first = Decoding(image), second = JoinedCall(image), third = JoinedCall(image);
  may_fail_.Notify();
  for (const auto* call : {&first, &second, &third}) {
    EXPECT_EQ((*call)->status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT((*call)->status().message(), HasSubstr("the pixels are broken"));
    EXPECT_EQ((*call)->image(), "");
  }
  EXPECT_EQ(opened_, 1) << "the image is to blame: no call tries it again";
}

TEST_F(FailingImageTest, AnErrorOfTheServerIsTheFirstCallersAndTheOthersComputeAgain) {
  FailFirst(absl::UnavailableError("the decoder's process is gone"));
  const std::string image = RowOfTiles(2);
  const auto first = Decoding(image), second = JoinedCall(image), third = JoinedCall(image);
  gate_.Open();
  may_fail_.Notify();
  EXPECT_TRUE(absl::IsUnavailable(first->status())) << first->status();
  EXPECT_TRUE(second->status().ok()) << second->status();
  EXPECT_TRUE(third->status().ok()) << third->status();
  EXPECT_TRUE(second->image() == third->image() && !third->image().empty());
}

class SharedPriorityTest : public SharedImageTest {
 protected:
  static constexpr int kBacklog = 20;

  const Payer background_{.address = "a", .asked = Priority::kBackground};
  const Payer interactive_{.address = "b"};
  const std::string image_ = RowOfTiles(1);
  // Another client's, in front of all background work.
  const std::unique_ptr<RunningCall> backlog_ =
      FirstCall(RowOfTiles(kBacklog), {.address = "backlog"});
};

TEST_F(SharedPriorityTest, AnInteractiveCallLendsItsPriorityToABackgroundComputation) {
  const auto slow = FirstCall(image_, background_), quick = JoinedCall(image_, interactive_);
  Compute(kBacklog / 2);
  EXPECT_TRUE(test::Comes([&] { return quick->has_ended() && slow->has_ended(); }))
      << "their tile waits behind another client's backlog";
  gate_.Open();
  EXPECT_TRUE(quick->status().ok()) << quick->status();
  EXPECT_TRUE(backlog_->status().ok()) << backlog_->status();
}

TEST_F(SharedPriorityTest, AnInteractiveCallThatLeavesTakesItsPriorityAlong) {
  const auto slow = FirstCall(image_, background_);
  {
    const auto quick = JoinedCall(image_, interactive_);
    quick->Cancel();
    EXPECT_FALSE(quick->status().ok());
  }
  Compute(kBacklog);
  EXPECT_TRUE(test::Comes([&] { return backlog_->has_ended(); }))
      << "a tile of the background work ran before the backlog's last one";
  EXPECT_FALSE(slow->has_ended());
  gate_.Open();
  EXPECT_TRUE(slow->status().ok()) << slow->status();
}

}  // namespace
}  // namespace upscaled::server
