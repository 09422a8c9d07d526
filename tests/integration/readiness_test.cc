// Whether readiness tells the truth.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "server/lifecycle/self_call.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/certificates.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(20);

TEST(SelfCallTest, IsAnsweredOverEveryAddress) {
  for (const char* listen : {"127.0.0.1:0", "0.0.0.0:0", "localhost:0"}) {
    ServerConfig config = TestConfig();
    config.listen = listen;
    TestServer server(config);
    EXPECT_EQ(CallSelf({.endpoint = {.host = "127.0.0.1", .port = server.server().grpc_port()}},
                       kTimeout),
              absl::OkStatus())
        << listen;
  }
}

TEST(SelfCallTest, IsAnsweredByAServerThatIsNotWarm) {
  TestServer server(TestConfig(), TestServer::Start::kCold);
  EXPECT_EQ(
      CallSelf({.endpoint = {.host = "127.0.0.1", .port = server.server().grpc_port()}}, kTimeout),
      absl::OkStatus());
}

TEST(SelfCallTest, GoesThroughAUnixSocket) {
  TempFolder folder;
  ServerConfig config = TestConfig();
  config.listen = "unix:" + (folder / "upscaled.sock").string();
  const Endpoint endpoint{.path = folder / "upscaled.sock"};
  {
    const TestServer server(config, TestServer::Start::kCold);
    EXPECT_EQ(CallSelf({.endpoint = endpoint}, kTimeout), absl::OkStatus());
  }
  EXPECT_THAT(std::string(CallSelf({.endpoint = endpoint}, kTimeout).message()),
              HasSubstr("No such file"));
}

TEST(SelfCallTest, SpeaksTls) {
  TempFolder folder;
  if (!test::MakeCertificate(folder.path(), "server", "DNS:somewhere.example") ||
      !test::MakeCertificate(folder.path(), "client", "IP:127.0.0.1")) {
    GTEST_SKIP() << "no openssl";
  }
  for (const bool client_certificates : {false, true}) {
    ServerConfig config = TestConfig();
    config.tls.cert = folder / "server.pem";
    config.tls.key = folder / "server.key";
    if (client_certificates) config.tls.client_ca = folder / "client.pem";
    TestServer server(config);
    SelfCallTarget target = {.endpoint = {.host = "127.0.0.1", .port = server.server().grpc_port()},
                             .tls = true,
                             .client_certificates = client_certificates,
                             .cert = config.tls.cert,
                             .key = config.tls.key};
    EXPECT_EQ(CallSelf(target, kTimeout), absl::OkStatus());
    target.tls = false;
    EXPECT_FALSE(CallSelf(target, absl::Seconds(1)).ok()) << "no TLS";
  }
}

TEST(SelfCallTest, NoticesThatNobodyAnswers) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const SelfCallTarget target = {
      .endpoint = {.host = "127.0.0.1", .port = ntohs(address.sin_port)}};
  EXPECT_THAT(std::string(CallSelf(target, kTimeout).message()), HasSubstr("Connection refused"));
  ASSERT_EQ(listen(listener, 1), 0);  // the kernel takes connections, and nobody accepts them
  for (const bool tls : {false, true}) {
    SelfCallTarget silent = target;
    silent.tls = tls;
    EXPECT_THAT(std::string(CallSelf(silent, absl::Milliseconds(50)).message()),
                HasSubstr("does not answer in time"));
  }
  close(listener);
}

// All descriptors of this process but a few, and the limit back when it goes.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few = {.rlim_cur = 500, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd; fds_.size() < 470 && (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
      if (fd >= 490) {
        close(fd);
        break;
      }
      fds_.push_back(fd);
    }
  }
  ~NoDescriptors() {
    for (const int fd : fds_) close(fd);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
  }

 private:
  rlimit before_;
  std::vector<int> fds_;
};

TEST(ReadinessTest, SaysNoWhileDescriptorsRunOut) {
  TestServer server;
  const auto health = grpc::health::v1::Health::NewStub(server.channel());
  grpc::ClientContext context;
  const auto watch = health->Watch(&context, {});
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  ASSERT_EQ(response.status(), HealthCheckResponse::SERVING);
  {
    const NoDescriptors few;
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    EXPECT_THAT(server.log(), HasSubstr("file descriptors are in use, the limit is 500"));
  }
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_THAT(server.log(), HasSubstr("takes calls again"));
  context.TryCancel();
  watch->Finish();
}

}  // namespace
}  // namespace upscaled::server
