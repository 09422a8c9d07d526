#include "client/channel.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/error_details.h"
#include "engine/base/status_macros.h"
#include "engine/base/unix_address.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace upscaled::client {
namespace {

constexpr int kDefaultPort = 8001;
// Above servers' limit for abuse, below routers' limit for forgetting connections.
constexpr int kKeepaliveTimeMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// In step with RetryPolicy: a retry finds a connection attempt and not the last failure.
constexpr int kMinReconnectMs = 200;
constexpr int kMaxReconnectMs = 5'000;

struct HostPort {
  std::string host;  // Without brackets.
  int port = kDefaultPort;
};

absl::StatusOr<HostPort> ParseHostPort(absl::string_view endpoint) {
  HostPort result;
  absl::string_view port;
  if (absl::StartsWith(endpoint, "[")) {
    const size_t end = endpoint.find(']');
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("endpoint '", endpoint, "' lacks a ']'"));
    }
    result.host = std::string(endpoint.substr(1, end - 1));
    port = endpoint.substr(end + 1);
  } else {
    const size_t colon = endpoint.find(':');
    result.host = std::string(endpoint.substr(0, colon));
    port = colon == absl::string_view::npos ? "" : endpoint.substr(colon);
  }
  const bool has_port = absl::ConsumePrefix(&port, ":");
  const bool port_ok =
      has_port ? absl::SimpleAtoi(port, &result.port) && result.port >= 1 && result.port <= 65535
               : port.empty();
  if (result.host.empty() || !port_ok) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint '", endpoint, "' is not host:port with a port from 1 to 65535"));
  }
  return result;
}

constexpr absl::string_view kUnix = "unix:";

absl::Status CheckEndpoint(absl::string_view endpoint) {
  if (!absl::ConsumePrefix(&endpoint, kUnix)) return ParseHostPort(endpoint).status();
  if (!endpoint.empty() && endpoint.size() <= kMaxSocketPathBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("endpoint 'unix:", endpoint, "' has a path of ",
                                                 endpoint.size(), " bytes, which must be 1 to ",
                                                 kMaxSocketPathBytes));
}

// Not engine/base's ReadFile: nothing of the engine is linked here.
absl::StatusOr<std::string> ReadPem(const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  if (!file || contents.str().empty()) {
    return absl::NotFoundError(absl::StrCat("cannot read the TLS file ", path));
  }
  return contents.str();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const std::optional<TlsOptions>& tls) {
  if (!tls.has_value()) return grpc::InsecureChannelCredentials();
  if (tls->cert_file.empty() != tls->key_file.empty()) {
    return absl::InvalidArgumentError("a TLS certificate needs its key, and a key its certificate");
  }
  grpc::SslCredentialsOptions pem;
  for (const auto& [path, text] : {std::pair{&tls->ca_file, &pem.pem_root_certs},
                                   std::pair{&tls->cert_file, &pem.pem_cert_chain},
                                   std::pair{&tls->key_file, &pem.pem_private_key}}) {
    ASSIGN_OR_RETURN(*text, ReadPem(*path));
  }
  return grpc::SslCredentials(pem);
}

// All IPv4 addresses of a host, or its IPv6 ones when it has no others.
absl::StatusOr<std::vector<std::string>> Resolve(const std::string& host, int* family) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0) {
    return WithOrigin(
        absl::UnavailableError(absl::StrCat("cannot resolve '", host, "': ", gai_strerror(error))),
        ErrorOrigin::kConnection);
  }
  std::vector<std::string> v4, v6;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[INET6_ADDRSTRLEN];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      (entry->ai_family == AF_INET6 ? v6 : v4).push_back(text);
    }
  }
  freeaddrinfo(list);
  *family = v4.empty() ? AF_INET6 : AF_INET;
  return v4.empty() ? v6 : v4;
}

// gRPC takes a list of addresses of one family; IPv4 ones among IPv6 ones are written as mapped.
absl::StatusOr<std::string> ListTarget(const std::vector<std::string>& endpoints) {
  struct Address {
    std::string text;
    int family;
    int port;
  };
  std::vector<Address> addresses;
  for (const std::string& endpoint : endpoints) {
    ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(endpoint));
    int family = AF_INET;
    ASSIGN_OR_RETURN(const std::vector<std::string> resolved, Resolve(parsed.host, &family));
    for (const std::string& text : resolved) addresses.push_back({text, family, parsed.port});
  }
  const bool all_v4 = std::all_of(addresses.begin(), addresses.end(),
                                  [](const Address& a) { return a.family == AF_INET; });
  const auto format = [all_v4](std::string* out, const Address& a) {
    const char* open = all_v4 ? "" : a.family == AF_INET ? "[::ffff:" : "[";
    absl::StrAppend(out, open, a.text, all_v4 ? ":" : "]:", a.port);
  };
  return absl::StrCat(all_v4 ? "ipv4:" : "ipv6:", absl::StrJoin(addresses, ",", format));
}

absl::StatusOr<std::string> Target(const std::vector<std::string>& endpoints) {
  if (endpoints.empty()) return absl::InvalidArgumentError("no endpoint given");
  if (endpoints.size() > 1) return ListTarget(endpoints);
  const std::string& endpoint = endpoints.front();
  if (absl::StartsWith(endpoint, kUnix)) return endpoint;
  ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(endpoint));
  const bool v6 = absl::StrContains(parsed.host, ':');
  return absl::StrCat("dns:///", v6 ? "[" : "", parsed.host, v6 ? "]:" : ":", parsed.port);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseEndpoints(absl::string_view list) {
  std::vector<std::string> endpoints;
  for (absl::string_view part : absl::StrSplit(list, ',')) {
    const absl::string_view endpoint = absl::StripAsciiWhitespace(part);
    RETURN_IF_ERROR(CheckEndpoint(endpoint));
    endpoints.emplace_back(endpoint);
  }
  return endpoints;
}

bool IsLocalEndpoint(absl::string_view endpoint) {
  if (absl::StartsWith(endpoint, kUnix)) return true;
  const absl::StatusOr<HostPort> parsed = ParseHostPort(endpoint);
  if (!parsed.ok()) return false;
  in_addr v4;
  if (inet_pton(AF_INET, parsed->host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr v6;
  if (inet_pton(AF_INET6, parsed->host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return absl::EqualsIgnoreCase(parsed->host, "localhost");
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options) {
  if (options.endpoints.size() > 1 && options.tls.has_value() && options.tls->server_name.empty()) {
    return absl::InvalidArgumentError(
        "several endpoints over TLS need the server name that their certificates show");
  }
  ASSIGN_OR_RETURN(const std::string target, Target(options.endpoints));
  ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(options.tls));

  grpc::ChannelArguments arguments;
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // Image servers are near; a web proxy of the environment would only be in the way.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // RunWithRetries repeats calls. gRPC 1.51's own retries can lose a call's end, deadline or not,
  // when a proxy refuses its stream early.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, options.own_connections ? 1 : 0);
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

}  // namespace upscaled::client
