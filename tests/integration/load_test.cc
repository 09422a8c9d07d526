// Clients outside the textbook: too much, too slow, too late, gone.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::StatusCode;
using test::Encode;
using test::FreshRandom;
using test::PhotoImage;
using ::testing::HasSubstr;

// A call in the middle of it, driven by hand.
struct ManualCall {
  grpc::ClientContext context;
  std::unique_ptr<ClientStream> stream;

  void Start(pb::UpscaleService::Stub& stub, const pb::UpscaleImageRequest& start) {
    stream = stub.UpscaleImage(&context);
    ASSERT_TRUE(stream->Write(start));
  }
  void SendAll(std::string_view image) {
    ASSERT_TRUE(stream->Write(ChunkMessage(image)));
    ASSERT_TRUE(stream->WritesDone());
  }
  Outcome Finish() {
    Outcome outcome;
    ReadToEnd(context, *stream, outcome);
    return outcome;
  }
};

class LoadTest : public ::testing::Test {
 protected:
  std::string Png(int width, int height) {
    return *Encode(PhotoImage({width, height, 3, SampleType::kU8}, random_).view(), {});
  }

  static pb::UpscaleOptions SmallTiles() {
    pb::UpscaleOptions options;
    options.set_tile_px(kTilePx);
    return options;
  }

  // Starts a call with its tiles before the closed gate.
  void StartGated(TestServer& server, ManualCall& call, const std::string& image) {
    server.gate().Close();
    call.Start(server.stub(), StartMessage(SmallTiles()));
    call.SendAll(image);
    server.gate().AwaitWaiting(2);
  }

  static void AwaitQueuedTiles(TestServer& server, int64_t count) {
    const auto queued = [&] { return server.server().tile_load().queued_tiles; };
    ASSERT_TRUE(test::Comes([&] { return queued() == count; }))
        << queued() << " tiles are queued, not " << count;
  }

  // Starts a call of two tiles, in both streams, and one of twenty, behind them.
  void StartQueued(TestServer& server, ManualCall& running, ManualCall& queued) {
    StartGated(server, running, Png(2 * kTilePx, kTilePx));
    queued.Start(server.stub(), StartMessage(SmallTiles()));
    queued.SendAll(Png(20 * kTilePx, kTilePx));
    AwaitQueuedTiles(server, 20);
  }

  // Only the first call's tiles have run, and only after the queue was empty.
  void ExpectDropped(TestServer& server, ManualCall& running) {
    AwaitQueuedTiles(server, 0);
    EXPECT_EQ(server.server().tile_load().running_tiles, 2);
    EXPECT_EQ(server.gate().tiles_passed(), kWarmUpTiles);
    server.gate().Open();
    EXPECT_TRUE(running.Finish().status.ok());
    server.AwaitIdle();
    EXPECT_EQ(server.gate().tiles_passed(), kWarmUpTiles + 2);
  }

  std::mt19937 random_ = FreshRandom();
};

TEST_F(LoadTest, CancellingDropsTheQueuedTiles) {
  TestServer server;
  ManualCall running, queued;
  StartQueued(server, running, queued);
  queued.context.TryCancel();
  ExpectDropped(server, running);
  EXPECT_EQ(queued.Finish().status.error_code(), StatusCode::CANCELLED);
  EXPECT_THAT(server.log(), HasSubstr("CANCELLED"));
}

