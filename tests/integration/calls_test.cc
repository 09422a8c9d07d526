// The limits of calls of any method: missing messages, too many or too large ones, slow clients,
// and one address among others.
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::StatusCode;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using test::Encode;
using test::FreshRandom;
using test::PhotoImage;
using ::testing::HasSubstr;

constexpr char kUpscale[] = "/upscale.v1.UpscaleService/";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kReflect[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr char kMalformed[] = "\x0a\x7f";  // a field that ends after the message does

// A call of bytes, step by step.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path)
      : stub_(channel), stream_(stub_.PrepareCall(&context_, path, &queue_)) {
    stream_->StartCall(nullptr);
    Await();
  }
  ~RawCall() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    stream_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    return Await();
  }
  void WritesDone() {
    stream_->WritesDone(nullptr);
    Await();
  }
  // Reads all there is.
  grpc::Status Finish() {
    grpc::ByteBuffer answer;
    do {
      stream_->Read(&answer, nullptr);
    } while (Await());
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    Await();
    return status;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

grpc::Status Send(TestServer& server, const std::string& path,
                  const std::vector<std::string>& messages) {
  RawCall call(server.channel(), path);
  for (const std::string& message : messages) {
    if (!call.Write(message)) break;
  }
  call.WritesDone();
  return call.Finish();
}

std::vector<std::string> Methods() {
  std::vector<std::string> paths = {kCheck, "/grpc.health.v1.Health/Watch"};
  for (const char* name :
       {"UpscaleImage", "UpscaleTiles", "Upscale", "ListModels", "GetModel", "GetServerInfo"}) {
    paths.push_back(absl::StrCat(kUpscale, name));
  }
  return paths;
}

std::string ListServices() {
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_list_services("*");
  return request.SerializeAsString();
}

std::string TilesStart() {
  pb::UpscaleTilesRequest request;
  request.mutable_start();
  return request.SerializeAsString();
}

TEST(CallsTest, MessagesThatAreNone) {
  TestServer server;
  for (const std::string& path : Methods()) {
    SCOPED_TRACE(path);
    EXPECT_TRUE(IsError(Send(server, path, {kMalformed}), StatusCode::INVALID_ARGUMENT,
                        "INVALID_OPTION", "malformed"));
    EXPECT_TRUE(IsError(Send(server, path, {}), StatusCode::INVALID_ARGUMENT, "INVALID_OPTION",
                        "without a message"));
  }
  EXPECT_TRUE(IsError(Send(server, kReflect, {ListServices(), kMalformed}),
                      StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "malformed"));
  // In the middle of a stream it is no half-close.
  EXPECT_TRUE(
      IsError(Send(server, absl::StrCat(kUpscale, "UpscaleTiles"), {TilesStart(), kMalformed}),
              StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "malformed"));
  EXPECT_TRUE(IsError(Send(server, absl::StrCat(kUpscale, "UpscaleImage"),
                           {StartMessage({}).SerializeAsString(), kMalformed}),
                      StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "malformed"));
}

TEST(CallsTest, UnaryCallsTakeOneMessage) {
  TestServer server;
  for (const std::string& path : Methods()) {
    if (path.find("UpscaleImage") != path.npos || path.find("Tiles") != path.npos) continue;
    EXPECT_TRUE(IsError(Send(server, path, {"", ""}), StatusCode::INVALID_ARGUMENT,
                        "INVALID_OPTION", "takes one message"))
        << path;
  }
}

TEST(CallsTest, MessagesBeyondTheirMethodsLimit) {
  ServerConfig config = TestConfig();
  config.limits.max_unary_bytes = 100'000;
  TestServer server(config);
  for (const std::string& path : Methods()) {
    const bool unary = path == absl::StrCat(kUpscale, "Upscale");
    const int limit = unary ? 100'000 + (64 << 10) : 64 << 10;
    const std::string length = {'\x80', '\x80', '\x40'};  // 1 MiB
    const grpc::Status status = Send(server, path, {"\x7a" + length + std::string(1 << 20, 'x')});
    EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                        absl::StrCat("1048580 bytes, more than the ", limit)))
        << path;
  }
}

