// The real server and the real command over TLS.
#include <gmock/gmock.h>

#include "client/cli/exit_code.h"
#include "tests/client/process.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/certificates.h"
#include "tests/support/server_process.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::Process;
using client::ProcessResult;
using client::ReadText;
using client::TempFolder;
using client::WriteText;
using test::MakeCertificate;
using test::ServerProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"server", "client", "stranger"}) {
      if (!MakeCertificate(folder_.path(), name, "IP:127.0.0.1")) GTEST_SKIP() << "no openssl";
    }
  }

  std::string File(const std::string& name) const { return folder_ / name; }

  std::vector<std::string> ServerFlags(std::vector<std::string> more = {}) const {
    more.insert(more.end(),
                {"--model-repository=engine/model/bundled", "--tls-cert=" + File("server.pem"),
                 "--tls-key=" + File("server.key")});
    return more;
  }

  static ProcessResult Upscale(const ServerProcess& server, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), UPSCALE_BINARY);
    arguments.insert(arguments.end(), {"--server", server.grpc_address(), "--retries", "0"});
    return Process(arguments).Wait();
  }

  static void ExpectUnreachable(const ProcessResult& result, const std::string& why) {
    EXPECT_EQ(result.exit_code, client::kExitCannotConnect) << result.err;
    EXPECT_THAT(result.err, AllOf(StartsWith("upscale: cannot reach the server"), HasSubstr(why)));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  TempFolder folder_;
};

TEST_F(TlsServerTest, ServesThoseWhoTrustIt) {
  ServerProcess server(UPSCALED_BINARY, ServerFlags());
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({50, 31, 3, SampleType::kU8}, random);
  WriteText(File("in.png"), *test::Encode(image.view(), {}));
  const ProcessResult result =
      Upscale(server, {"image", "-i", File("in.png"), "-o", File("out.png"), "--tls", "--tls-ca",
                       File("server.pem")});
  ASSERT_EQ(result.exit_code, client::kExitOk) << result.err;
  const auto doubled = test::Decode(ReadText(File("out.png")));
  ASSERT_TRUE(doubled.ok()) << doubled.status();
  EXPECT_EQ(doubled->header.spec.size(), (Size{100, 62}));
}

TEST_F(TlsServerTest, IsNotTrustedWithoutItsCertificate) {
  ServerProcess server(UPSCALED_BINARY, ServerFlags());
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  ExpectUnreachable(Upscale(server, {"models", "--tls", "--tls-ca", File("stranger.pem")}),
                    "is not trusted, see --tls-ca");
  ExpectUnreachable(Upscale(server, {"models", "--tls"}), "is not trusted, see --tls-ca");
  ExpectUnreachable(Upscale(server, {"models", "--tls", "--tls-ca", File("server.pem"),
                                     "--tls-server-name", "other.example"}),
                    "is for another name, see --tls-server-name");
  ExpectUnreachable(Upscale(server, {"models"}), "without TLS?");
}

TEST_F(TlsServerTest, AsksClientsForCertificatesWhereTold) {
  ServerProcess server(UPSCALED_BINARY, ServerFlags({"--tls-client-ca=" + File("client.pem")}));
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  const auto models = [&](const std::string& name) {
    return Upscale(server, {"models", "--tls", "--tls-ca", File("server.pem"), "--tls-cert",
                            File(name + ".pem"), "--tls-key", File(name + ".key")});
  };
  const ProcessResult known = models("client");
  EXPECT_EQ(known.exit_code, client::kExitOk) << known.err;
  EXPECT_THAT(known.out, HasSubstr("general-2x"));
  ExpectUnreachable(models("stranger"), "");
  ExpectUnreachable(Upscale(server, {"models", "--tls", "--tls-ca", File("server.pem")}), "");
}

TEST_F(TlsServerTest, ServesOperatorsWithTlsUnlessOnLoopback) {
  ServerProcess server(UPSCALED_BINARY, ServerFlags({"--admin=0.0.0.0:0", "--allow-anonymous"}));
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  const std::string port = server.admin_address().substr(server.admin_address().rfind(':'));
  const auto reload = [&](std::vector<std::string> tls) {
    std::vector<std::string> arguments = {
        UPSCALE_BINARY, "models", "--reload", "--retries", "0", "--server", "127.0.0.1" + port};
    arguments.insert(arguments.end(), tls.begin(), tls.end());
    return Process(arguments).Wait();
  };
  const ProcessResult reloaded = reload({"--tls", "--tls-ca", File("server.pem")});
  EXPECT_EQ(reloaded.exit_code, client::kExitOk) << reloaded.err;
  ExpectUnreachable(reload({}), "without TLS?");
  for (const std::vector<std::string>& alpn :
       {std::vector<std::string>{"--http1.1"}, {"--http2"}, {"--no-alpn"}}) {
    std::vector<std::string> curl = {"/usr/bin/curl", "-sS", "--cacert", File("server.pem"),
                                     "https://127.0.0.1" + port + "/metrics"};
    curl.insert(curl.end(), alpn.begin(), alpn.end());
    const ProcessResult metrics = Process(curl).Wait();
    if (metrics.exit_code == 127) GTEST_SKIP() << "no curl";
    EXPECT_EQ(metrics.exit_code, 0) << metrics.err;
    EXPECT_THAT(metrics.out, HasSubstr("upscaled_ready 1"));
  }
}

TEST_F(TlsServerTest, RefusesFilesThatDoNotFit) {
  ServerProcess server(UPSCALED_BINARY,
                       {"--model-repository=engine/model/bundled",
                        "--tls-cert=" + File("server.pem"), "--tls-key=" + File("client.key")});
  EXPECT_EQ(server.Wait(), 2);
  EXPECT_THAT(server.log(), HasSubstr("TLS files"));
}

}  // namespace
}  // namespace upscaled::server
