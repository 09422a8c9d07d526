#include "server/fetch/authorities.h"

#include <curl/curl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <new>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/files.h"

namespace upscaled::server {
namespace {

// A process holds one library of one major version.
bool CurlUsesThisOpenSsl(const char* tls_library) {
  const unsigned long major = OpenSSL_version_num() >> 28;
  return tls_library != nullptr &&
         absl::StartsWith(tls_library, absl::StrCat("OpenSSL/", major, "."));
}

bool AddTo(X509_STORE* store, const char* file, const char* folder) {
  const bool added = X509_STORE_load_locations(store, file, folder) == 1;
  ERR_clear_error();
  return added;
}

}  // namespace

Authorities::Authorities(std::filesystem::path file) : file_(std::move(file)) {
  if (!file_.empty()) return;
  const curl_version_info_data& curl = *curl_version_info(CURLVERSION_NOW);
  const bool known = curl.cainfo != nullptr || curl.capath != nullptr;
  const char* const system_file = known ? curl.cainfo : X509_get_default_cert_file();
  const char* const system_folder = known ? curl.capath : X509_get_default_cert_dir();
  if (system_file != nullptr) file_ = system_file;
  if (system_folder != nullptr) folder_ = system_folder;
}

absl::StatusOr<Authorities::Store> Authorities::Get() {
  const std::string file_state = FileState(file_).value_or("");
  {
    absl::MutexLock lock(&mutex_);
    if (loading_ || (store_.ok() && file_state == file_state_)) return store_;
    loading_ = true;
  }
  const absl::Cleanup loaded = [this] {
    absl::MutexLock lock(&mutex_);
    loading_ = false;
  };
  absl::StatusOr<Store> store = Load();
  absl::MutexLock lock(&mutex_);
  file_state_ = file_state;
  if (store.ok() || !store_.ok()) store_ = std::move(store);
  return store_;
}

absl::StatusOr<Authorities::Store> Authorities::Load() const {
  const char* const tls_library = curl_version_info(CURLVERSION_NOW)->ssl_version;
  if (!CurlUsesThisOpenSsl(tls_library)) {
    return absl::UnavailableError(absl::StrCat("https needs a libcurl over OpenSSL; this one has ",
                                               tls_library ? tls_library : "none"));
  }
  const Store store(X509_STORE_new(), X509_STORE_free);
  if (store == nullptr) throw std::bad_alloc();
  // As curl does: a listed authority need not be a root.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  const bool has_file = !file_.empty() && AddTo(store.get(), file_.c_str(), nullptr);
  // Looked up by the names' hashes, one by one.
  const bool has_folder = !folder_.empty() && AddTo(store.get(), nullptr, folder_.c_str());
  // Whether a folder has any is not seen yet: it does not stand in for an unreadable file.
  std::error_code error;
  if (has_file || (has_folder && !std::filesystem::exists(file_, error))) return store;
  return absl::UnavailableError(
      absl::StrCat("cannot read certificates of authorities in \"", file_.string(), "\""));
}

}  // namespace upscaled::server