TEST_F(LoadTest, TheDeadlineDropsTheQueuedTiles) {
  TestServer server;
  ManualCall running, queued;
  queued.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  StartQueued(server, running, queued);
  ExpectDropped(server, running);
  EXPECT_EQ(queued.Finish().status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(server.log(), HasSubstr("DEADLINE"));
}

TEST_F(LoadTest, CallsBeyondTheSlotsAreToldWhenToComeBack) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 1;
  TestServer server(config);
  const std::string image = Png(4 * kTilePx, kTilePx);
  ManualCall call;
  StartGated(server, call, image);

  const Outcome refused = UpscaleImage(server.stub(), SmallTiles(), image);
  EXPECT_TRUE(IsError(refused.status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", "1"));
  ASSERT_TRUE(RetryDelayOf(refused.status).has_value());
  EXPECT_GT(*RetryDelayOf(refused.status), absl::ZeroDuration());
  const auto pushback = refused.trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, refused.trailers.end());
  EXPECT_EQ(pushback->second,
            absl::StrCat(absl::ToInt64Milliseconds(*RetryDelayOf(refused.status))));

  pb::UpscaleRequest request;
  request.set_image(image);
  pb::UpscaleResponse response;
  grpc::ClientContext unary_context;
  EXPECT_TRUE(IsError(server.stub().Upscale(&unary_context, request, &response),
                      StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", "1"));
  grpc::ClientContext info_context;  // answers from memory are not counted
  pb::GetServerInfoResponse info;
  EXPECT_TRUE(server.stub().GetServerInfo(&info_context, {}, &info).ok());

  server.gate().Open();
  EXPECT_TRUE(call.Finish().status.ok());
  EXPECT_TRUE(UpscaleImage(server.stub(), SmallTiles(), image).status.ok());
}

TEST_F(LoadTest, PixelsBeyondTheQueueAreToldWhenToComeBack) {
  ServerConfig config = TestConfig();
  config.limits.max_queue_pixels = 5 * kTilePx * kTilePx;
  TestServer server(config);
  const auto image = [this] { return Png(4 * kTilePx, kTilePx); };  // equal ones are computed once
  ManualCall calls[4];  // each is worth more than a quarter of the queue
  StartGated(server, calls[0], image());
  const int64_t cost = server.server().admission_state().queue_cost;
  for (int i = 1; i < 4; ++i) {
    calls[i].Start(server.stub(), StartMessage(SmallTiles()));
    calls[i].SendAll(image());
    test::Await([&] { return server.server().admission_state().queue_cost >= (i + 1) * cost; });
  }
  const Outcome refused = UpscaleImage(server.stub(), SmallTiles(), image());
  EXPECT_TRUE(IsError(refused.status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", "20480"));
  EXPECT_TRUE(RetryDelayOf(refused.status).has_value());
  EXPECT_FALSE(refused.header.has_value());
  server.gate().Open();
  for (ManualCall& call : calls) EXPECT_TRUE(call.Finish().status.ok());
  EXPECT_TRUE(UpscaleImage(server.stub(), SmallTiles(), image()).status.ok());
}

TEST_F(LoadTest, ManyMoreClientsThanSlots) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 3;
  TestServer server(config);
  const std::string image = Png(100, 70);
  const std::string expected = UpscaleImage(server.stub(), SmallTiles(), image).image;
  std::atomic<int> finished = 0, refused = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 12; ++client) {
    clients.emplace_back([&] {
      const auto stub = pb::UpscaleService::NewStub(server.NewChannel());
      for (int i = 0; i < 5; ++i) {
        const Outcome outcome = UpscaleImage(*stub, SmallTiles(), image);
        if (outcome.status.ok()) {
          EXPECT_TRUE(outcome.image == expected);
          ++finished;
        } else {
          EXPECT_EQ(ReasonOf(outcome.status), "OVERLOADED");
          EXPECT_TRUE(RetryDelayOf(outcome.status).has_value());
          ++refused;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(finished + refused, 60);
  EXPECT_GT(finished, 0);
}

// A result far larger than all queues on the way. Before its second message is read, a call has
// reserved memory for its messages; the streams' scratch memory is reserved from the start.
TEST_F(LoadTest, MessagesAndScratchAreInTheBudget) {
  pb::UpscaleTilesRequest start;
  start.mutable_start();
  struct SilentCall {
    SilentCall(TestServer& server, const pb::UpscaleTilesRequest& start)
        : stream(server.stub().UpscaleTiles(&context)) {
      EXPECT_TRUE(stream->Write(start));
      test::Await([&] { return server.server().admission_state().requests != 0; });
    }
    ~SilentCall() { context.TryCancel(); }
    grpc::ClientContext context;
    const std::unique_ptr<
        grpc::ClientReaderWriter<pb::UpscaleTilesRequest, pb::UpscaleTilesResponse>>
        stream;
  };
  ServerConfig config = TestConfig();
  AdmissionState one_call;
  {
    TestServer server(config);
    const SilentCall call(server, start);
    one_call = server.server().admission_state();
  }
  EXPECT_GT(one_call.memory_bytes, 2 * 6 * config.limits.max_tile_pixels);
  EXPECT_GT(one_call.scratch_bytes, 0);

  config.memory_budget_bytes = one_call.scratch_bytes + 2 * one_call.memory_bytes - 1;
  TestServer server(config);
  {
    const SilentCall call(server, start);
    grpc::ClientContext context;
    const auto stream = server.stub().UpscaleTiles(&context);
    stream->Write(start);
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(IsError(status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", "memory-budget"));
    EXPECT_TRUE(RetryDelayOf(status).has_value());
  }
  server.AwaitIdle();
  const Outcome outcome = UpscaleImage(server.stub(), pb::UpscaleOptions(), Png(30, 20));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
}

class SlowReaderTest : public LoadTest {
 protected:
  static constexpr int kHeight = 3200;
  static constexpr int kTiles = kHeight / kTilePx * 4;

  // Asks for 25 MB and reads nothing yet.
  void StartUnread(TestServer& server, ManualCall& call) {
    const Image image = PhotoImage({4 * kTilePx, kHeight, 3, SampleType::kU8}, random_);
    image_ = *Encode(image.view(), {});
    pb::UpscaleOptions options = SmallTiles();
    options.set_png_compression(0);
    options.set_keep_colours(false);  // whose rows are no part of what a slow reader holds
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // keeps the transport's own window small
    stub_ = pb::UpscaleService::NewStub(server.NewChannel(arguments));
    call.Start(*stub_, StartMessage(options));
    for (std::string_view rest = image_; !rest.empty();) {
      if (!call.stream->Write(ChunkMessage(rest.substr(0, 64 << 10)))) return;  // given up on
      rest.remove_prefix(std::min<size_t>(rest.size(), 64 << 10));
    }
    call.stream->WritesDone();
  }

  std::string image_;
  std::unique_ptr<pb::UpscaleService::Stub> stub_;
};

TEST_F(SlowReaderTest, HoldsUpNobodyAndNothing) {
  ServerConfig config = TestConfig();
  config.spool_bytes = 0;
  TestServer server(config);
  ManualCall call;
  StartUnread(server, call);
  // Others are served until the slow one's queue has filled up and its tiles have run dry.
  const std::string other = Png(2 * kTilePx, kTilePx);
  int64_t before = 0, tiles = 0, of_others = 0;
  do {
    of_others += tiles;
    before = server.gate().tiles_passed();
    const Outcome outcome = UpscaleImage(server.stub(), SmallTiles(), other);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    tiles = outcome.summary->tiles();
  } while (server.gate().tiles_passed() > before + tiles || before <= 1 + tiles);
  EXPECT_LT(before - of_others, kTiles / 2);
  const int64_t reserved = server.server().admission_state().memory_bytes;
  EXPECT_GT(reserved, 0);
  // Metadata behind the pixels and the rows of gray areas are 1.2 MiB of it.
  EXPECT_LT(reserved, 26 << 20);

  const Outcome outcome = call.Finish();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  pb::UpscaleOptions options = SmallTiles();
  options.set_png_compression(0);
  options.set_keep_colours(false);
  EXPECT_TRUE(outcome.image == UpscaleImage(server.stub(), options, image_).image);
}

// With a disk its result waits there, and its slot is another's.
TEST_F(SlowReaderTest, HoldsNoSlotWhileItsResultIsOnTheDisk) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 1;
  TestServer server(config);
  ManualCall call;
  StartUnread(server, call);
  test::Await([&] {
    const AdmissionState state = server.server().admission_state();
    return server.gate().tiles_passed() >= kTiles && state.requests == 0;
  });
  EXPECT_LT(server.server().admission_state().memory_bytes, 2 << 20);
  const Outcome other = UpscaleImage(server.stub(), SmallTiles(), Png(2 * kTilePx, kTilePx));
  EXPECT_TRUE(other.status.ok()) << other.status.error_message();
  const Outcome outcome = call.Finish();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  pb::UpscaleOptions options = SmallTiles();
  options.set_png_compression(0);
  options.set_keep_colours(false);
  EXPECT_TRUE(outcome.image == UpscaleImage(server.stub(), options, image_).image);
}

TEST_F(SlowReaderTest, IsGivenUpInTheEnd) {
  for (const bool spools : {false, true}) {
    SCOPED_TRACE(spools);
    ServerConfig config = TestConfig();
    config.stall_timeout = absl::Seconds(2);
    if (!spools) config.spool_bytes = 0;
    TestServer server(config);
    ManualCall call;
    StartUnread(server, call);
    test::Await([&] { return absl::StrContains(server.log(), "STALLED"); });
    EXPECT_THAT(server.log(), HasSubstr("took none of its result for 2s"));
    server.AwaitIdle();
    if (!spools) {
      EXPECT_LT(server.gate().tiles_passed(), kTiles);
    }
    const Outcome outcome = call.Finish();
    EXPECT_EQ(outcome.status.error_code(), StatusCode::ABORTED) << outcome.status.error_message();
    EXPECT_FALSE(outcome.summary.has_value());
  }
}

// Its memory stays reserved until then.
TEST_F(LoadTest, AUnaryResultThatNobodyReadsIsGivenUp) {
  ServerConfig config = TestConfig();
  config.stall_timeout = absl::Seconds(2);
  TestServer server(config);
  pb::UpscaleRequest request;
  request.set_image(Png(512, 512));
  request.mutable_options()->set_png_compression(0);  // 3 MB
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  grpc::GenericStub stub(server.NewChannel(arguments));  // the generated one reads
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, "/upscale.v1.UpscaleService/Upscale", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(await());
  const grpc::Slice bytes(request.SerializeAsString());
  call->WriteLast(grpc::ByteBuffer(&bytes, 1), {}, nullptr);
  ASSERT_TRUE(await());

  test::Await([&] { return absl::StrContains(server.log(), "Upscale"); });
  EXPECT_GT(server.server().admission_state().memory_bytes, 3 << 20);
  server.AwaitIdle();
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  await();
  EXPECT_FALSE(status.ok());
  queue.Shutdown();
}

TEST_F(LoadTest, AnUploadThatStopsIsGivenUp) {
  ServerConfig config = TestConfig();
  config.stall_timeout = absl::Milliseconds(200);
  TestServer server(config);
  const std::string image = Png(500, 300);
  ManualCall call;
  call.Start(server.stub(), StartMessage({}));
  ASSERT_TRUE(call.stream->Write(ChunkMessage(std::string_view(image).substr(0, 1000))));
  const Outcome outcome = call.Finish();
  EXPECT_TRUE(IsError(outcome.status, StatusCode::ABORTED, "STALLED", "200ms"));
}

TEST_F(LoadTest, AClientThatLeavesMidUploadIsForgotten) {
  TestServer server;
  const std::string image = Png(500, 300);
  for (const size_t sent : {size_t{0}, size_t{10}, image.size() / 2}) {
    auto channel = server.NewChannel();
    const auto stub = pb::UpscaleService::NewStub(channel);
    ManualCall call;
    call.Start(*stub, StartMessage({}));
    if (sent > 0) {
      ASSERT_TRUE(call.stream->Write(ChunkMessage(std::string_view(image).substr(0, sent))));
    }
    test::Await([&] { return server.server().admission_state().requests != 0; });
    call.context.TryCancel();
    EXPECT_EQ(call.Finish().status.error_code(), StatusCode::CANCELLED);
    server.AwaitIdle();
  }
}

TEST_F(LoadTest, DrainingFinishesWhatWasAdmitted) {
  TestServer server;
  const std::string image = Png(6 * kTilePx, kTilePx);
  ManualCall call;
  StartGated(server, call, image);
  bool finished = false;
  std::thread drain([&] { finished = server.server().Drain(absl::InfiniteDuration()); });
  test::Await([&] { return server.server().admission_state().draining; });
  EXPECT_TRUE(IsError(UpscaleImage(server.stub(), SmallTiles(), image).status,
                      StatusCode::UNAVAILABLE, "DRAINING", ""));
  server.gate().Open();
  EXPECT_TRUE(call.Finish().status.ok());
  drain.join();
  EXPECT_TRUE(finished);
  EXPECT_EQ(UpscaleImage(server.stub(), SmallTiles(), image).status.error_code(),
            StatusCode::UNAVAILABLE);
}

TEST_F(LoadTest, DrainingDoesNotWaitForever) {
  TestServer server;
  ManualCall call;
  ManualCall queued;
  StartQueued(server, call, queued);
  bool finished = true;
  std::thread drain([&] { finished = server.server().Drain(absl::Milliseconds(100)); });
  AwaitQueuedTiles(server, 0);
  EXPECT_TRUE(IsError(queued.Finish().status, StatusCode::UNAVAILABLE, "DRAINING", ""));
  server.gate().Open();
  EXPECT_TRUE(IsError(call.Finish().status, StatusCode::UNAVAILABLE, "DRAINING", ""));
  drain.join();
  EXPECT_FALSE(finished);
}

}  // namespace
}  // namespace upscaled::server
