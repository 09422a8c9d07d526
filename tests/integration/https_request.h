// Requests over HTTPS on a connection of their own, with the certificate of a client.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "absl/strings/str_cat.h"
#include "tests/integration/http_answers.h"

namespace upscaled::server {

// PEM files; without a certificate where it is empty.
struct TlsClientFiles {
  std::string authority, certificate, key;
};

// As Request of http_answers.h; status 0 without a connection.
inline HttpAnswer RequestOverTls(int port, const TlsClientFiles& files, std::string_view method,
                                 std::string_view target, std::string_view body = "",
                                 const HttpFields& fields = {}) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  SSL_CTX_load_verify_file(context.get(), files.authority.c_str());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (!files.certificate.empty()) {
    SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
  }
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> connection(BIO_new_ssl_connect(context.get()),
                                                                 BIO_free_all);
  BIO_set_conn_hostname(connection.get(), absl::StrCat("127.0.0.1:", port).c_str());
  const std::string request =
      RequestHeader(method, target, body.size(), fields) + std::string(body);
  size_t count = 0;
  if (BIO_write_ex(connection.get(), request.data(), request.size(), &count) != 1) return {};
  std::string text(size_t{64} << 10, '\0'), answer;
  while (BIO_read_ex(connection.get(), text.data(), text.size(), &count) == 1) {
    answer.append(text, 0, count);
  }
  return ParseAnswer(answer);
}

}  // namespace upscaled::server
