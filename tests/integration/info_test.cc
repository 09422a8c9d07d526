// The server's description of itself: models, info, health, reflection, HTTP.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/descriptor_database.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/config/version.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using Health = grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(fd, buffer, sizeof buffer)) > 0;) {
    answer.append(buffer, static_cast<size_t>(count));
  }
  close(fd);
  return answer;
}

TEST(InfoTest, ListsTheBundledModels) {
  TestServer server;
  grpc::ClientContext context;
  pb::ListModelsResponse response;
  ASSERT_TRUE(server.stub().ListModels(&context, {}, &response).ok());
  ASSERT_EQ(response.models_size(), 2);
  EXPECT_EQ(response.models(0).name(), "fast-2x");
  EXPECT_FALSE(response.models(0).is_default());
  const pb::Model& model = response.models(1);
  EXPECT_EQ(model.name(), "general-2x");
  EXPECT_TRUE(model.is_default());
  EXPECT_THAT(model.scales(), ElementsAre(2));
  EXPECT_THAT(model.noise_levels(), ElementsAre(-1, 1, 2, 3));
  ASSERT_EQ(model.variants_size(), 4);
  for (const pb::ModelVariant& variant : model.variants()) EXPECT_EQ(variant.scale(), 2);
  EXPECT_THAT(model.precisions(), Contains(pb::PRECISION_EXACT));
  EXPECT_EQ(model.default_precision(), pb::PRECISION_EXACT);
  EXPECT_EQ(model.halo_px(), 8);  // eight 3x3 layers
  EXPECT_EQ(model.licence(), "CC0-1.0");
  EXPECT_EQ(model.architecture(), "");  // its files hold the layers
  EXPECT_EQ(model.input_channels(), 3);
  EXPECT_GT(model.memory_bytes(), model.weight_bytes());
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
  EXPECT_EQ(info.devices(0).state(), pb::DEVICE_STATE_UP);
  EXPECT_EQ(info.devices(0).failures(), 0);
  EXPECT_EQ(info.limits().max_source_pixels(), 1234567);
  EXPECT_EQ(info.limits().max_concurrent_requests(), 17);
  EXPECT_EQ(info.limits().max_result_pixels(), config.limits.max_result_pixels);
  EXPECT_EQ(info.limits().max_source_bytes(), config.limits.max_source_bytes);
  EXPECT_EQ(info.limits().max_unary_bytes(), config.limits.max_unary_bytes);
  EXPECT_EQ(info.limits().max_tile_pixels(), config.limits.max_tile_pixels);
  EXPECT_EQ(info.limits().max_queue_pixels(), config.limits.max_queue_pixels);
  EXPECT_EQ(info.limits().max_metadata_bytes(), config.limits.max_metadata_bytes);
  EXPECT_EQ(info.limits().max_jpeg_scans(), config.limits.max_jpeg_scans);
  EXPECT_EQ(info.limits().max_frames(), config.limits.max_frames);
  EXPECT_THAT(info.input_formats(), IsSupersetOf({pb::IMAGE_FORMAT_PNG, pb::IMAGE_FORMAT_JPEG,
                                                  pb::IMAGE_FORMAT_WEBP, pb::IMAGE_FORMAT_BMP}));
  EXPECT_THAT(info.output_formats(),
              IsSupersetOf({pb::IMAGE_FORMAT_PNG, pb::IMAGE_FORMAT_JPEG, pb::IMAGE_FORMAT_WEBP}));
  EXPECT_THAT(info.output_formats(), Not(Contains(pb::IMAGE_FORMAT_BMP)));
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
  test::Await([&] { return server.server().health_watches() == 0; });
}

