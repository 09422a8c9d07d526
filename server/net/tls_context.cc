#include "server/net/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxPemBytes = size_t{16} << 20;
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";  // of TLS 1.2; those of 1.3 are all good
constexpr unsigned char kSessionContext[] = "upscaled";

// Names of ALPN with their lengths before them.
constexpr unsigned char kHttp2Name[] = {2, 'h', '2'};
constexpr unsigned char kHttp1Name[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

template <auto Function>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    Function(object);
  }
};
using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using Names = std::unique_ptr<STACK_OF(X509_NAME), FreeWith<[](STACK_OF(X509_NAME) * names) {
                                sk_X509_NAME_pop_free(names, X509_NAME_free);
                              }>>;

// The contents of the files.
struct Pem {
  std::string cert;
  std::string key;
  std::string client_ca;
};

absl::StatusOr<std::string> ReadPem(const std::filesystem::path& path, FileReader& reader) {
  if (path.empty()) return std::string();
  return reader.Read(path, kMaxPemBytes);
}

Bio Reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Never asks at the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

absl::Status DoNotFit(const TlsFiles& files, std::string_view why) {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat("the TLS files do not fit each other: ", ToAbsl(why), " (",
                   reason == nullptr ? "no reason given" : reason, "); --tls-cert is ",
                   files.cert.string(), ", --tls-key ", files.key.string()));
}

// Whether reading certificates ended because no further one begins, and not within one.
bool EndsWhole() {
  const unsigned long code = ERR_peek_last_error();
  if (ERR_GET_LIB(code) != ERR_LIB_PEM || ERR_GET_REASON(code) != PEM_R_NO_START_LINE) return false;
  ERR_clear_error();
  return true;
}

absl::Status UseCertificate(SSL_CTX* context, const std::string& text, const TlsFiles& files) {
  const Bio reader = Reader(text);
  const Certificate leaf(PEM_read_bio_X509_AUX(reader.get(), nullptr, NoPassword, nullptr));
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return DoNotFit(files, "there is no certificate");
  }
  while (X509* const issuer = PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, issuer) != 1) {
      X509_free(issuer);
      return DoNotFit(files, "the chain is wrong");
    }
  }
  return EndsWhole() ? absl::OkStatus() : DoNotFit(files, "a later certificate is broken");
}

absl::Status UseKey(SSL_CTX* context, const std::string& text, const TlsFiles& files) {
  const PrivateKey key(PEM_read_bio_PrivateKey(Reader(text).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) return DoNotFit(files, "there is no private key without a password");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return DoNotFit(files, "the key is not the certificate's");
  }
  return absl::OkStatus();
}

absl::Status RequireClientsOf(SSL_CTX* context, const std::string& text, const TlsFiles& files) {
  const Bio reader = Reader(text);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  Names names(sk_X509_NAME_new_null());
  while (
      const Certificate authority{PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr)}) {
    if (X509_STORE_add_cert(store, authority.get()) != 1) {
      return DoNotFit(files, "an authority of --tls-client-ca is wrong");
    }
    sk_X509_NAME_push(names.get(), X509_NAME_dup(X509_get_subject_name(authority.get())));
  }
  if (!EndsWhole()) return DoNotFit(files, "a certificate of --tls-client-ca is broken");
  if (sk_X509_NAME_num(names.get()) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the TLS files do not fit each other: --tls-client-ca, ",
                     files.client_ca.string(), ", holds no certificate"));
  }
  SSL_CTX_set_client_CA_list(context, names.release());
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_bytes,
                   const unsigned char* offered, unsigned int offered_bytes, void* http2) {
  const unsigned char* const ours = http2 != nullptr ? kHttp2Name : kHttp1Name;
  const unsigned int our_bytes = http2 != nullptr ? sizeof(kHttp2Name) : sizeof(kHttp1Name);
  const int found = SSL_select_next_proto(const_cast<unsigned char**>(out), out_bytes, ours,
                                          our_bytes, offered, offered_bytes);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(const TlsFiles& files, const Pem& pem,
                                                     TlsProtocol protocol) {
  static constexpr char kYes = 0;  // an address for SelectProtocol
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  SSL_CTX* const raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(raw, kCiphers);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Keeps buffers only while they hold data. The rest of a write may move.
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_id_context(raw, kSessionContext, sizeof(kSessionContext) - 1);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  const bool http2 = protocol == TlsProtocol::kHttp2;
  SSL_CTX_set_alpn_select_cb(raw, SelectProtocol, http2 ? const_cast<char*>(&kYes) : nullptr);
  RETURN_IF_ERROR(UseCertificate(raw, pem.cert, files));
  RETURN_IF_ERROR(UseKey(raw, pem.key, files));
  if (!files.client_ca.empty()) RETURN_IF_ERROR(RequireClientsOf(raw, pem.client_ca, files));
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Load(const TlsFiles& files) {
  std::unique_ptr<TlsContext> context(new TlsContext(files));
  RETURN_IF_ERROR(context->contexts_.Load());
  return context;
}

TlsContext::TlsContext(const TlsFiles& files)
    : contexts_([files](FileReader& reader) { return MakeContexts(files, reader); }) {}

std::shared_ptr<SSL_CTX> TlsContext::context(TlsProtocol protocol) const {
  return (*contexts_.get())[static_cast<size_t>(protocol)];
}

absl::StatusOr<std::shared_ptr<const TlsContext::Contexts>> TlsContext::MakeContexts(
    const TlsFiles& files, FileReader& reader) {
  Pem pem;
  ASSIGN_OR_RETURN(pem.cert, ReadPem(files.cert, reader));
  ASSIGN_OR_RETURN(pem.key, ReadPem(files.key, reader));
  ASSIGN_OR_RETURN(pem.client_ca, ReadPem(files.client_ca, reader));
  Contexts contexts;
  for (int i = 0; i < kTlsProtocols; ++i) {
    ASSIGN_OR_RETURN(contexts[i], MakeContext(files, pem, static_cast<TlsProtocol>(i)));
  }
  return std::make_shared<const Contexts>(std::move(contexts));
}

}  // namespace upscaled::server
