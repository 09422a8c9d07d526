#include "client/upscale_client.h"

#include <fcntl.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_clock.h"
#include "tests/client/fake_server.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kImageBytes = 1'000'003;

class Recorder final : public ImageObserver {
 public:
  void OnSent(int64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    sent_bytes = bytes;
  }
  void OnHeader(const v1::UpscaleImageHeader& header) override { model = header.model(); }
  void OnProgress(const v1::UpscaleProgress& progress) override {
    tiles_done.push_back(progress.tiles_done());
  }
  void OnRetry(const absl::Status& error, absl::Duration) override {
    retries.push_back(std::string(error.message()));
  }

  int64_t sent_bytes = 0;
  std::string model;
  std::vector<int64_t> tiles_done;
  std::vector<std::string> retries;

 private:
  absl::Mutex mutex_;
};

class FailingSource final : public ImageSource {
 public:
  absl::StatusOr<size_t> Read(std::span<char> dst, std::stop_token) override {
    if (++reads_ > 2) return absl::DataLossError("the disk is broken");
    return dst.size();
  }
  absl::Status Rewind() override { return absl::OkStatus(); }

 private:
  int reads_ = 0;
};

// Never has a byte to give.
class BlockedSource final : public ImageSource {
 public:
  absl::StatusOr<size_t> Read(std::span<char>, std::stop_token stop) override {
    absl::Notification stopped;
    std::stop_callback callback(stop, [&] { stopped.Notify(); });
    stopped.WaitForNotification();
    return absl::CancelledError("");
  }
  absl::Status Rewind() override { return absl::OkStatus(); }
};

class FailingSink final : public ImageSink {
 public:
  absl::Status Write(absl::string_view) override {
    return absl::ResourceExhaustedError("disk full");
  }
  absl::Status Restart() override { return absl::OkStatus(); }
};

class UpscaleClientTest : public ::testing::Test {
 protected:
  UpscaleClientTest() : image_(RandomBytes(kImageBytes, 1)) {}

  UpscaleClient Client(absl::Duration timeout = absl::InfiniteDuration()) {
    return UpscaleClient(
        grpc::CreateChannel(server_.endpoint(), grpc::InsecureChannelCredentials()),
        // Time for three waits until a full server's moment.
        RetryPolicy{.max_retries = 3,
                    .max_total_wait = absl::Seconds(3.5 * FakeServer::kTileRetryDelaySeconds)},
        timeout, clock_);
  }
  absl::StatusOr<ImageResult> Run(ImageSource& source, ImageSink& sink) {
    UpscaleClient client = Client();
    return client.UpscaleImage(ImageRequest{}, source, sink, recorder_, stop_.get_token());
  }

  FakeClock clock_;
  FakeServer server_;
  Recorder recorder_;
  std::stop_source stop_;
  const std::string image_;
  MemorySink sink_;
};

