#include "server/net/client_hello.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

namespace upscaled::server {
namespace {

constexpr uint8_t kHandshake = 22;
// Names of ALPN with their lengths before them.
constexpr uint8_t kHttp2[] = {2, 'h', '2'};
constexpr uint8_t kHttp1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

bool Offers(std::span<const uint8_t> names, std::span<const uint8_t> name) {
  uint8_t* chosen = nullptr;
  uint8_t chosen_bytes = 0;
  return SSL_select_next_proto(&chosen, &chosen_bytes, name.data(),
                               static_cast<unsigned>(name.size()), names.data(),
                               static_cast<unsigned>(names.size())) == OPENSSL_NPN_NEGOTIATED;
}

// OpenSSL has read the ClientHello, and goes no further.
int LookAtClientHello(SSL* ssl, int*, void* http2_alone) {
  constexpr size_t kLengthBytes = 2;  // of the list, before it
  const uint8_t* offer = nullptr;
  size_t bytes = 0;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &offer,
                                &bytes) == 1 &&
      bytes > kLengthBytes) {
    const auto names = std::span(offer, bytes).subspan(kLengthBytes);
    *static_cast<bool*>(http2_alone) = Offers(names, kHttp2) && !Offers(names, kHttp1);
  }
  return SSL_CLIENT_HELLO_ERROR;
}

}  // namespace

size_t HandshakeRecordBytes(std::span<const uint8_t, kTlsRecordHeaderBytes> header) {
  if (header[0] != kHandshake) return 0;
  return kTlsRecordHeaderBytes + (size_t{header[3]} << 8 | header[4]);
}

bool OffersHttp2Alone(std::span<const uint8_t> record) {
  bool http2_alone = false;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                                  SSL_CTX_free);
  if (context == nullptr) return false;
  SSL_CTX_set_client_hello_cb(context.get(), LookAtClientHello, &http2_alone);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  BIO* const input = BIO_new_mem_buf(record.data(), static_cast<int>(record.size()));
  BIO* const output = BIO_new(BIO_s_null());
  if (ssl == nullptr || input == nullptr || output == nullptr) {
    BIO_free(input);
    BIO_free(output);
    return false;
  }
  SSL_set_bio(ssl.get(), input, output);  // which owns them
  (void)SSL_accept(ssl.get());
  ERR_clear_error();
  return http2_alone;
}

}  // namespace upscaled::server
