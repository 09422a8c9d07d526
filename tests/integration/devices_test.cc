// Several devices behind one server, and their failures as clients see them.
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::StatusCode;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

ServerConfig ConfigWith(std::vector<std::string> devices) {
  ServerConfig config = TestConfig();
  config.devices = std::move(devices);
  config.threads = 1;
  return config;
}

class DevicesTest : public ::testing::Test {
 protected:
  // Many tiles, of random pixels.
  std::string Image() {
    return *test::Encode(test::PhotoImage({150, 90, 3, SampleType::kU8}, random_).view(), {});
  }
  static Outcome Upscale(TestServer& server, const std::string& image) {
    pb::UpscaleOptions options;
    options.set_tile_px(32);
    return UpscaleImage(server.stub(), options, image);
  }
  static pb::Device Info(TestServer& server, int slot) {
    grpc::ClientContext context;
    pb::GetServerInfoResponse info;
    EXPECT_TRUE(server.stub().GetServerInfo(&context, {}, &info).ok());
    return info.devices(slot);
  }
  // The supervisor's delays are of real time.
  static void Await(const std::function<bool()>& condition, const std::string& what) {
    EXPECT_TRUE(test::Comes(condition)) << what;
  }
  static void AwaitFailure(TestServer& server, int slot, const std::string& error_part) {
    Await([&] { return absl::StrContains(Info(server, slot).error(), error_part); }, error_part);
    EXPECT_EQ(Info(server, slot).state(), pb::DEVICE_STATE_FAILED);
  }
  static void AwaitLog(TestServer& server, const std::string& line_part) {
    Await([&] { return absl::StrContains(server.log(), line_part); }, line_part);
  }

  std::mt19937 random_ = test::FreshRandom();
};

TEST_F(DevicesTest, AFailureIsInvisibleWhereADeviceOfTheKindIsLeft) {
  TestServer server(ConfigWith({"cpu", "cpu:1"}));
  const std::string image = Image();
  const Outcome before = Upscale(server, image);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();

  // Both have a tile in their hands when the first fails.
  server.gate("cpu").Close(), server.gate("cpu:1").Close();
  server.gate("cpu").Fail(absl::InternalError("context lost"));
  Outcome after;
  std::thread client([&] { after = Upscale(server, image); });
  server.gate("cpu").AwaitWaiting(1), server.gate("cpu:1").AwaitWaiting(1);
  server.gate("cpu").Open();
  AwaitFailure(server, 0, "context lost");
  EXPECT_EQ(Info(server, 0).failures(), 1);
  EXPECT_EQ(Info(server, 1).state(), pb::DEVICE_STATE_UP);
  server.gate("cpu:1").Open();
  client.join();
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.image, before.image);
  EXPECT_EQ(after.summary->device(), "cpu:1");
  EXPECT_EQ(after.summary->tiles(), before.summary->tiles());
  AwaitLog(server, "a device failed and is taken out device=cpu");

  server.gate("cpu").Fail(absl::OkStatus());
  AwaitLog(server, "a device was rebuilt and works again device=cpu");
  EXPECT_EQ(Info(server, 0).state(), pb::DEVICE_STATE_UP);
  // Both take part again.
  server.gate("cpu").Close(), server.gate("cpu:1").Close();
  std::thread last([&] { after = Upscale(server, image); });
  server.gate("cpu").AwaitWaiting(1), server.gate("cpu:1").AwaitWaiting(1);
  server.gate("cpu").Open(), server.gate("cpu:1").Open();
  last.join();
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.image, before.image);
}

class AnotherKindTest : public DevicesTest {
 protected:
  // The outcome of an image lost by the cpu in the middle, while "reference" works.
  Outcome FailMidway(TestServer& server, const std::string& image) {
    // The first tiles are the cpu's, known as the faster one.
    server.gate("cpu").Close();
    const int64_t passed = server.gate("cpu").tiles_passed();
    Outcome after;
    std::thread client([&] { after = Upscale(server, image); });
    server.gate("cpu").Allow(1);
    Await([&] { return server.gate("cpu").tiles_passed() != passed; }, "a tile");
    server.gate("cpu").AwaitWaiting(1);
    server.gate("cpu").Fail(absl::InternalError("context lost"));
    server.gate("cpu").Open();
    client.join();
    return after;
  }
  static void LearnSpeeds(TestServer& server, const std::string& image, Outcome& of_cpu,
                          Outcome& of_reference) {
    of_cpu = Upscale(server, image);
    ASSERT_TRUE(of_cpu.status.ok()) << of_cpu.status.error_message();
    EXPECT_EQ(of_cpu.summary->device(), "cpu") << "an image is of one device class";
    of_reference = Upscale(server, image);
    ASSERT_TRUE(of_reference.status.ok()) << of_reference.status.error_message();
    EXPECT_EQ(of_reference.summary->device(), "reference") << "whose speed is unknown";
  }
};