TEST_F(UpscaleClientTest, StreamsAnImageThroughTheServer) {
  MemorySource source(image_);
  ImageRequest request{.request_id = "my-id"};
  request.options.set_scale(2);
  UpscaleClient client = Client();
  const absl::StatusOr<ImageResult> result = client.UpscaleImage(request, source, sink_, recorder_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(sink_.bytes(), FakeResult(image_));
  EXPECT_EQ(result->header.model(), "fake");
  EXPECT_EQ(result->summary.result_bytes(), static_cast<int64_t>(kImageBytes));
  EXPECT_EQ(result->source_bytes, static_cast<int64_t>(kImageBytes));
  EXPECT_EQ(result->attempts, 1);
  EXPECT_EQ(recorder_.sent_bytes, static_cast<int64_t>(kImageBytes));
  EXPECT_EQ(recorder_.model, "fake");
  EXPECT_THAT(recorder_.tiles_done, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(server_.starts().at(0).request_id(), "my-id");
  EXPECT_EQ(server_.starts().at(0).total_bytes(), static_cast<int64_t>(kImageBytes));
  EXPECT_TRUE(server_.starts().at(0).report_progress());
}

TEST_F(UpscaleClientTest, ReceivesWhileItSends) {
  // Half of the result comes before the rest of the image is read.
  server_.OnImage([](FakeImageCall& call) {
    call.Receive(1);
    call.SendHeader();
    call.SendProgress(1);
    call.ReceiveAll();
    call.SendResult();
    call.SendSummary();
    return grpc::Status::OK;
  });
  MemorySource source(image_);
  ASSERT_TRUE(Run(source, sink_).ok());
  EXPECT_EQ(sink_.bytes(), FakeResult(image_));
}

TEST_F(UpscaleClientTest, StartsAnewAfterABrokenResult) {
  server_.OnImage([](FakeImageCall& call) {
    if (call.number > 2) return FakeServer::Serve(call);
    call.ReceiveAll();
    call.SendHeader();
    call.SendResult(/*whole=*/false);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, absl::StrCat("broken ", call.number));
  });
  MemorySource source(image_);
  const absl::StatusOr<ImageResult> result = Run(source, sink_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->attempts, 3);
  EXPECT_EQ(sink_.bytes(), FakeResult(image_));
  EXPECT_THAT(recorder_.retries, ElementsAre("broken 1", "broken 2"));
}

TEST_F(UpscaleClientTest, WaitsAsLongAsTheServerAsks) {
  server_.OnImage([](FakeImageCall& call) {
    if (call.number > 1) return FakeServer::Serve(call);
    return ServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "OVERLOADED",
                       absl::Seconds(30));
  });
  MemorySource source(image_);
  ASSERT_TRUE(Run(source, sink_).ok());
  ASSERT_EQ(clock_.sleeps().size(), 1u);
  EXPECT_GE(clock_.sleeps()[0], absl::Seconds(30));
}

TEST_F(UpscaleClientTest, EarlyRefusalEndsTheUpload) {
  // The server refuses at once, while the client never sends anything more.
  server_.OnImage([](FakeImageCall&) {
    return ServerError(grpc::StatusCode::INVALID_ARGUMENT, "too large", "LIMIT_EXCEEDED");
  });
  BlockedSource source;
  const absl::Status status = Run(source, sink_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailsOf(status).reason, "LIMIT_EXCEEDED");
  EXPECT_EQ(server_.calls(), 1);
}

TEST_F(UpscaleClientTest, DoesNotRepeatWhatThePipeForgot) {
  server_.OnImage([](FakeImageCall& call) {
    call.ReceiveAll();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  });
  TempFolder folder;
  WriteText(folder / "in", image_);
  const UniqueFd file(open((folder / "in").c_str(), O_RDONLY));
  PipeSource source(file.get(), /*max_replay_bytes=*/kImageBytes - 1);
  EXPECT_EQ(Run(source, sink_).status().message(), "gone");
  EXPECT_EQ(server_.calls(), 1);
}

