#include "server/net/certificate_names.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

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

}  // namespace

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

}  // namespace upscaled::server