TEST(CallsTest, MessagesOfManyUnknownFields) {
  TestServer server;
  std::string fields;
  for (int i = 0; i < 1000; ++i) fields += std::string("\x7a\x00", 2);
  for (const std::string& path : Methods()) {
    EXPECT_TRUE(IsError(Send(server, path, {fields}), StatusCode::INVALID_ARGUMENT,
                        "LIMIT_EXCEEDED", "more than 128 fields"))
        << path;
  }
  EXPECT_TRUE(IsError(Send(server, absl::StrCat(kUpscale, "UpscaleTiles"), {TilesStart(), fields}),
                      StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "more than 128 fields"));
}

TEST(CallsTest, MethodsOfOtherPlaces) {
  TestServer server;
  for (const std::string path : {"/upscale.v1.UpscaleService/ReloadModels",
                                 "/upscale.v1.AdminService/ReloadModels", "/a/b", "/"}) {
    EXPECT_TRUE(
        IsError(Send(server, path, {""}), StatusCode::UNIMPLEMENTED, "UNSUPPORTED", "--admin"))
        << path;
  }
}

// A message inflates before its size is known.
TEST(CallsTest, CompressedMessagesAreRefused) {
  TestServer server;
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  pb::GetModelRequest request;
  request.set_name(std::string(10'000, 'x'));
  pb::GetModelResponse response;
  EXPECT_EQ(server.stub().GetModel(&context, request, &response).error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST(CallsTest, CallsWithoutAMessageHoldNoSlot) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 1;
  config.start_timeout = absl::Seconds(2);
  TestServer server(config);
  std::vector<std::unique_ptr<RawCall>> silent;
  for (const std::string& path : Methods()) {
    silent.push_back(std::make_unique<RawCall>(server.channel(), path));
  }
  std::mt19937 random = FreshRandom();
  const std::string image = *Encode(PhotoImage({40, 30, 3, SampleType::kU8}, random).view(), {});
  EXPECT_TRUE(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).status.ok());
  for (const auto& call : silent) {
    EXPECT_TRUE(IsError(call->Finish(), StatusCode::ABORTED, "STALLED", "start-timeout"));
  }
  EXPECT_TRUE(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).status.ok());
}

TEST(CallsTest, ACallThatDripsHasStalled) {
  ServerConfig config = TestConfig();
  config.stall_timeout = absl::Milliseconds(500);
  TestServer server(config);
  for (const size_t bytes : {size_t{0}, size_t{1}}) {
    grpc::ClientContext context;
    const auto stream = server.stub().UpscaleImage(&context);
    ASSERT_TRUE(stream->Write(StartMessage({})));
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (stream->Write(ChunkMessage(std::string(bytes, '\x89'))) && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    Outcome outcome;
    ReadToEnd(context, *stream, outcome);
    // One byte of each is no image, and the first of them tell.
    EXPECT_THAT(outcome.status.error_code(),
                ::testing::AnyOf(StatusCode::ABORTED, StatusCode::INVALID_ARGUMENT));
    if (bytes == 0) {
      EXPECT_TRUE(IsError(outcome.status, StatusCode::ABORTED, "STALLED", "stall-timeout"));
    }
  }
}

TEST(CallsTest, OneAddressLeavesSlotsToOthers) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 4;
  config.limits.max_requests_per_address = 0;
  config.spool_bytes = 0;  // calls wait for their images with a slot
  TestServer server(config);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<ClientStream>> streams;
  for (int i = 0; i < 3; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(server.stub().UpscaleImage(contexts.back().get()));
    ASSERT_TRUE(streams.back()->Write(StartMessage({})));
  }
  test::Await([&] { return server.server().admission_state().requests >= 3; });
  const grpc::Status status = UpscaleImage(server.stub(), pb::UpscaleOptions(), "x").status;
  EXPECT_TRUE(
      IsError(status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", "3 requests of this address"));
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("limit"), "max-requests-per-address");
  EXPECT_TRUE(RetryDelayOf(status).has_value());
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& stream : streams) stream->Finish();
}

TEST(CallsTest, HealthIsToldWhenAllSlotsAndMemoryAreTaken) {
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = 1;
  config.memory_budget_bytes = 80 << 20;
  TestServer server(config);
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleTiles(&context);
  pb::UpscaleTilesRequest start;
  start.mutable_start();
  ASSERT_TRUE(stream->Write(start));
  test::Await([&] { return server.server().admission_state().requests > 0; });
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext check;
    HealthCheckResponse response;
    ASSERT_TRUE(Health::NewStub(server.channel())->Check(&check, {}, &response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  context.TryCancel();
  stream->Finish();
}

}  // namespace
}  // namespace upscaled::server
