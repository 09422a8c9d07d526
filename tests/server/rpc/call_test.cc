#include "server/rpc/call.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
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

// A client gone looks like one with a broken image, until the news of its end.
TEST_F(CallTest, ABrokenImageWaitsForNewsOfItsClientWithoutSlotAndThread) {
  Client broken = Send("broken");
  test::Await([&] {
    return server_.admission_state().calls_admitted == 1 && server_.admission_state().requests == 0;
  });
  EXPECT_FALSE(server_.admission().AwaitIdle(absl::ZeroDuration())) << "a drain would cut it off";
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

// Counts its client's messages, and answers as the options ask: with as many of kAnswerBytes.
constexpr size_t kAnswerBytes = 100'000;
Method AnsweringMethod() {
  Method method = ReadingMethod();
  method.max_message_bytes = size_t{1} << 20;
  method.output_queue_bytes = size_t{8} << 20;
  method.spools = true;
  method.stream = StreamHandler<pb::UpscaleImageRequest, pb::UpscaleImageResponse>(
      [](const CallContext&, auto& reader, auto& writer) -> absl::Status {
        pb::UpscaleImageRequest request;
        int64_t answers = -1;
        std::string received;
        while (true) {
          const absl::StatusOr<bool> more = reader.Read(request);
          if (!more.ok()) return more.status();
          if (!*more) break;
          if (answers < 0) {
            answers = request.start().total_bytes();
          } else {
            received += request.chunk();
          }
        }
        for (int64_t i = 0; i < answers; ++i) {
          pb::UpscaleImageResponse response;
          response.set_chunk(std::string(kAnswerBytes, static_cast<char>(i)));
          if (absl::Status status = writer.Write(std::move(response)); !status.ok()) return status;
        }
        pb::UpscaleImageResponse last;
        last.mutable_summary()->set_etag(received);
        return writer.Write(std::move(last));
      });
  return method;
}

class SlowClientTest : public ::testing::Test {
 protected:
  struct Client {
    std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
    std::unique_ptr<ClientStream> stream;
    bool sent_all = false;
  };

  static Limits TwoSlots() {
    Limits limits;
    limits.max_concurrent_requests = 2;
    return limits;
  }
  Client Start(RpcServer& server, int64_t answers) {
    Client client;
    client.stream = server.stub().UpscaleImage(client.context.get());
    pb::UpscaleImageRequest request;
    request.mutable_start()->set_total_bytes(answers);
    EXPECT_TRUE(client.stream->Write(request));
    return client;
  }
  // A call in the first slot.
  Client StartWithSlot(RpcServer& server) {
    Client client = Start(server, 0);
    test::Await([&] { return server.admission_state().requests == 1; });
    return client;
  }
  static void SendChunk(Client& client, const std::string& chunk) {
    pb::UpscaleImageRequest request;
    request.set_chunk(chunk);
    EXPECT_TRUE(client.stream->Write(request));
  }
  static void SendEnd(Client& client) {
    if (!std::exchange(client.sent_all, true)) client.stream->WritesDone();
  }
  static std::string Finish(Client& client, int64_t answers) {
    SendEnd(client);
    std::string received;
    pb::UpscaleImageResponse response;
    int64_t chunks = 0;
    while (client.stream->Read(&response)) {
      if (response.has_summary()) {
        received = response.summary().etag();
      } else {
        EXPECT_EQ(response.chunk(), std::string(kAnswerBytes, static_cast<char>(chunks)));
        ++chunks;
      }
    }
    EXPECT_EQ(chunks, answers);
    const grpc::Status status = client.stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return received;
  }
  // A call more, with an end at once.
  static void ExpectServed(RpcServer& server) {
    grpc::ClientContext context;
    const auto stream = server.stub().UpscaleImage(&context);
    pb::UpscaleImageRequest request;
    request.mutable_start()->set_total_bytes(0);
    EXPECT_TRUE(stream->Write(request));
    stream->WritesDone();
    pb::UpscaleImageResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_TRUE(stream->Finish().ok());
  }
};

TEST_F(SlowClientTest, AnAnswerOnTheDiskHoldsNeitherSlotNorThread) {
  constexpr int64_t kAnswers = 60;
  RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/1, /*spool_bytes=*/size_t{64} << 20);
  Client reader = Start(server, kAnswers), leaver = Start(server, kAnswers);
  for (Client* client : {&reader, &leaver}) SendEnd(*client);
  test::Await([&] {
    const AdmissionState state = server.admission_state();
    return state.calls_admitted == 2 && state.requests == 0;
  });
  EXPECT_GT(server.spool_bytes_in_use(), 0);
  EXPECT_LE(server.admission_state().memory_bytes, 2 * (int64_t{3} << 19));
  ExpectServed(server);
  leaver.context->TryCancel();
  test::Await([&] { return server.ended().size() == 2; });
  EXPECT_THAT(server.ended(), ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kCancelled));
  Finish(reader, kAnswers);
  test::Await([&] {
    return server.spool_bytes_in_use() == 0 && server.admission_state().memory_bytes == 0;
  });
  EXPECT_EQ(server.ended().back(), absl::StatusCode::kOk);
}

