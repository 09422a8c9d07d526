#include "server/net/tls_context.h"

#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "tests/client/temp_folder.h"
#include "tests/support/certificates.h"

namespace upscaled::server {
namespace {

using client::ReadText;
using client::TempFolder;
using client::WriteText;
using ::testing::HasSubstr;

class TlsContextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"old", "new"}) {
      if (!test::MakeCertificate(folder_.path(), name, "IP:127.0.0.1"))
        GTEST_SKIP() << "no openssl";
    }
    Use("old", "old");
  }

  void Use(const std::string& cert, const std::string& key) {
    WriteText(folder_ / "server.pem", ReadText(folder_ / (cert + ".pem")));
    WriteText(folder_ / "server.key", ReadText(folder_ / (key + ".key")));
  }

  TlsFiles Files() const { return {.cert = folder_ / "server.pem", .key = folder_ / "server.key"}; }

  TempFolder folder_;
};

TEST_F(TlsContextTest, ReloadsWhatHasChanged) {
  const auto tls = TlsContext::Load(Files());
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto before = (*tls)->context(TlsProtocol::kHttp2);
  EXPECT_FALSE(*(*tls)->ReloadIfChanged());
  EXPECT_EQ((*tls)->context(TlsProtocol::kHttp2), before);
  Use("new", "new");
  const absl::StatusOr<bool> reloaded = (*tls)->ReloadIfChanged();
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  EXPECT_TRUE(*reloaded);
  EXPECT_NE((*tls)->context(TlsProtocol::kHttp2), before);
  EXPECT_NE((*tls)->context(TlsProtocol::kHttp2), (*tls)->context(TlsProtocol::kHttp1));
  EXPECT_FALSE(*(*tls)->ReloadIfChanged());
}

TEST_F(TlsContextTest, KeepsTheOldWhileTheNewDoNotFit) {
  const auto tls = TlsContext::Load(Files());
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto before = (*tls)->context(TlsProtocol::kHttp2);
  Use("new", "old");
  EXPECT_THAT(std::string((*tls)->ReloadIfChanged().status().message()), HasSubstr("TLS files"));
  EXPECT_EQ((*tls)->context(TlsProtocol::kHttp2), before);
  EXPECT_FALSE(*(*tls)->ReloadIfChanged()) << "tells of it once";
  Use("new", "new");
  EXPECT_TRUE(*(*tls)->ReloadIfChanged());
  EXPECT_NE((*tls)->context(TlsProtocol::kHttp2), before);
}

TEST_F(TlsContextTest, NamesWhatIsWrong) {
  TlsFiles files = Files();
  files.key = folder_ / "new.key";
  EXPECT_THAT(std::string(TlsContext::Load(files).status().message()), HasSubstr("new.key"));
  files = Files();
  files.client_ca = folder_ / "server.key";
  EXPECT_THAT(std::string(TlsContext::Load(files).status().message()),
              HasSubstr("--tls-client-ca"));
  files = Files();
  WriteText(files.cert, "nothing");
  EXPECT_THAT(std::string(TlsContext::Load(files).status().message()),
              HasSubstr("there is no certificate"));
}

TEST_F(TlsContextTest, ABrokenBlockBehindWholeOnesIsNoEndOfTheFile) {
  const std::string whole = ReadText(folder_ / "old.pem"), next = ReadText(folder_ / "new.pem");
  std::string wrong = next;
  wrong[wrong.size() / 2] = '#';
  for (const std::string& broken : {next.substr(0, next.size() / 2), wrong}) {
    TlsFiles files = Files();
    files.client_ca = folder_ / "clients.pem";
    WriteText(files.client_ca, whole + broken);
    EXPECT_THAT(std::string(TlsContext::Load(files).status().message()),
                HasSubstr("a certificate of --tls-client-ca is broken"));
    files = Files();
    WriteText(files.cert, whole + broken);
    EXPECT_THAT(std::string(TlsContext::Load(files).status().message()),
                HasSubstr("a later certificate is broken"));
    WriteText(files.cert, whole + next + "\nsome text\n");
    EXPECT_TRUE(TlsContext::Load(files).ok());
  }
}

TEST_F(TlsContextTest, SpeaksNothingOlderThanTls12) {
  const auto tls = TlsContext::Load(Files());
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(SSL_CTX_get_min_proto_version((*tls)->context(TlsProtocol::kHttp1).get()),
            TLS1_2_VERSION);
}

}  // namespace
}  // namespace upscaled::server
