// What the server says of itself: models, info, health, reflection, HTTP.
#include <set>

#include <gmock/gmock.h>
#include <grpcpp/impl/codegen/service_type.h>

#include "server/lifecycle/version.h"
#include "tests/integration/test_server.h"

namespace upscaled::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;
using Health = grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

TEST(InfoTest, ListsTheBundledModel) {
  TestServer server;
  grpc::ClientContext context;
  pb::ListModelsResponse response;
  ASSERT_TRUE(server.stub().ListModels(&context, {}, &response).ok());
  ASSERT_EQ(response.models_size(), 1);
  const pb::Model& model = response.models(0);
  EXPECT_EQ(model.name(), "general-2x");
  EXPECT_TRUE(model.is_default());
  EXPECT_THAT(model.scales(), ElementsAre(2));
  EXPECT_THAT(model.noise_levels(), ElementsAre(-1));
  EXPECT_THAT(model.precisions(), Contains(pb::PRECISION_EXACT));
  EXPECT_EQ(model.halo_px(), 7);  // seven 3x3 layers
  EXPECT_EQ(model.licence(), "CC0-1.0");
}

TEST(InfoTest, GetsAModelByName) {
  TestServer server;
  pb::GetModelRequest request;
  pb::GetModelResponse response;
  {
    grpc::ClientContext context;
    request.set_name("general-2x");
    ASSERT_TRUE(server.stub().GetModel(&context, request, &response).ok());
    EXPECT_EQ(response.model().name(), "general-2x");
  }
  {
    grpc::ClientContext context;
    request.set_name("general-3x");
    const grpc::Status status = server.stub().GetModel(&context, request, &response);
    EXPECT_TRUE(IsError(status, grpc::StatusCode::NOT_FOUND, "UNKNOWN_MODEL", "general-2x"));
    EXPECT_THAT(status.error_message(), HasSubstr("general-3x"));
    EXPECT_EQ(ErrorInfoOf(status)->domain(), "upscale.v1");
  }
  {
    grpc::ClientContext context;
    request.set_name("");
    EXPECT_TRUE(IsError(server.stub().GetModel(&context, request, &response),
                        grpc::StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "name is empty"));
  }
}

TEST(InfoTest, DescribesTheServer) {
  ServerConfig config = TestConfig();
  config.limits.max_source_pixels = 1234567;
  config.limits.max_concurrent_requests = 17;
  TestServer server(config);
  grpc::ClientContext context;
  pb::GetServerInfoResponse info;
  ASSERT_TRUE(server.stub().GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.version(), kVersion);
  ASSERT_EQ(info.devices_size(), 1);
  EXPECT_EQ(info.devices(0).name(), "cpu");
  EXPECT_EQ(info.devices(0).streams(), 2);
  EXPECT_FALSE(info.devices(0).description().empty());
  EXPECT_EQ(info.limits().max_source_pixels(), 1234567);
  EXPECT_EQ(info.limits().max_concurrent_requests(), 17);
  EXPECT_EQ(info.limits().max_result_pixels(), config.limits.max_result_pixels);
  EXPECT_EQ(info.limits().max_source_bytes(), config.limits.max_source_bytes);
  EXPECT_EQ(info.limits().max_unary_bytes(), config.limits.max_unary_bytes);
  EXPECT_EQ(info.limits().max_tile_pixels(), config.limits.max_tile_pixels);
  EXPECT_EQ(info.limits().max_queue_pixels(), config.limits.max_queue_pixels);
  EXPECT_THAT(
      info.input_formats(),
      UnorderedElementsAre(pb::IMAGE_FORMAT_PNG, pb::IMAGE_FORMAT_JPEG, pb::IMAGE_FORMAT_WEBP));
  EXPECT_THAT(
      info.output_formats(),
      UnorderedElementsAre(pb::IMAGE_FORMAT_PNG, pb::IMAGE_FORMAT_JPEG, pb::IMAGE_FORMAT_WEBP));
}

TEST(HealthTest, ChecksTheServicesThereAre) {
  TestServer server;
  const auto stub = Health::NewStub(server.channel());
  for (const char* service : {"", "upscale.v1.UpscaleService"}) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    ASSERT_TRUE(stub->Check(&context, request, &response).ok()) << service;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("upscale.v2.UpscaleService");
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("upscale.v2.UpscaleService"));
}

TEST(HealthTest, WatchTellsOfEveryChange) {
  TestServer server;
  const auto stub = Health::NewStub(server.channel());
  grpc::ClientContext context, unknown_context;
  HealthCheckRequest request;
  HealthCheckResponse response;
  const auto watch = stub->Watch(&context, request);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  request.set_service("nobody");
  const auto unknown = stub->Watch(&unknown_context, request);
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);

  std::thread drain([&] { server.server().Drain(absl::InfiniteDuration()); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(unknown->Read(&response));
  drain.join();
}

TEST(HealthTest, AClientThatStopsWatchingIsForgotten) {
  TestServer server;
  const auto stub = Health::NewStub(server.channel());
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    const auto watch = stub->Watch(&context, HealthCheckRequest());
    HealthCheckResponse response;
    ASSERT_TRUE(watch->Read(&response));
    context.TryCancel();
    EXPECT_FALSE(watch->Read(&response));
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST(HealthTest, NeitherCountsNorLogs) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 1;
  TestServer server(config);
  const auto stub = Health::NewStub(server.channel());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  for (int i = 0; i < 5; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(stub->Watch(contexts.back().get(), HealthCheckRequest()));
    HealthCheckResponse response;
    ASSERT_TRUE(watches.back()->Read(&response));
  }
  EXPECT_EQ(server.server().admission_state().requests, 0);
  EXPECT_THAT(server.log(), ::testing::Not(HasSubstr("Watch")));
  for (const auto& context : contexts) context->TryCancel();
}

}  // namespace
}  // namespace upscaled::server
