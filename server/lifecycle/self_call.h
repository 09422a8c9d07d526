// A call to the server's own gRPC port, from outside of gRPC.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/endpoint.h"

namespace upscaled::server {

struct SelfCallTarget {
  Endpoint endpoint;  // its host is an address, not a name
  bool tls = false;
  // Clients must present a certificate. The server's own is tried.
  bool client_certificates = false;
  std::filesystem::path cert, key;  // PEM, the server's; for client_certificates
};

// Where calls over TCP come from if they can: a loopback address without a limit shared with
// another client.
inline constexpr char kSelfCallHost[] = "127.83.69.76";

// Opens a connection of its own and calls grpc.health.v1.Health/Check over it, with frames written
// by hand: a channel of gRPC's would share its threads and, connected once, say nothing of the
// listener. OK if a health answer came, with any status. UNAVAILABLE says how far the call got.
//
// TLS is spoken without a look at the certificate: it is about life, not identity. If clients must
// present a certificate and the server's own is refused as one, a handshake with an answer of the
// server counts as an answer.
absl::Status CallSelf(const SelfCallTarget& target, absl::Duration timeout);

}  // namespace upscaled::server
