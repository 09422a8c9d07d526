// The gRPC port of the real server under clients against the rules, next to others.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/upscale_client.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/server/net/http2_frames.h"
#include "tests/server/net/test_socket.h"
#include "tests/support/certificates.h"
#include "tests/support/server_process.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::ReadText;
using client::TempFolder;
using client::WriteText;
using test::ServerProcess;
using ::testing::HasSubstr;

// On a connection of its own.
std::unique_ptr<pb::UpscaleService::Stub> NewStub(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                                    grpc::InsecureChannelCredentials()) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return pb::UpscaleService::NewStub(grpc::CreateCustomChannel(address, credentials, own));
}

grpc::Status Call(pb::UpscaleService::Stub& stub, const std::string& metadata = "") {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  context.set_wait_for_ready(true);
  if (!metadata.empty()) context.AddMetadata("x-metadata", metadata);
  pb::GetServerInfoResponse response;
  return stub.GetServerInfo(&context, {}, &response);
}

int PortOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

class NetTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kDescriptors = 256;

  ServerProcess server_{UPSCALED_BINARY,
                        {"--model-repository=engine/model/bundled", "--device=cpu", "--threads=2"}};
};

TEST_F(NetTest, SilentConnectionsKeepNobodyOut) {
  ASSERT_TRUE(server_.AwaitReady()) << server_.log();
  server_.LimitDescriptors(kDescriptors);
  std::vector<TestSocket> silent;
  for (int i = 0; i < 1100; ++i) {
    silent.push_back(TestSocket::Connect(PortOf(server_.grpc_address())));
  }
  const auto beside = NewStub(server_.grpc_address());
  const grpc::Status during = Call(*beside);
  EXPECT_TRUE(during.ok()) << during.error_message();
  silent.clear();
  const auto after = NewStub(server_.grpc_address());
  const grpc::Status status = Call(*after);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(NetTest, ConnectionsThatSpeakLeaveDescriptorsToOthers) {
  ASSERT_TRUE(server_.AwaitReady()) << server_.log();
  server_.LimitDescriptors(kDescriptors);
  std::vector<TestSocket> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(TestSocket::Connect(PortOf(server_.grpc_address())));
    clients.back().Write(Preface() + Frame(kSettingsFrame, 0, 0, 0));
  }
  clients.clear();
  const auto after = NewStub(server_.grpc_address());
  const grpc::Status status = Call(*after);
  EXPECT_TRUE(status.ok()) << status.error_message();
  server_.Signal(SIGTERM);
  EXPECT_EQ(server_.Wait(), 0);
}