TEST_F(SlowClientTest, AnAnswerThatTheDiskHasNoRoomForWaits) {
  constexpr int64_t kAnswers = 60;
  for (const size_t blocks : {size_t{0}, size_t{1}, size_t{2}, size_t{20}}) {
    RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/1, blocks * kBodyBlockBytes);
    Client reader = Start(server, kAnswers);
    SendEnd(reader);
    test::Await([&] {
      return server.spool_bytes_in_use() == static_cast<int64_t>(blocks * kBodyBlockBytes);
    });
    Finish(reader, kAnswers);
    test::Await([&] { return server.admission_state().memory_bytes == 0; });
  }
}

TEST_F(SlowClientTest, WhileSlotsAreShortABodyIsReceivedBeforeItHasOne) {
  RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/2, /*spool_bytes=*/size_t{64} << 20);
  Client first = StartWithSlot(server);
  std::vector<Client> slow;
  std::string sent;
  for (int i = 0; i < 20; ++i) slow.push_back(Start(server, 1));
  for (int chunk = 0; chunk < 3; ++chunk) {
    sent += std::string(1000, static_cast<char>('a' + chunk));
    for (Client& client : slow) SendChunk(client, sent.substr(sent.size() - 1000));
  }
  EXPECT_EQ(server.admission_state().requests, 1);
  EXPECT_EQ(server.admission_state().calls_admitted, 1);
  slow.back().context->TryCancel();
  test::Await([&] { return server.ended().size() == 1; });
  EXPECT_THAT(server.ended(), ElementsAre(absl::StatusCode::kCancelled));
  slow.pop_back();
  for (Client& client : slow) EXPECT_EQ(Finish(client, 1), sent);
  SendChunk(first, "whole");
  EXPECT_EQ(Finish(first, 0), "whole") << "it had a slot from the beginning";
}

// Bodies before the disk are paid for, and small ones do not wait for it.
TEST_F(SlowClientTest, AMessageThatWaitsForTheDiskIsInTheBudget) {
  RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/2, /*spool_bytes=*/size_t{64} << 20);
  Client first = StartWithSlot(server);
  const int64_t before = server.admission_state().memory_bytes;
  absl::Notification go_on;
  server.BlockDisk(go_on);

  Client small = Start(server, 0), large = Start(server, 0);
  for (int i = 0; i < 3; ++i) SendChunk(small, "abc");
  EXPECT_EQ(Finish(small, 0), "abcabcabc") << "while the disk is busy";
  const std::string chunk(size_t{100} << 10, 'x');
  SendChunk(large, chunk);
  test::Await([&] {
    return server.admission_state().memory_bytes - before >= 2 * static_cast<int64_t>(chunk.size());
  });
  go_on.Notify();
  test::Await([&] { return server.admission_state().memory_bytes == before; });
  EXPECT_EQ(Finish(large, 0), chunk);
  Finish(first, 0);
}

