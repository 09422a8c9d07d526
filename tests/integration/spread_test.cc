// One image over several servers (client/spread) against the same image by one of them.
#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/spread/remote_network.h"
#include "client/spread/spread_client.h"
#include "client/spread/spread_plan.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::MemorySink;
using client::MemorySource;
using test::FreshRandom;
using ::testing::HasSubstr;

// Counts its events.
class Listener final : public client::ImageObserver {
 public:
  void OnHeader(const pb::UpscaleImageHeader& header) override { header_ = header; }
  void OnProgress(const pb::UpscaleProgress& progress) override {
    EXPECT_GT(progress.tiles_done(), tiles_done_);
    EXPECT_EQ(progress.tiles(), header_.tiles());
    tiles_done_ = progress.tiles_done();
  }
  void OnRetry(const absl::Status& error, absl::Duration /*wait*/) override {
    ADD_FAILURE() << "starts anew: " << error;
  }
  int64_t tiles_done() const { return tiles_done_; }
  const pb::UpscaleImageHeader& header() const { return header_; }

 private:
  pb::UpscaleImageHeader header_;
  int64_t tiles_done_ = 0;
};

class SpreadTest : public ::testing::Test {
 protected:
  static client::SpreadClient SpreadOver(const std::vector<TestServer*>& servers,
                                         const client::RetryPolicy& retry = {}) {
    client::ClientOptions options{.retry = retry};
    options.channel.endpoints.clear();
    for (TestServer* server : servers) {
      options.channel.endpoints.push_back(absl::StrCat("127.0.0.1:", server->server().grpc_port()));
    }
    auto made = client::UpscaleClient::Create(options);
    EXPECT_TRUE(made.ok()) << made.status();
    return client::SpreadClient(*std::move(made), {.calls = 4});
  }

