// New weights for a running server.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"
#include "upscale/v1/admin.grpc.pb.h"

namespace upscaled::server {
namespace {

using client::ReadText;
using client::TempFolder;
using client::WriteText;
using grpc::StatusCode;
using test::Encode;
using test::FreshRandom;
using test::PhotoImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class ReloadTest : public ::testing::Test {
 protected:
  // Serves a copy of the bundled model.
  ServerConfig ConfigOfCopy() {
    std::filesystem::copy(bundled_, folder_ / "general-2x");
    return Config();
  }
  // Serves the folder's contents.
  ServerConfig Config() const {
    ServerConfig config = TestConfig();
    config.model_repositories = {folder_.path()};
    return config;
  }
  void ReplaceWeights(const std::string& bytes) {
    WriteText(folder_ / "new.bin", bytes);
    std::filesystem::rename(folder_ / "new.bin", folder_ / "general-2x/model.bin");
  }
  // The bundled weights, with nothing but biases from the last convolution: half white.
  std::string GrayWeights() {
    std::string bytes = ReadText(bundled_ / "model.bin");
    const size_t bias_bytes = 12 * sizeof(float), weight_bytes = 3456 * sizeof(uint16_t);
    bytes.replace(bytes.size() - bias_bytes - weight_bytes, weight_bytes, weight_bytes, '\0');
    for (size_t at = bytes.size() - bias_bytes; at < bytes.size(); at += sizeof(float)) {
      const float half = 0.5f;
      bytes.replace(at, sizeof half, reinterpret_cast<const char*>(&half), sizeof half);
    }
    return bytes;
  }
  grpc::Status Reload(TestServer& server, pb::ReloadModelsResponse& response) {
    grpc::ClientContext context;
    return pb::AdminService::NewStub(server.NewAdminChannel())
        ->ReloadModels(&context, {}, &response);
  }
  // The result's bytes.
  std::string Upscale(TestServer& server) {
    const Outcome outcome = UpscaleImage(server.stub(), pb::UpscaleOptions(), image_);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    return outcome.image;
  }

  const std::filesystem::path bundled_ = "engine/model/bundled/general-2x";
  std::mt19937 random_ = FreshRandom();
  const std::string image_ = *Encode(PhotoImage({97, 61, 3, SampleType::kU8}, random_).view(), {});
  TempFolder folder_;
  TestServer server_{ConfigOfCopy()};
};

TEST_F(ReloadTest, NewWeightsGiveNewImages) {
  const std::string before = Upscale(server_);
  ReplaceWeights(GrayWeights());
  EXPECT_EQ(Upscale(server_), before);  // not before it is told to
  pb::ReloadModelsResponse response;
  ASSERT_TRUE(Reload(server_, response).ok());
  EXPECT_THAT(response.changed(), ElementsAre("general-2x"));
  const std::string gray = Upscale(server_);
  EXPECT_NE(gray, before);
  TestServer started_with_them(Config());
  EXPECT_EQ(Upscale(started_with_them), gray);

  ReplaceWeights(ReadText(bundled_ / "model.bin"));
  ASSERT_TRUE(Reload(server_, response).ok());
  EXPECT_EQ(Upscale(server_), before);
}

TEST_F(ReloadTest, RequestsInFlightEndWithTheWeightsTheyBeganWith) {
  const std::string before = Upscale(server_);
  server_.gate().Close();
  grpc::ClientContext context;
  const auto stream = server_.stub().UpscaleImage(&context);
  ASSERT_TRUE(stream->Write(StartMessage(pb::UpscaleOptions())));
  ASSERT_TRUE(stream->Write(ChunkMessage(image_)));
  ASSERT_TRUE(stream->WritesDone());
  server_.gate().AwaitWaiting(1);

  ReplaceWeights(GrayWeights());
  pb::ReloadModelsResponse response;
  ASSERT_TRUE(Reload(server_, response).ok());  // while that one stands before the device
  server_.gate().Open();
  Outcome outcome;
  ReadToEnd(context, *stream, outcome);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.image, before);
  EXPECT_NE(Upscale(server_), before);
}

TEST_F(ReloadTest, BrokenWeightsLeaveTheOldOnesServing) {
  const std::string before = Upscale(server_);
  ReplaceWeights(GrayWeights().substr(0, 10'000));
  pb::ReloadModelsResponse response;
  const grpc::Status status = Reload(server_, response);
  EXPECT_TRUE(IsError(status, StatusCode::FAILED_PRECONDITION, "RELOAD_FAILED",
                      "general-2x/model.param: layer"));
  EXPECT_THAT(status.error_message(), Not(HasSubstr(folder_.path().string())));
  EXPECT_THAT(server_.log(), HasSubstr(folder_.path().string()));
  EXPECT_EQ(Upscale(server_), before);
}

TEST_F(ReloadTest, ModelsComeAndGo) {
  std::string card = ReadText(bundled_ / "model.json");
  card.replace(card.find("general-2x"), std::string("general-2x").size(), "other");
  WriteText(folder_ / "other/model.json", card);
  pb::ReloadModelsResponse response;
  // The weights are still in transit.
  ASSERT_TRUE(Reload(server_, response).ok());
  EXPECT_THAT(response.added(), IsEmpty());
  ASSERT_EQ(response.refused_size(), 1);
  EXPECT_EQ(response.refused(0).name(), "other");
  EXPECT_THAT(response.refused(0).reason(), StartsWith("model 'other': there is no file"));
  EXPECT_THAT(server_.log(), HasSubstr("does not serve a model"));
  using std::filesystem::copy_options;
  std::filesystem::copy(bundled_, folder_ / "other",
                        copy_options::recursive | copy_options::skip_existing);
  ASSERT_TRUE(Reload(server_, response).ok());
  EXPECT_THAT(response.added(), ElementsAre("other"));
  EXPECT_THAT(response.refused(), IsEmpty());
  EXPECT_THAT(response.unchanged(), ElementsAre("general-2x"));
  pb::UpscaleOptions options;
  options.set_model("other");
  EXPECT_TRUE(UpscaleImage(server_.stub(), options, image_).status.ok());

  std::filesystem::remove_all(folder_ / "other");
  ASSERT_TRUE(Reload(server_, response).ok());
  EXPECT_THAT(response.removed(), ElementsAre("other"));
  EXPECT_TRUE(IsError(UpscaleImage(server_.stub(), options, image_).status, StatusCode::NOT_FOUND,
                      "UNKNOWN_MODEL", "there are: general-2x"));
}

}  // namespace
}  // namespace upscaled::server
