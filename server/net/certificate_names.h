// For whom a client's certificate stands.
#pragma once

#include <memory>
#include <string>
#include <vector>

struct ssl_st;  // OpenSSL's SSL

namespace upscaled::server {

// The subject's alternative names for hosts ("DNS:client.example.org", in lower case) and URIs
// ("URI:spiffe://example.org/shop"), in the certificate's order, after a handshake in which it was
// verified. Null: the client has shown none, or it has no such names. Leaves out names with other
// characters than visible ASCII.
std::shared_ptr<const std::vector<std::string>> CertificateNamesOf(const ssl_st* ssl);

}  // namespace upscaled::server
