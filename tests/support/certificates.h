// Certificates for tests of TLS, made by the openssl command.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace upscaled::test {

// Writes NAME.pem and NAME.key to `folder`: a certificate, signed by itself, of `host` (a DNS name,
// an address after "IP:" or a URI after "URI:"). false where there is no openssl.
inline bool MakeCertificate(const std::filesystem::path& folder, const std::string& name,
                            const std::string& host) {
  const bool typed = host.starts_with("IP:") || host.starts_with("URI:");
  const std::string subject = typed ? host : "DNS:" + host;
  const std::string command =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=upscaled-test"
      " -addext subjectAltName=" +
      subject + " -keyout '" + (folder / (name + ".key")).string() + "' -out '" +
      (folder / (name + ".pem")).string() + "' >/dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

}  // namespace upscaled::test
