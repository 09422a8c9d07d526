// The certificate and key of the clients' ports, and the clients' authorities, from changeable
// files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/reloaded.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace upscaled::server {

// PEM files.
struct TlsFiles {
  std::filesystem::path cert;       // chain
  std::filesystem::path key;        // of the chain's first certificate
  std::filesystem::path client_ca;  // not empty: clients must present a certificate of it
};

// A port's protocol.
enum class TlsProtocol : uint8_t { kHttp2, kHttp1 };
inline constexpr int kTlsProtocols = 2;

// TLS 1.2 and up. Thread safe.
class TlsContext {
 public:
  // INVALID_ARGUMENT names invalid files, and ones not fitting each other.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Load(const TlsFiles& files);

  // The context for new connections of a port: SSL_new keeps it alive; boost::asio::ssl::context
  // frees its argument, so needs a reference of its own (SSL_CTX_up_ref). A client with other
  // protocols only (ALPN) is refused.
  std::shared_ptr<ssl_ctx_st> context(TlsProtocol protocol) const;

  // Reads the files again when one of them has changed. true: new connections use the new files;
  // false: nothing had changed. An error leaves all as it was, and the same files are not tried
  // again; pipes cannot be read again.
  absl::StatusOr<bool> ReloadIfChanged() { return contexts_.ReloadIfChanged(); }
  // The same, whether they have changed or not.
  absl::Status Reload() { return contexts_.Reload(); }

 private:
  using Contexts = std::array<std::shared_ptr<ssl_ctx_st>, kTlsProtocols>;

  explicit TlsContext(const TlsFiles& files);
  static absl::StatusOr<std::shared_ptr<const Contexts>> MakeContexts(const TlsFiles& files,
                                                                      FileReader& reader);

  Reloaded<Contexts> contexts_;
};

}  // namespace upscaled::server
