#include "server/net/client_hello.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string_view>
#include <vector>

namespace upscaled::server {
namespace {

// The first record of a client with an offer of `alpn`; each name is after its length.
std::vector<uint8_t> Hello(std::string_view alpn) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  if (!alpn.empty()) {
    SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const uint8_t*>(alpn.data()),
                        static_cast<unsigned>(alpn.size()));
  }
  BIO* const output = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), output);
  SSL_connect(ssl.get());
  std::vector<uint8_t> bytes(size_t{64} << 10);
  const int count = BIO_read(output, bytes.data(), static_cast<int>(bytes.size()));
  bytes.resize(static_cast<size_t>(std::max(count, 0)));
  return bytes;
}

TEST(ClientHelloTest, FindsHttp2WhereItIsOfferedAlone) {
  EXPECT_TRUE(OffersHttp2Alone(Hello("\x02h2")));
  EXPECT_TRUE(OffersHttp2Alone(Hello("\x08grpc-exp\x02h2")));
  EXPECT_FALSE(OffersHttp2Alone(Hello("\x02h2\x08http/1.1")));
  EXPECT_FALSE(OffersHttp2Alone(Hello("\x08http/1.1")));
  EXPECT_FALSE(OffersHttp2Alone(Hello("")));
}

TEST(ClientHelloTest, KnowsHowLongTheRecordIs) {
  const std::vector<uint8_t> hello = Hello("\x02h2");
  EXPECT_EQ(HandshakeRecordBytes(std::span(hello).first<kTlsRecordHeaderBytes>()), hello.size());
  constexpr uint8_t kOther[kTlsRecordHeaderBytes] = {'G', 'E', 'T', ' ', '/'};
  EXPECT_EQ(HandshakeRecordBytes(kOther), 0u);
}

TEST(ClientHelloTest, AnyOtherBytesOfferNothing) {
  std::vector<uint8_t> hello = Hello("\x02h2");
  for (size_t bytes = 0; bytes < hello.size(); ++bytes) {
    EXPECT_FALSE(OffersHttp2Alone(std::span(hello).first(bytes))) << bytes;
  }
  for (uint8_t& byte : hello) {  // each by itself; nothing must crash
    byte ^= 0x80;
    (void)OffersHttp2Alone(hello);
    byte ^= 0x80;
  }
}

}  // namespace
}  // namespace upscaled::server
