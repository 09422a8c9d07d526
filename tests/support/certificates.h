// Certificates for tests of TLS, made by the openssl command.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace upscaled::test {

// A part of openssl's command line: a new key in NAME.key, and the certificate's owner.
inline std::string CertificateRequest(const std::filesystem::path& folder, const std::string& name,
                                      const std::string& host) {
  const bool typed = host.starts_with("IP:") || host.starts_with("URI:");
  return "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -addext subjectAltName=" +
         (typed ? host : "DNS:" + host) + " -keyout '" + (folder / (name + ".key")).string() + "'";
}

// Writes NAME.pem and NAME.key to `folder`: a certificate, signed by itself, of `host` (a DNS name,
// an address after "IP:" or a URI after "URI:"). false without openssl.
inline bool MakeCertificate(const std::filesystem::path& folder, const std::string& name,
                            const std::string& host) {
  const std::string command = "openssl req -x509 -days 2 -subj /CN=upscaled-test " +
                              CertificateRequest(folder, name, host) + " -out '" +
                              (folder / (name + ".pem")).string() + "' >/dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

// The signer of a certificate, and its time of validity in OpenSSL's notation.
struct CertificateTerms {
  std::string authority;  // as MakeCertificate has named it, in the same folder
  std::string from = "20000101000000Z", to = "29990101000000Z";
};

// As MakeCertificate, but signed by an authority.
inline bool MakeSignedCertificate(const std::filesystem::path& folder, const std::string& name,
                                  const std::string& host, const CertificateTerms& terms) {
  std::ofstream(folder / "index");  // of what is signed, which OpenSSL insists on
  std::ofstream(folder / "ca.conf")
      << "[ca]\ndefault_ca=own\n[own]\npolicy=names\nrand_serial=yes\ndefault_md=sha256\n"
         "copy_extensions=copy\ndatabase=index\nnew_certs_dir=.\n[names]\ncommonName=supplied\n";
  const std::string command = "cd '" + folder.string() + "' && { openssl req -subj /CN=" + name +
                              " " + CertificateRequest(folder, name, host) +
                              " | openssl ca -batch -notext -config ca.conf -cert " +
                              terms.authority + ".pem -keyfile " + terms.authority +
                              ".key -startdate " + terms.from + " -enddate " + terms.to +
                              " -in /dev/stdin -out " + name + ".pem; } >/dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

}  // namespace upscaled::test
