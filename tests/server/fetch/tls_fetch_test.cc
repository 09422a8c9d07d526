// Sources over https.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/sanitized.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/fetch/fetcher.h"
#include "server/http/http_server.h"
#include "tests/client/temp_folder.h"
#include "tests/support/certificates.h"
#include "tests/support/peak_memory.h"

namespace upscaled::server {
namespace {

using testing::HasSubstr;

template <auto Function>
struct FreeBy {
  template <typename T>
  void operator()(T* object) const {
    Function(object);
  }
};

// Adds `count` certificates, all different.
void AddCertificates(const std::filesystem::path& path, int count) {
  EVP_PKEY* made = nullptr;
  const std::unique_ptr<EVP_PKEY_CTX, FreeBy<EVP_PKEY_CTX_free>> maker(
      EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nullptr));
  EVP_PKEY_keygen_init(maker.get());
  EVP_PKEY_keygen(maker.get(), &made);
  const std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>> key(made);
  const std::unique_ptr<BIO, FreeBy<BIO_free>> file(BIO_new_file(path.c_str(), "a"));
  for (int i = 0; i < count; ++i) {
    const std::unique_ptr<X509, FreeBy<X509_free>> certificate(X509_new());
    const std::string name = absl::StrCat("authority ", i);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), i + 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_sign(certificate.get(), key.get(), nullptr);
    PEM_write_bio_X509(file.get(), certificate.get());
  }
}

// A host of one file. It keeps the end back.
class TlsFetchTest : public testing::Test {
 protected:
  static constexpr size_t kSentBytes = 1000;

  void SetUp() override {
    if (!test::MakeCertificate(folder_.path(), "host", "localhost")) {
      GTEST_SKIP() << "no openssl command";
    }
    auto tls = TlsContext::Load({.cert = ca_, .key = folder_.path() / "host.key"});
    ASSERT_TRUE(tls.ok()) << tls.status();
    tls_ = *std::move(tls);
    HttpServerOptions options{.address = "127.0.0.1:0", .title = "a test", .tls = tls_.get()};
    options.routes.push_back({.method = "GET",
                              .path = "/image",
                              .description = "",
                              .stream = [this](std::unique_ptr<HttpExchange> exchange) {
                                threads_.emplace_back(
                                    [this, exchange = std::move(exchange)] { Answer(*exchange); });
                              }});
    auto host = HttpServer::Start(std::move(options), table_);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  ~TlsFetchTest() override {
    if (!over_.HasBeenNotified()) over_.Notify();
    host_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  void Answer(HttpExchange& exchange) {
    const std::vector<uint8_t> bytes(kSentBytes, 'x');
    if (!exchange.Begin({.length = kSentBytes + 1}, {}).ok()) return;
    if (!exchange.Write(bytes).ok()) return;
    over_.WaitForNotification();
    if (exchange.Write(std::span(bytes).first(1)).ok()) exchange.Finish({});
  }

  FetchOptions Options(const std::filesystem::path& ca) const {
    return {.allowed_private = *ParseUrlPrefixes({Url()}), .ca = ca};
  }
  std::string Url() const { return absl::StrCat("https://localhost:", host_->port(), "/image"); }

  client::TempFolder folder_;
  const std::filesystem::path ca_ = folder_.path() / "host.pem";
  std::unique_ptr<TlsContext> tls_;
  ConnectionTable table_{ConnectionLimits()};
  absl::Notification over_;
  std::vector<std::thread> threads_;  // added on the host's thread alone
  std::unique_ptr<HttpServer> host_;
};

TEST_F(TlsFetchTest, FetchesFromAHostThatAnAuthorityVouchesFor) {
  over_.Notify();
  const Fetcher fetcher(Options(ca_));
  Cancellation cancellation;
  auto source = fetcher.Fetch(*fetcher.Check(Url()), cancellation);
  ASSERT_TRUE(source.ok()) << source.status();
  size_t bytes = 0;
  std::array<uint8_t, 100> piece;
  while (true) {
    const absl::StatusOr<size_t> count = source->bytes->Read(piece);
    ASSERT_TRUE(count.ok()) << count.status();
    if (*count == 0) break;
    bytes += *count;
  }
  EXPECT_EQ(bytes, kSentBytes + 1);
}

TEST_F(TlsFetchTest, FetchesFromNoHostThatNobodyVouchesFor) {
  const std::filesystem::path none = folder_.path() / "none.pem", other = folder_.path() / "o.pem";
  AddCertificates(other, 1);
  Cancellation cancellation;
  for (const auto& [ca, why] : {std::pair{none, "none.pem"}, {other, "certificate"}}) {
    const Fetcher fetcher(Options(ca));
    const absl::Status status = fetcher.Fetch(*fetcher.Check(Url()), cancellation).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kSourceFailed) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

// Each would take 10 MiB with authorities of its own.
TEST_F(TlsFetchTest, TakesTheMemoryThatItReserves) {
  constexpr int kFetches = 8;
  AddCertificates(ca_, 2000);
  const Fetcher fetcher(Options(ca_));
  Cancellation cancellation;
  std::vector<FetchedSource> sources;
  const auto fetch = [&] {
    auto source = fetcher.Fetch(*fetcher.Check(Url()), cancellation);
    ASSERT_TRUE(source.ok()) << source.status();
    sources.push_back(*std::move(source));
  };
  fetch();  // what is taken once
  const test::PeakMemory memory;
  for (int i = 0; i < kFetches; ++i) fetch();
  EXPECT_EQ(sources.size(), 1u + kFetches);
  if (kSanitized) return;  // keeps what is freed
  EXPECT_LT(memory.grown_bytes(), kFetches * Fetcher::kMemoryBytes) << "and the host's part of it";
}

}  // namespace
}  // namespace upscaled::server