TEST_F(NetTest, ARapidResetEndsItsConnectionAlone) {
  ASSERT_TRUE(server_.AwaitReady()) << server_.log();
  const auto beside = NewStub(server_.grpc_address());
  ASSERT_TRUE(Call(*beside).ok());
  const TestSocket attacker = TestSocket::Connect(PortOf(server_.grpc_address()));
  ASSERT_TRUE(attacker.Write(Preface() + Frame(kSettingsFrame, 0, 0, 0)));
  // An empty header block is a call refused by gRPC.
  bool open = true;
  for (uint32_t call = 1; open && call < 200'000; call += 2) {
    open = attacker.Write(Frame(kHeadersFrame, kEndHeadersFlag, 0, call) +
                          Frame(kResetFrame, 0, 4, call));
  }
  EXPECT_FALSE(open);
  EXPECT_TRUE(server_.AwaitLog("reason=resets")) << server_.log();
  const grpc::Status status = Call(*beside);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(GrpcPortTest, MuchMetadataFailsNoOtherCall) {
  TestServer server;
  grpc::ClientContext context;
  const auto stream = server.stub().UpscaleImage(&context);
  ASSERT_TRUE(stream->Write(StartMessage({})));
  for (const int bytes : {8 << 10, 16 << 10, 30 << 10}) {
    const grpc::Status status = Call(server.stub(), std::string(bytes, 'm'));
    EXPECT_TRUE(status.ok()) << bytes << ": " << status.error_message();
  }
  ASSERT_TRUE(stream->Write(ChunkMessage("no image")));
  stream->WritesDone();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(GrpcPortTest, LogsTheClientsAddress) {
  TestServer server;
  ASSERT_TRUE(Call(server.stub()).ok());
  EXPECT_THAT(server.log(), HasSubstr("peer=ipv4:127.0.0.1:"));
}

TEST(GrpcPortTest, ClosesIdleConnections) {
  ServerConfig config = TestConfig();
  config.idle_timeout = absl::Milliseconds(300);
  TestServer server(config);
  const TestSocket client = TestSocket::Connect(server.server().grpc_port());
  ASSERT_TRUE(client.Write(Preface() + Frame(kSettingsFrame, 0, 0, 0)));
  client.Read(1 << 20);  // settings, a farewell, and the end
  EXPECT_TRUE(client.Ends());
}

// The clients' ends of the connections in a log of calls.
std::set<std::string> PeersIn(const std::string& log) {
  static const std::regex kPeer("peer=ipv4:(\\S+)");
  std::set<std::string> peers;
  for (std::sregex_iterator at(log.begin(), log.end(), kPeer), end; at != end; ++at) {
    peers.insert((*at)[1]);
  }
  return peers;
}

TEST(GrpcPortTest, ConnectionsOfAgeAreReplacedAndLoseNoCall) {
  ServerConfig config = TestConfig();
  config.max_connection_age = absl::Seconds(1);
  TestServer server(config);
  client::ClientOptions options;
  options.channel.endpoints = {absl::StrCat("127.0.0.1:", server.server().grpc_port())};
  const auto client = client::UpscaleClient::Create(options);
  ASSERT_TRUE(client.ok()) << client.status();

  server.gate().Close();
  std::mt19937 random = test::FreshRandom();
  pb::UpscaleRequest request;
  request.set_image(
      *test::Encode(test::PhotoImage({40, 30, 3, SampleType::kU8}, random).view(), {}));
  auto held = std::async(std::launch::async, [&] { return (*client)->Upscale(request); });
  server.gate().AwaitWaiting(1);
  // Two connections end under it, its own and the next one.
  const absl::Time patience = absl::Now() + absl::Minutes(1);
  absl::Status lost;
  while (lost.ok() && PeersIn(server.log()).size() < 3 && absl::Now() < patience) {
    lost = (*client)->ServerInfo().status();
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(lost.ok()) << lost;
  EXPECT_GE(PeersIn(server.log()).size(), 3u);
  server.gate().Open();
  const auto result = held.get();
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(GrpcPortTest, NewCertificatesAreUsedWhileCallsRun) {
  TempFolder folder;
  for (const char* name : {"old", "new"}) {
    if (!test::MakeCertificate(folder.path(), name, "IP:127.0.0.1")) GTEST_SKIP() << "no openssl";
  }
  const auto use = [&](const std::string& name) {
    WriteText(folder / "server.pem", ReadText(folder / (name + ".pem")));
    WriteText(folder / "server.key", ReadText(folder / (name + ".key")));
  };
  use("old");
  ServerProcess server(UPSCALED_BINARY, {"--model-repository=engine/model/bundled", "--device=cpu",
                                         "--tls-cert=" + (folder / "server.pem").string(),
                                         "--tls-key=" + (folder / "server.key").string()});
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  const auto trusting = [&](const std::string& name) {
    return grpc::SslCredentials({.pem_root_certs = ReadText(folder / (name + ".pem"))});
  };
  const auto old_stub = NewStub(server.grpc_address(), trusting("old"));
  std::atomic<bool> stop = false;
  std::atomic<int> failed = 0;
  std::thread calls([&] {
    while (!stop) failed += Call(*old_stub).ok() ? 0 : 1;
  });
  use("new");
  EXPECT_TRUE(server.AwaitLog("the TLS files have changed and are in use")) << server.log();
  const auto new_stub = NewStub(server.grpc_address(), trusting("new"));
  const grpc::Status status = Call(*new_stub);
  EXPECT_TRUE(status.ok()) << status.error_message();
  stop = true;
  calls.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace upscaled::server
