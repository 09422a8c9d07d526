// The end of a server while its calls come and go.
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr int kRounds = 8;

// The device matters to none of these tests, and this one starts soonest.
ServerConfig QuickConfig() {
  ServerConfig config = TestConfig();
  config.devices = {"reference"};
  config.limits.max_concurrent_requests = 1000;
  return config;
}

// A client's end of a call and the shutdown's reach each watch from different threads.
TEST(DrainTest, MeetsWatchesWhoseClientsLeave) {
  constexpr int kWatches = 100;
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < kRounds; ++round) {
    TestServer server(QuickConfig());
    const auto stub = Health::NewStub(server.channel());
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
    for (int i = 0; i < kWatches; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      watches.push_back(stub->Watch(contexts.back().get(), HealthCheckRequest()));
      HealthCheckResponse response;
      ASSERT_TRUE(watches.back()->Read(&response));
    }
    EXPECT_EQ(server.server().health_watches(), kWatches);
    const auto begin_at = static_cast<int>(random() % kWatches);
    absl::Notification begin;
    std::thread clients([&] {
      for (int i = 0; i < kWatches; ++i) {
        if (i == begin_at) begin.Notify();
        contexts[static_cast<size_t>(i)]->TryCancel();
      }
    });
    begin.WaitForNotification();
    EXPECT_TRUE(server.server().Drain(absl::InfiniteDuration()));
    EXPECT_EQ(server.server().health_watches(), 0);
    clients.join();
    for (const auto& watch : watches) EXPECT_FALSE(watch->Finish().ok());
  }
}

// One call of a random kind, given up by its client at a random step. Whether the server takes
// calls still.
bool CallAndLeave(TestServer& server, const std::string& image, std::mt19937& random) {
  grpc::ClientContext context;
  grpc::Status status;
  switch (random() % 4) {
    case 0: {
      const auto stub = Health::NewStub(server.channel());
      const auto watch = stub->Watch(&context, HealthCheckRequest());
      HealthCheckResponse response;
      if (random() % 2 == 0) watch->Read(&response);
      context.TryCancel();
      status = watch->Finish();
      break;
    }
    case 1: {
      const auto stream = server.stub().UpscaleImage(&context);
      stream->Write(StartMessage({}));
      if (random() % 2 == 0) stream->Write(ChunkMessage(image));
      context.TryCancel();
      status = stream->Finish();
      break;
    }
    case 2: {
      std::thread leave([&] { context.TryCancel(); });
      pb::UpscaleRequest request;
      request.set_image(image);
      pb::UpscaleResponse response;
      status = server.stub().Upscale(&context, request, &response);
      leave.join();
      break;
    }
    default: {
      pb::GetServerInfoResponse response;
      status = server.stub().GetServerInfo(&context, {}, &response);
    }
  }
  return status.error_code() != grpc::StatusCode::UNAVAILABLE;
}

TEST(DrainTest, MeetsCallsThatComeAndLeave) {
  constexpr int kClients = 3;
  constexpr int kMaxCalls = 10'000;  // a server that does not drain ends the test all the same
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 10, 3, SampleType::kU8}, random);
  const std::string file = *test::Encode(image.view(), {});
  for (int round = 0; round < kRounds; ++round) {
    TestServer server(QuickConfig());
    std::atomic<int> calls = 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&, seed = random()] {
        std::mt19937 own(seed);
        while (CallAndLeave(server, file, own) && ++calls < kMaxCalls) {
        }
      });
    }
    const int enough = 20 + static_cast<int>(random() % 20);
    test::Await([&] { return calls >= enough; });
    EXPECT_TRUE(server.server().Drain(absl::InfiniteDuration()));
    for (std::thread& client : clients) client.join();
    EXPECT_LT(calls, kMaxCalls);
  }
}

}  // namespace
}  // namespace upscaled::server