TEST_F(UpscaleClientTest, GivesUpAfterTheLastRetry) {
  server_.OnImage(
      [](FakeImageCall&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"); });
  MemorySource source(image_);
  const absl::Status status = Run(source, sink_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_.calls(), 4);
}

TEST_F(UpscaleClientTest, AResultWithoutSummaryIsIncomplete) {
  server_.OnImage([](FakeImageCall& call) {
    call.ReceiveAll();
    call.SendHeader();
    call.SendResult();
    return grpc::Status::OK;
  });
  MemorySource source(image_);
  const absl::Status status = Run(source, sink_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DetailsOf(status).origin, ErrorOrigin::kServer);
  EXPECT_THAT(std::string(status.message()), HasSubstr("without its summary"));
}

TEST_F(UpscaleClientTest, AResultBeforeItsHeaderIsAnError) {
  server_.OnImage([](FakeImageCall& call) {
    call.ReceiveAll();
    call.SendResult();
    return grpc::Status::OK;
  });
  MemorySource source(image_);
  EXPECT_EQ(Run(source, sink_).status().code(), absl::StatusCode::kInternal);
}

TEST_F(UpscaleClientTest, ErrorsOfTheSourceCancelTheCall) {
  absl::Notification cancelled;
  server_.OnImage([&](FakeImageCall& call) {
    call.WaitForCancellation();
    cancelled.Notify();
    return grpc::Status::CANCELLED;
  });
  FailingSource source;
  EXPECT_EQ(Run(source, sink_).status(), absl::DataLossError("the disk is broken"));
  cancelled.WaitForNotification();
}

TEST_F(UpscaleClientTest, ErrorsOfTheSinkCancelTheCall) {
  absl::Notification cancelled;
  server_.OnImage([&](FakeImageCall& call) {
    call.Receive(kImageBytes / 2);
    call.SendHeader();
    call.SendResult();
    call.WaitForCancellation();
    cancelled.Notify();
    return grpc::Status::CANCELLED;
  });
  MemorySource source(image_);
  FailingSink sink;
  EXPECT_EQ(Run(source, sink).status(), absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(server_.calls(), 1);
  cancelled.WaitForNotification();
}

TEST_F(UpscaleClientTest, StopCancelsTheCall) {
  absl::Notification started;
  server_.OnImage([&](FakeImageCall& call) {
    started.Notify();
    call.WaitForCancellation();
    return grpc::Status::CANCELLED;
  });
  std::thread stopper([&] {
    started.WaitForNotification();
    stop_.request_stop();
  });
  BlockedSource source;
  EXPECT_EQ(Run(source, sink_).status().code(), absl::StatusCode::kCancelled);
  stopper.join();
}

TEST_F(UpscaleClientTest, StopBeforeTheCallMakesNone) {
  stop_.request_stop();
  MemorySource source(image_);
  EXPECT_EQ(Run(source, sink_).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(UpscaleClientTest, TheDeadlineEndsTheCall) {
  server_.OnImage([](FakeImageCall& call) {
    call.WaitForCancellation();
    return grpc::Status::CANCELLED;
  });
  UpscaleClient client = Client(/*timeout=*/absl::Milliseconds(300));
  ASSERT_TRUE(client.Connect(absl::Seconds(30)).ok());
  BlockedSource source;
  const absl::Status status =
      client.UpscaleImage(ImageRequest{}, source, sink_, recorder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(DetailsOf(status).origin, ErrorOrigin::kServer);
}

v1::Tile MakeTile(uint64_t id, const std::string& pixels) {
  v1::Tile tile;
  tile.set_id(id);
  tile.set_width_px(1);
  tile.set_height_px(1);
  tile.set_bits_per_sample(8);
  tile.set_pixels(pixels);
  return tile;
}

TEST_F(UpscaleClientTest, SendsOnlyUnansweredTilesAgain) {
  server_.OnTile([](int call, const v1::Tile& tile) {
    if (tile.id() == 30 && call == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "");
    return grpc::Status::OK;
  });
  const std::vector<v1::Tile> tiles = {MakeTile(10, "abc"), MakeTile(20, ""), MakeTile(30, "def"),
                                       MakeTile(40, "ghi")};
  std::map<uint64_t, v1::UpscaleTilesResponse> answers;
  UpscaleClient client = Client();
  const absl::Status status =
      client.UpscaleTiles({}, tiles, [&](const v1::UpscaleTilesResponse& answer) {
        EXPECT_TRUE(answers.emplace(answer.id(), answer).second) << "answered twice";
      });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[10].tile().pixels(), "abc");
  EXPECT_EQ(answers[20].error().message(), "no pixels");
  EXPECT_EQ(answers[30].tile().pixels(), "def");
  EXPECT_THAT(server_.tile_ids(), ElementsAre(10, 20, 30, 30, 40));
}

TEST_F(UpscaleClientTest, SendsTilesAgainThatWereTurnedAway) {
  server_.OnTile([](int call, const v1::Tile& tile) {
    const bool full = tile.id() == 30 || (tile.id() == 20 && call == 1);
    return full ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full") : grpc::Status::OK;
  });
  const std::vector<v1::Tile> tiles = {MakeTile(10, "abc"), MakeTile(20, "def"),
                                       MakeTile(30, "ghi")};
  std::map<uint64_t, v1::UpscaleTilesResponse> answers;
  UpscaleClient client = Client();
  const absl::Status status =
      client.UpscaleTiles({}, tiles, [&](const v1::UpscaleTilesResponse& answer) {
        EXPECT_TRUE(answers.emplace(answer.id(), answer).second) << "answered twice";
      });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[10].tile().pixels(), "abc");
  EXPECT_EQ(answers[20].tile().pixels(), "def");
  EXPECT_EQ(answers[30].error().message(), "full");  // After max_total_wait.
  EXPECT_THAT(server_.tile_ids(), ElementsAre(10, 20, 30, 20, 30, 30, 30));
  ASSERT_EQ(clock_.sleeps().size(), 3u);
  EXPECT_GE(clock_.sleeps()[0], absl::Seconds(FakeServer::kTileRetryDelaySeconds));
}

TEST_F(UpscaleClientTest, TileIdsMustDiffer) {
  const std::vector<v1::Tile> tiles = {MakeTile(7, "a"), MakeTile(7, "b")};
  UpscaleClient client = Client();
  const absl::Status status = client.UpscaleTiles({}, tiles, [](const auto&) {});
  EXPECT_EQ(status, absl::InvalidArgumentError("tile id 7 is given twice"));
}

TEST_F(UpscaleClientTest, AnOlderServerDoesNotDescribeTiles) {
  UpscaleClient client = Client();
  const auto header = client.DescribeTiles({});
  EXPECT_TRUE(absl::IsUnimplemented(header.status())) << header.status();
  EXPECT_EQ(DetailsOf(header.status()).origin, ErrorOrigin::kServer);
}

TEST_F(UpscaleClientTest, UnaryCallsAreTriedAgain) {
  server_.OnUnary([](int call) {
    return call == 1 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "") : grpc::Status::OK;
  });
  UpscaleClient client = Client();
  const absl::StatusOr<v1::ListModelsResponse> models = client.ListModels();
  ASSERT_TRUE(models.ok());
  EXPECT_EQ(models->models_size(), 2);
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_EQ(client.GetModel("mine").value().name(), "mine");
  EXPECT_EQ(client.ServerInfo().value().version(), "0.0.fake");
  v1::UpscaleRequest request;
  request.set_image("small");
  EXPECT_EQ(client.Upscale(request).value().image(), FakeResult("small"));
}

TEST_F(UpscaleClientTest, HealthIsAskedOnce) {
  UpscaleClient client = Client();
  EXPECT_EQ(client.CheckHealth("").value(), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(client.CheckHealth("nobody").status().code(), absl::StatusCode::kNotFound);
}

TEST(ApiKeyTest, AndPriorityGoAlongWithEveryCall) {
  FakeServer server;
  const auto client = UpscaleClient::Create({.channel = {.endpoints = {server.endpoint()}},
                                             .api_key = "a-key",
                                             .priority = "background"});
  ASSERT_TRUE(client.ok()) << client.status();
  MemorySource source("an image");
  MemorySink sink;
  ASSERT_TRUE((*client)->UpscaleImage({}, source, sink).ok());
  const std::vector<v1::Tile> tiles = {MakeTile(1, "abc")};
  ASSERT_TRUE((*client)->UpscaleTiles({}, tiles, [](const auto&) {}).ok());
  ASSERT_TRUE((*client)->ListModels().ok());
  EXPECT_THAT(server.authorizations(), ElementsAre("Bearer a-key", "Bearer a-key", "Bearer a-key"));
  EXPECT_THAT(server.priorities(), ElementsAre("background", "background", "background"));
}

}  // namespace
}  // namespace upscaled::client
