#include "server/rpc/call.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "server/rpc/typed_method.h"
#include "tests/server/rpc/rpc_server.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;
using ::testing::ElementsAre;
using ClientStream = grpc::ClientReaderWriter<pb::UpscaleImageRequest, pb::UpscaleImageResponse>;

// Reads all of its client's messages; refuses them if one holds "broken".
Method ReadingMethod() {
  Method method{.path = "/upscale.v1.UpscaleService/UpscaleImage",
                .name = "UpscaleImage",
                .request = &pb::UpscaleImageRequest::default_instance(),
                .max_first_message_bytes = 1000,
                .max_message_bytes = 1000,
                .input_queue_bytes = 1000,
                .output_queue_bytes = 1000};
  method.stream = StreamHandler<pb::UpscaleImageRequest, pb::UpscaleImageResponse>(
      [](const CallContext&, auto& reader, auto&) -> absl::Status {
        absl::Status status;
        pb::UpscaleImageRequest request;
        while (true) {
          const absl::StatusOr<bool> more = reader.Read(request);
          if (!more.ok()) return more.status();
          if (!*more) return status;
          if (request.chunk() == "broken") status = absl::InvalidArgumentError("a broken image");
        }
      });
  return method;
}

class CallTest : public ::testing::Test {
 protected:
  struct Client {
    std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
    std::unique_ptr<ClientStream> stream;
  };
  Client Send(const std::string& chunk) {
    Client client;
    client.stream = server_.stub().UpscaleImage(client.context.get());
    pb::UpscaleImageRequest request;
    request.set_chunk(chunk);
    client.stream->Write(request);
    client.stream->WritesDone();
    return client;
  }
  static Limits OneSlot() {
    Limits limits;
    limits.max_concurrent_requests = 1;
    return limits;
  }

  RpcServer server_{ReadingMethod(), OneSlot(), /*threads=*/1};
};

// A client that goes looks like one whose image is broken, until the news of its end.
TEST_F(CallTest, ABrokenImageWaitsForNewsOfItsClientWithoutSlotAndThread) {
  Client broken = Send("broken");
  test::Await([&] {
    return server_.admission_state().calls_admitted == 1 && server_.admission_state().requests == 0;
  });
  EXPECT_TRUE(Send("fine").stream->Finish().ok()) << "on the only thread";
  EXPECT_THAT(server_.ended(), ElementsAre(absl::StatusCode::kOk));
  test::Await([&] {
    server_.LetTimePass(absl::Seconds(1));
    return server_.ended().size() == 2;
  });
  EXPECT_EQ(broken.stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(CallTest, AClientThatGoesMeanwhileIsCancelled) {
  Client gone = Send("broken");
  test::Await([&] {
    return server_.admission_state().calls_admitted == 1 && server_.admission_state().requests == 0;
  });
  gone.context->TryCancel();
  test::Await([&] { return server_.ended().size() == 1; });
  EXPECT_THAT(server_.ended(), ElementsAre(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace upscaled::server
