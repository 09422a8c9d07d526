// How to reach the servers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"

namespace upscaled::client {

// Files are PEM.
struct TlsOptions {
  // Certificates to trust; empty for the system's.
  std::string ca_file;
  // Our own certificate and its key, for servers with a request for one; both or neither.
  std::string cert_file;
  std::string key_file;
  // The name in the server's certificate, if it is not the endpoint's.
  std::string server_name;
};

struct ChannelOptions {
  // "host:port", "host" for port 8001, or "unix:/path". Calls go round robin over all addresses of
  // one endpoint, or over several endpoints, without the lost ones.
  std::vector<std::string> endpoints = {"127.0.0.1:8001"};
  std::optional<TlsOptions> tls;
  // Largest message either way. Images come in small ones, raw tiles in one each.
  int max_message_bytes = 64 << 20;
  // Whether to keep connections apart from those of other channels to the same endpoints.
  bool own_connections = false;
};

// Splits "a:1,b:2"; INVALID_ARGUMENT for an empty list or entry, or a bad port.
absl::StatusOr<std::vector<std::string>> ParseEndpoints(absl::string_view list);

// Whether bytes for `endpoint` stay on this machine.
bool IsLocalEndpoint(absl::string_view endpoint);

// A channel with its connection at the first call. INVALID_ARGUMENT for impossible endpoints,
// NOT_FOUND for unreadable TLS files, UNAVAILABLE when one of several host names has no address.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options);

}  // namespace upscaled::client
