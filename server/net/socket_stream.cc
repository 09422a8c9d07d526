#include "server/net/socket_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

IoResult FromErrno(IoStatus blocked) {
  const bool again = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return {again ? blocked : IoStatus::kError};
}

class PlainStream final : public SocketStream {
 public:
  explicit PlainStream(UniqueFd socket) : socket_(std::move(socket)) {}

  IoResult Handshake() override { return {IoStatus::kDone}; }

  IoResult Read(std::span<uint8_t> bytes) override {
    const ssize_t n = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n < 0) return FromErrno(IoStatus::kWantRead);
    return n == 0 ? IoResult{IoStatus::kEnd} : IoResult{IoStatus::kDone, static_cast<size_t>(n)};
  }

  IoResult Write(std::span<const uint8_t> bytes) override {
    const ssize_t n = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0) return FromErrno(IoStatus::kWantWrite);
    return {IoStatus::kDone, static_cast<size_t>(n)};
  }

  void EndWrites() override { shutdown(socket_.get(), SHUT_WR); }
  bool HasBuffered() const override { return false; }
  int fd() const override { return socket_.get(); }
  std::shared_ptr<const std::vector<std::string>> CertificateNames() const override {
    return nullptr;
  }

 private:
  const UniqueFd socket_;
};

struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

std::string_view TextOf(const ASN1_IA5STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// "" for other kinds.
std::string NameOf(const GENERAL_NAME& name) {
  if (name.type != GEN_DNS && name.type != GEN_URI) return "";
  const std::string_view text = TextOf(name.d.ia5);
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isgraph)) return "";
  return name.type == GEN_URI ? absl::StrCat("URI:", ToAbsl(text))
                              : absl::StrCat("DNS:", absl::AsciiStrToLower(ToAbsl(text)));
}

std::shared_ptr<const std::vector<std::string>> CertificateNamesOf(const SSL* ssl) {
  const X509* const certificate = SSL_get0_peer_certificate(ssl);
  if (certificate == nullptr || SSL_get_verify_result(ssl) != X509_V_OK) return nullptr;
  const std::unique_ptr<GENERAL_NAMES, FreeNames> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> texts;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    std::string text = NameOf(*sk_GENERAL_NAME_value(names.get(), i));
    if (!text.empty()) texts.push_back(std::move(text));
  }
  if (texts.empty()) return nullptr;
  return std::make_shared<const std::vector<std::string>>(std::move(texts));
}

class TlsStream final : public SocketStream {
 public:
  TlsStream(UniqueFd socket, SSL* ssl) : socket_(std::move(socket)), ssl_(ssl) {}

  IoResult Handshake() override {
    return Run([&](size_t*) { return SSL_accept(ssl_.get()); });
  }

  IoResult Read(std::span<uint8_t> bytes) override {
    return Run(
        [&](size_t* done) { return SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), done); });
  }

  IoResult Write(std::span<const uint8_t> bytes) override {
    return Run(
        [&](size_t* done) { return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), done); });
  }

  void EndWrites() override {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    shutdown(socket_.get(), SHUT_WR);
  }

  bool HasBuffered() const override { return SSL_has_pending(ssl_.get()) != 0; }
  int fd() const override { return socket_.get(); }
  std::shared_ptr<const std::vector<std::string>> CertificateNames() const override {
    return CertificateNamesOf(ssl_.get());
  }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  template <typename Operation>
  IoResult Run(Operation operation) {
    ERR_clear_error();  // SSL_get_error looks at what others of the thread have left
    size_t bytes = 0;
    const int result = operation(&bytes);
    if (result == 1) return {IoStatus::kDone, bytes};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {IoStatus::kWantRead};
      case SSL_ERROR_WANT_WRITE:
        return {IoStatus::kWantWrite};
      case SSL_ERROR_ZERO_RETURN:
        return {IoStatus::kEnd};
      default:
        ERR_clear_error();
        return {IoStatus::kError};
    }
  }

  const UniqueFd socket_;
  const std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace

std::unique_ptr<SocketStream> MakePlainStream(UniqueFd socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

std::unique_ptr<SocketStream> MakeTlsStream(UniqueFd socket, ssl_ctx_st* context) {
  SSL* const ssl = SSL_new(context);
  if (ssl == nullptr) return nullptr;
  if (SSL_set_fd(ssl, socket.get()) != 1) {
    SSL_free(ssl);
    return nullptr;
  }
  return std::make_unique<TlsStream>(std::move(socket), ssl);
}

}  // namespace upscaled::server