TEST_F(AnotherKindTest, AnImageWithANameBreaksOffAndIsComputedAgain) {
  TestServer server(ConfigWith({"cpu", "reference"}));
  const std::string image = Image();
  Outcome of_cpu, of_reference;
  LearnSpeeds(server, image, of_cpu, of_reference);
  EXPECT_NE(of_cpu.header->etag(), of_reference.header->etag());

  const Outcome broken = FailMidway(server, image);
  ASSERT_TRUE(broken.header.has_value());
  EXPECT_EQ(broken.header->etag(), of_cpu.header->etag()) << "whose bytes it cannot have any more";
  EXPECT_TRUE(IsError(broken.status, StatusCode::UNAVAILABLE, "DEVICE_FAILURE",
                      "a device of another class computes other bytes"));
  const Outcome again = Upscale(server, image);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(again.summary->device(), "reference");
  EXPECT_EQ(again.header->etag(), of_reference.header->etag());
  EXPECT_EQ(again.image, of_reference.image);
}

TEST_F(AnotherKindTest, AnImageWithoutANameGoesOn) {
  ServerConfig config = ConfigWith({"cpu", "reference"});
  config.hold_source_bytes = 1000;  // larger sources are computed as they come
  TestServer server(config);
  const std::string image = Image();
  Outcome of_cpu, of_reference;
  LearnSpeeds(server, image, of_cpu, of_reference);
  ASSERT_EQ(of_cpu.header->etag(), "");

  const Outcome after = FailMidway(server, image);
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.summary->device(), "cpu, reference");
  EXPECT_EQ(after.summary->etag(), "");
  const auto expected = test::Decode(of_cpu.image), result = test::Decode(after.image);
  ASSERT_EQ(result->image.spec(), expected->image.spec());
  EXPECT_LE(test::LargestDifference(result->image.view(), expected->image.view()), 1);
}

TEST_F(DevicesTest, TilesAreOfTheComputationThatWasNamed) {
  TestServer server(ConfigWith({"cpu", "reference"}));
  // The answers to a call for `computation`, and for a tile if there is a tile.
  const auto answers = [&](const std::string& computation, const pb::Tile* tile = nullptr) {
    grpc::ClientContext context;
    const auto stream = server.stub().UpscaleTiles(&context);
    pb::UpscaleTilesRequest request;
    request.mutable_start()->set_report_header(true);
    request.mutable_start()->set_computation(computation);
    EXPECT_TRUE(stream->Write(request));
    if (tile != nullptr) {
      *request.mutable_tile() = *tile;
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
    std::vector<pb::UpscaleTilesResponse> responses;
    for (pb::UpscaleTilesResponse response; stream->Read(&response);) {
      responses.push_back(response);
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    responses.resize(tile == nullptr ? 1 : 2);
    return responses;
  };
  const auto name_of = [&](const std::string& wanted) {
    return answers(wanted).front().header().computation();
  };
  const std::string image = Image(), cpu = name_of("");
  // The speeds of both get known.
  EXPECT_EQ(Upscale(server, image).summary->device(), "cpu");
  EXPECT_EQ(Upscale(server, image).summary->device(), "reference");
  // The device with the earliest end is the other one while the cpu has work.
  server.gate("cpu").Close();
  std::thread client([&] { EXPECT_TRUE(Upscale(server, image).status.ok()); });
  server.gate("cpu").AwaitWaiting(1);
  const std::string reference = name_of("");
  EXPECT_NE(reference, cpu);
  EXPECT_EQ(name_of(cpu), cpu);
  server.gate("cpu").Open();
  client.join();
  EXPECT_EQ(name_of(reference), reference);

  pb::Tile tile;
  tile.set_width_px(10);
  tile.set_height_px(10);
  tile.set_bits_per_sample(8);
  tile.set_pixels(std::string(300, 'x'));
  EXPECT_TRUE(answers(cpu, &tile)[1].has_tile());
  const int64_t passed = server.gate("reference").tiles_passed();
  EXPECT_TRUE(answers(reference, &tile)[1].has_tile());
  EXPECT_GT(server.gate("reference").tiles_passed(), passed);
  server.gate("cpu").Fail(absl::InternalError("context lost"));
  const pb::UpscaleTilesResponse mixed = answers(cpu, &tile)[1];
  EXPECT_EQ(mixed.error().code(), StatusCode::UNAVAILABLE) << mixed.error().message();
  EXPECT_EQ(mixed.error().reason(), pb::ERROR_REASON_DEVICE_FAILURE);
}

TEST_F(DevicesTest, WithoutADeviceTheServerIsNotServingUntilOneIsBack) {
  TestServer server;
  const std::string image = Image();
  const auto stub = Health::NewStub(server.channel());
  grpc::ClientContext context;
  HealthCheckResponse health;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::SERVING);

  server.gate().Fail(absl::InternalError("context lost"));
  EXPECT_TRUE(IsError(Upscale(server, image).status, StatusCode::UNAVAILABLE, "DEVICE_FAILURE",
                      "cpu failed: context lost"));
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_TRUE(IsError(Upscale(server, image).status, StatusCode::UNAVAILABLE, "DEVICE_FAILURE",
                      "no device is left"));
  // It is rebuilt, but does not compute: it stays out.
  AwaitFailure(server, 0, "does not run on cpu: context lost");

  server.gate().Fail(absl::OkStatus());
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::SERVING);
  const Outcome after = Upscale(server, image);
  EXPECT_TRUE(after.status.ok()) << after.status.error_message();
  context.TryCancel();
}

TEST_F(DevicesTest, ADeviceIsNamedOnce) {
  Logger logger(LogFormat::kText, LogLevel::kError);
  const absl::Status status = Server::Start(ConfigWith({"cpu", "cpu"}), logger).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--device names cpu more than once"));
}

}  // namespace
}  // namespace upscaled::server