  // Until the client's connections to all of them stand: calls go round the working ones.
  static void AwaitConnections(client::SpreadClient& spread,
                               const std::vector<TestServer*>& servers) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    const auto answered = [](TestServer* server) {
      return absl::StrContains(server->log(), "method=GetServerInfo");
    };
    while (!std::ranges::all_of(servers, answered)) {
      ASSERT_LT(absl::Now(), deadline);
      const auto info = spread.ServerInfo();
      ASSERT_TRUE(info.ok()) << info.status();
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  std::mt19937 random_ = FreshRandom();
};

struct Case {
  const char* name;
  ImageSpec source;
  const char* options;  // as text
};

TEST_F(SpreadTest, GivesTheBytesOfOneServer) {
  TestServer one, other;
  client::SpreadClient spread = SpreadOver({&one, &other});
  const Case cases[] = {
      {"many tiles", {700, 300, 3, SampleType::kU8}, "tile_px: 96"},
      {"a tile", {33, 21, 3, SampleType::kU8}, ""},
      {"gray", {90, 70, 1, SampleType::kU8}, "model: 'fast-2x'"},
      {"16 bits and alpha", {150, 130, 4, SampleType::kU16}, "keep_16_bit: true tile_px: 64"},
      {"16 bits to 8", {80, 60, 3, SampleType::kU16}, ""},
      {"two passes and a resize", {70, 90, 3, SampleType::kU8}, "scale: 3.3 tile_px: 64"},
      {"width", {61, 47, 4, SampleType::kU8}, "size { width_px: 200 } model: 'fast-2x'"},
      {"noise, JPEG", {120, 80, 3, SampleType::kU8}, "noise_level: 2 format: IMAGE_FORMAT_JPEG"},
      {"no network", {50, 40, 3, SampleType::kU8}, "scale: 0.5"},
      {"flips and a filter",
       {64, 48, 3, SampleType::kU8},
       "tta: true prefilter { sigma_space: 1.5 sigma_range: 20 } model: 'fast-2x'"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    client::ImageRequest request;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(c.options, &request.options));
    const std::string image = *test::Encode(test::PhotoImage(c.source, random_).view(), {});
    const Outcome whole = UpscaleImage(one.stub(), request.options, image);
    ASSERT_TRUE(whole.status.ok()) << whole.status.error_message();

    MemorySource source(image);
    MemorySink sink;
    Listener listener;
    const auto result = spread.UpscaleImage(request, source, sink, listener);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(sink.bytes() == whole.image);
    EXPECT_EQ(result->summary.result_bytes(), static_cast<int64_t>(whole.image.size()));
    EXPECT_EQ(result->source_bytes, static_cast<int64_t>(image.size()));
    EXPECT_EQ(listener.header().result_width_px(), whole.header->result_width_px());
    EXPECT_EQ(listener.header().bits_per_sample(), whole.header->bits_per_sample());
    EXPECT_EQ(listener.tiles_done(), listener.header().tiles());
  }
}

TEST_F(SpreadTest, AllServersComputeTiles) {
  TestServer one, other;
  client::SpreadClient spread = SpreadOver({&one, &other});
  AwaitConnections(spread, {&one, &other});
  client::ImageRequest request;
  request.options.set_tile_px(64);
  const std::string image =
      *test::Encode(test::PhotoImage({512, 512, 3, SampleType::kU8}, random_).view(), {});
  const auto tiles = [](TestServer& server) { return server.gate().tiles_passed(); };
  const int64_t before[] = {tiles(one), tiles(other)};
  MemorySource source(image);
  MemorySink sink;
  Listener listener;
  ASSERT_TRUE(spread.UpscaleImage(request, source, sink, listener).ok());
  EXPECT_GT(tiles(one), before[0]);
  EXPECT_GT(tiles(other), before[1]);
}

TEST_F(SpreadTest, ServersThatComputeOtherwiseDoNotMix) {
  if (cpu::ListIsas().front() == cpu::Isa::kPortable) {
    GTEST_SKIP() << "this machine has one instruction set alone, so that all compute alike";
  }
  ServerConfig config = TestConfig();
  config.cpu_isa = "portable";
  TestServer one, other(config);
  client::SpreadClient spread = SpreadOver({&one, &other});
  AwaitConnections(spread, {&one, &other});
  client::ImageRequest request;
  request.options.set_tile_px(64);
  const std::string image =
      *test::Encode(test::PhotoImage({512, 512, 3, SampleType::kU8}, random_).view(), {});
  MemorySource source(image);
  MemorySink sink;
  Listener listener;
  const auto result = spread.UpscaleImage(request, source, sink, listener);
  EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
  EXPECT_THAT(result.status().message(), HasSubstr("this server's is"));
}

TEST_F(SpreadTest, ResultsOfTilesFitIntoAMessage) {
  TestServer server;
  client::UpscaleClient client(server.channel(), {});
  pb::UpscaleTilesStart start;
  start.set_scale(2);
  const auto side = [&](int64_t max_message_bytes) -> absl::StatusOr<int> {
    const auto network =
        client::RemoteNetwork::Open(client, start, int64_t{1} << 20, max_message_bytes, {});
    if (!network.ok()) return network.status();
    return (*network)->PreferredTile().width;
  };
  EXPECT_EQ(*side(int64_t{64} << 20), 512);
  const int small = *side(int64_t{1} << 20);
  EXPECT_LT(2 * small * 2 * small * 12, 1 << 20);
  EXPECT_GT(small, 128);
  EXPECT_TRUE(absl::IsFailedPrecondition(side(10'000).status())) << side(10'000).status();
}

TEST(FindModelTest, NamesComeBeforeAliases) {
  pb::ListModelsResponse models;
  pb::Model &one = *models.add_models(), &other = *models.add_models();
  one.set_name("one");
  one.add_aliases("other");
  one.add_aliases("alias");
  other.set_name("other");
  EXPECT_EQ(client::FindModel(models, "other")->name(), "other");
  EXPECT_EQ(client::FindModel(models, "alias")->name(), "one");
  EXPECT_TRUE(absl::IsNotFound(client::FindModel(models, "none").status()));
}

TEST_F(SpreadTest, ErrorsAreTold) {
  TestServer server;
  client::SpreadClient spread = SpreadOver({&server}, {.max_retries = 0});
  client::ImageRequest request;
  MemorySink sink;
  Listener listener;
  MemorySource text("this is no image");
  const auto no_image = spread.UpscaleImage(request, text, sink, listener);
  EXPECT_TRUE(absl::IsInvalidArgument(no_image.status())) << no_image.status();
  const std::string image =
      *test::Encode(test::PhotoImage({64, 64, 3, SampleType::kU8}, random_).view(), {});
  MemorySource source(image);
  request.options.set_model("nope");
  const auto unknown = spread.UpscaleImage(request, source, sink, listener);
  EXPECT_TRUE(absl::IsNotFound(unknown.status()));
  EXPECT_THAT(unknown.status().message(), HasSubstr("general-2x"));
  request.options.clear_model();
  server.gate().Fail(absl::InternalError("the chip is on fire"));
  MemorySource again(image);
  const auto burnt = spread.UpscaleImage(request, again, sink, listener);
  EXPECT_TRUE(absl::IsUnavailable(burnt.status())) << burnt.status();
  EXPECT_THAT(burnt.status().message(), HasSubstr("on fire"));
}

}  // namespace
}  // namespace upscaled::server
