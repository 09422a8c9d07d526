#include "server/lifecycle/part_options.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "server/base/endpoint.h"
#include "server/net/descriptors.h"

namespace upscaled::server {

SelfCallTarget SelfTarget(const ServerConfig& config, const Http2Port& port) {
  return {.endpoint = port.own_endpoint(),
          .tls = config.tls.enabled(),
          .client_certificates = !config.tls.client_ca.empty(),
          .cert = config.tls.cert,
          .key = config.tls.key};
}

ConnectionLimits ConnectionLimitsOf(const ServerConfig& config) {
  constexpr int64_t kDescriptorsEach = 3;  // the client's socket and a pair behind it
  const int64_t room =
      std::max<int64_t>((DescriptorLimit() - kReservedDescriptors) / kDescriptorsEach, 4);
  const auto all = static_cast<int>(std::min<int64_t>(config.max_connections, room));
  const bool calls_itself_over_unix = ParseEndpoint(config.listen)->is_unix();
  const bool by_default =
      config.max_connections_per_address == ServerConfig().max_connections_per_address;
  return {.max_connections = all,
          .max_connections_per_address =
              by_default ? std::min(config.max_connections_per_address, std::max(all * 3 / 4, 1))
                         : config.max_connections_per_address,
          .exempt_host = calls_itself_over_unix ? kOwnProcess : kSelfCallHost};
}

int64_t MinProgressBytes(const ServerConfig& config) {
  constexpr int64_t kLeast = int64_t{16} << 10;  // however short that time is
  const double bytes = static_cast<double>(config.min_client_rate) *
                       absl::ToDoubleSeconds(std::min(config.stall_timeout, absl::Hours(24)));
  return std::max(kLeast, static_cast<int64_t>(bytes));
}

absl::StatusOr<FetchOptions> ToFetchOptions(const ServerConfig& config) {
  FetchOptions options{.timeout = config.fetch_timeout,
                       .stall_timeout = config.fetch_stall_timeout,
                       .ca = config.fetch_ca};
  ASSIGN_OR_RETURN(options.allowed, ParseUrlPrefixes(config.fetch_allow));
  ASSIGN_OR_RETURN(options.allowed_private, ParseUrlPrefixes(config.fetch_allow_private));
  return options;
}

std::string DeviceNames(const DeviceList& devices) {
  return absl::StrJoin(devices, ",", [](std::string* out, const std::shared_ptr<Device>& device) {
    out->append(device->name());
  });
}

std::vector<std::string> ClassNames(const DeviceList& devices) {
  std::vector<DeviceList> classes;
  for (const std::shared_ptr<Device>& device : devices) {
    classes.resize(std::max<size_t>(classes.size(), device->device_class() + 1));
    classes[device->device_class()].push_back(device);
  }
  std::vector<std::string> names;
  for (const DeviceList& device_class : classes) names.push_back(DeviceNames(device_class));
  return names;
}

}  // namespace upscaled::server