// Before its warm-up has ended a server answers, but does not call itself ready.
TEST(HealthTest, IsNotServingBeforeWarmUpHasEnded) {
  TestServer server(TestConfig(), TestServer::Start::kCold);
  const auto stub = Health::NewStub(server.channel());
  const auto check = [&stub] {
    grpc::ClientContext context;
    HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(&context, HealthCheckRequest(), &response).ok());
    return response.status();
  };
  const int port = server.server().http_port();
  EXPECT_EQ(check(), HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(HttpGet(port, "/v2/health/ready"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("\nstarting: ")));
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);

  server.gate().Close();
  std::thread warm_up([&] { EXPECT_TRUE(server.server().WarmUp().ok()); });
  server.gate().AwaitWaiting(1);
  EXPECT_EQ(check(), HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(HttpGet(port, "/v2/health/ready"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(HttpGet(port, "/v2/health/live"), StartsWith("HTTP/1.1 200"));
  server.gate().Open();
  warm_up.join();
  EXPECT_EQ(check(), HealthCheckResponse::SERVING);
  EXPECT_THAT(HttpGet(port, "/v2/health/ready"), StartsWith("HTTP/1.1 200"));
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  context.TryCancel();
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
  for (size_t i = 0; i < watches.size(); ++i) {
    contexts[i]->TryCancel();
    EXPECT_EQ(watches[i]->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(server.server().Drain(absl::Seconds(30)));
  EXPECT_THAT(server.log(), Not(HasSubstr("Watch")));
}

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// The answers to the questions, asked one after the other in one call; `Reflection` is the service
// of a version of the protocol.
template <typename Reflection>
std::vector<ServerReflectionResponse> Reflect(
    const std::shared_ptr<grpc::Channel>& channel,
    const std::vector<ServerReflectionRequest>& questions) {
  grpc::ClientContext context;
  const auto stream = Reflection::NewStub(channel)->ServerReflectionInfo(&context);
  std::vector<ServerReflectionResponse> answers;
  for (const ServerReflectionRequest& question : questions) {
    ServerReflectionResponse answer;
    if (!stream->Write(question) || !stream->Read(&answer)) break;
    answers.push_back(answer);
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answers.size(), questions.size());
  answers.resize(questions.size());
  return answers;
}

std::vector<std::string> ListServices(const std::shared_ptr<grpc::Channel>& channel) {
  ServerReflectionRequest question;
  question.set_list_services("*");
  std::vector<std::string> names;
  const auto answers = Reflect<grpc::reflection::v1::ServerReflection>(channel, {question});
  for (const auto& service : answers[0].list_services_response().service()) {
    names.push_back(service.name());
  }
  return names;
}

TEST(ReflectionTest, ListsTheServices) {
  TestServer server;
  EXPECT_THAT(ListServices(server.channel()),
              UnorderedElementsAre("upscale.v1.UpscaleService", "grpc.health.v1.Health",
                                   "grpc.reflection.v1.ServerReflection",
                                   "grpc.reflection.v1alpha.ServerReflection"));
  EXPECT_THAT(ListServices(server.NewAdminChannel()),
              AllOf(Contains("upscale.v1.AdminService"), Contains("upscale.v1.UpscaleService"),
                    Contains("grpc.health.v1.Health")));
}

// Whether the files of an answer have the service's contract, in the first one, and all its
// imports.
void ExpectContract(const ServerReflectionResponse& answer, const std::string& service) {
  google::protobuf::SimpleDescriptorDatabase files;
  std::vector<std::string> names;
  for (const std::string& bytes : answer.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto description;
    ASSERT_TRUE(description.ParseFromString(bytes));
    names.push_back(description.name());
    EXPECT_TRUE(files.Add(description)) << "twice: " << description.name();
  }
  google::protobuf::DescriptorPool pool(&files);
  const auto* found = pool.FindServiceByName(service);
  ASSERT_NE(found, nullptr) << service;
  EXPECT_EQ(found->file()->name(), names.at(0));
}

template <typename Reflection>
void ExpectContracts(const std::shared_ptr<grpc::Channel>& channel) {
  ServerReflectionRequest symbol, file, unknown;
  symbol.set_file_containing_symbol("upscale.v1.UpscaleService");
  symbol.set_host("images.example.org");
  file.set_file_by_filename("upscale/v1/admin.proto");
  unknown.set_file_containing_symbol("upscale.v1.Downscale");
  const auto answers = Reflect<Reflection>(channel, {symbol, file, unknown, {}});
  ExpectContract(answers[0], "upscale.v1.UpscaleService");
  ExpectContract(answers[1], "upscale.v1.AdminService");
  EXPECT_EQ(answers[0].valid_host(), "images.example.org");
  EXPECT_EQ(answers[0].original_request().file_containing_symbol(), "upscale.v1.UpscaleService");
  EXPECT_EQ(answers[2].error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(answers[2].error_response().error_message(), HasSubstr("upscale.v1.Downscale"));
  EXPECT_EQ(answers[3].error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(ReflectionTest, TellsTheContracts) {
  TestServer server;
  for (const auto& channel : {server.channel(), server.NewAdminChannel()}) {
    ExpectContracts<grpc::reflection::v1::ServerReflection>(channel);
    ExpectContracts<grpc::reflection::v1alpha::ServerReflection>(channel);
  }
}

TEST(ReflectionTest, TellsExtensions) {
  TestServer server;
  ServerReflectionRequest numbers, unknown_type, extension;
  numbers.set_all_extension_numbers_of_type("upscale.v1.UpscaleOptions");
  unknown_type.set_all_extension_numbers_of_type("upscale.v1.Downscale");
  extension.mutable_file_containing_extension()->set_containing_type("upscale.v1.UpscaleOptions");
  extension.mutable_file_containing_extension()->set_extension_number(7);
  const auto answers = Reflect<grpc::reflection::v1::ServerReflection>(
      server.channel(), {numbers, unknown_type, extension});
  EXPECT_EQ(answers[0].all_extension_numbers_response().base_type_name(),
            "upscale.v1.UpscaleOptions");
  EXPECT_EQ(answers[0].all_extension_numbers_response().extension_number_size(), 0);
  EXPECT_EQ(answers[1].error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(answers[2].error_response().error_message(),
              HasSubstr("7 of upscale.v1.UpscaleOptions"));
}

// Tools keep the stream open during their calls.
TEST(ReflectionTest, TakesNoSlotAndEndsInTime) {
  ServerConfig config = TestConfig();
  config.start_timeout = absl::Seconds(6);
  TestServer server(config);
  grpc::ClientContext context;
  const auto stub = grpc::reflection::v1::ServerReflection::NewStub(server.channel());
  const auto stream = stub->ServerReflectionInfo(&context);
  ServerReflectionRequest question;
  question.set_list_services("*");
  ServerReflectionResponse answer;
  ASSERT_TRUE(stream->Write(question));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(server.server().admission_state().requests, 0);
  EXPECT_FALSE(stream->Read(&answer));
  const grpc::Status end = stream->Finish();
  EXPECT_TRUE(end.ok()) << end.error_message();
}

TEST(HttpTest, HealthFollowsTheServer) {
  TestServer server;
  const int port = server.server().http_port();
  EXPECT_THAT(HttpGet(port, "/v2/health/live"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet(port, "/v2/health/ready"), StartsWith("HTTP/1.1 200"));
  // A waiting call keeps the drain from ending, for a look at it.
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleImage(&context);
  ASSERT_TRUE(stream->Write(StartMessage({})));
  test::Await([&] { return server.server().admission_state().requests != 0; });
  std::thread drain([&] { server.server().Drain(absl::InfiniteDuration()); });
  test::Await([&] { return server.server().admission_state().draining; });
  EXPECT_THAT(HttpGet(port, "/v2/health/live"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet(port, "/v2/health/ready"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("\ndraining: ")));
  context.TryCancel();
  drain.join();
}

TEST(HttpTest, MetricsCountTheCalls) {
  TestServer server;
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({60, 40, 3, SampleType::kU8}, random);
  ASSERT_TRUE(UpscaleImage(server.stub(), pb::UpscaleOptions(), *test::Encode(image.view(), {}))
                  .status.ok());
  ASSERT_FALSE(UpscaleImage(server.stub(), pb::UpscaleOptions(), "no image").status.ok());
  EXPECT_THAT(HttpGet(server.server().http_port(), "/metrics"), StartsWith("HTTP/1.1 404"));
  const std::string metrics = HttpGet(server.server().admin_port(), "/metrics");
  EXPECT_THAT(metrics, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(metrics, HasSubstr("UpscaleImage"));
  EXPECT_THAT(metrics, HasSubstr("INVALID_IMAGE"));
}

}  // namespace
}  // namespace upscaled::server