TEST_F(SlowClientTest, AMessageBeyondTheBudgetIsRefused) {
  RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/2, /*spool_bytes=*/size_t{64} << 20);
  Client first = StartWithSlot(server);
  const AdmissionState state = server.admission_state();
  const auto rest = server.admission().Reserve(
      {.memory_bytes = server.admission().memory_budget_bytes() - state.memory_bytes});
  ASSERT_TRUE(rest.ok());
  Client large = Start(server, 0);
  SendChunk(large, std::string(size_t{100} << 10, 'x'));
  EXPECT_EQ(large.stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  Finish(first, 0);
}

TEST_F(SlowClientTest, ABrokenMessageOnTheDiskIsRefused) {
  RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/2, /*spool_bytes=*/size_t{64} << 20);
  Client first = StartWithSlot(server);
  grpc::GenericStub stub(server.channel());
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto call = stub.PrepareCall(&context, AnsweringMethod().path, &queue);
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(done());
  pb::UpscaleImageRequest start;
  start.mutable_start();
  for (const std::string& bytes : {start.SerializeAsString(), std::string("\x12\x7f abc")}) {
    const grpc::Slice slice(bytes);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(done());
  }
  call->WritesDone(nullptr);
  ASSERT_TRUE(done());
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(done());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  Finish(first, 0);
}

TEST_F(SlowClientTest, AFastBodyHasASlotBeforeItsEnd) {
  RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/2, /*spool_bytes=*/size_t{64} << 20);
  Client first = StartWithSlot(server);
  Client fast = Start(server, 0);
  const std::string chunk(size_t{900} << 10, 'x');
  for (int i = 0; i < 2; ++i) SendChunk(fast, chunk);
  test::Await([&] { return server.admission_state().requests == 2; });
  SendChunk(fast, "end");
  EXPECT_EQ(Finish(fast, 0), chunk + chunk + "end");
  Finish(first, 0);
}

TEST_F(SlowClientTest, ABodyWithoutRoomOnTheDiskHasASlot) {
  RpcServer server(AnsweringMethod(), TwoSlots(), /*threads=*/2, /*spool_bytes=*/kBodyBlockBytes);
  Client first = StartWithSlot(server);
  Client second = Start(server, 0);
  const std::string chunk(150'000, 'x');
  SendChunk(second, chunk);
  test::Await([&] { return server.admission_state().requests == 2; });
  SendChunk(second, "end");
  EXPECT_EQ(Finish(second, 0), chunk + "end");
  Finish(first, 0);
}

// Answers each message.
Method RepeatingMethod() {
  Method method{.path = "/upscale.v1.UpscaleService/UpscaleImage",
                .name = "UpscaleImage",
                .request = &pb::UpscaleImageRequest::default_instance(),
                .max_first_message_bytes = 1000};
  method.reply = UnaryHandler<pb::UpscaleImageRequest, pb::UpscaleImageResponse>(
      [](const CallContext&, const auto& request, auto& response) {
        response.set_chunk(request.chunk());
        return absl::OkStatus();
      });
  return method;
}

TEST(ReplyTest, ASessionThatHasLastedLongEndsWell) {
  RpcServer server(RepeatingMethod(), Limits(), /*threads=*/1, /*spool_bytes=*/0,
                   /*start_timeout=*/absl::Milliseconds(50));
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleImage(&context);
  stream->Write(pb::UpscaleImageRequest());
  test::Await([&] {
    server.LetTimePass(absl::Seconds(1));  // the watchdog looks
    return server.ended().size() == 1;
  });
  EXPECT_THAT(server.ended(), ElementsAre(absl::StatusCode::kOk));
  pb::UpscaleImageResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace upscaled::server
