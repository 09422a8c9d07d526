// From settings and devices to the options of the server's parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"
#include "server/devices/device.h"
#include "server/fetch/fetch_options.h"
#include "server/lifecycle/self_call.h"
#include "server/net/connection_table.h"
#include "server/net/http2_port.h"

namespace upscaled::server {

SelfCallTarget SelfTarget(const ServerConfig& config, const Http2Port& port);

// A port's, but no more connections than there are descriptors for, and from one address no more
// than leave some to others.
ConnectionLimits ConnectionLimitsOf(const ServerConfig& config);

// Bytes for a client to move in every --stall-timeout of the server's wait for it.
int64_t MinProgressBytes(const ServerConfig& config);

// INVALID_ARGUMENT: a prefix of URLs is none.
absl::StatusOr<FetchOptions> ToFetchOptions(const ServerConfig& config);

// "cpu:0,cpu:1".
std::string DeviceNames(const DeviceList& devices);
// The names of each device class's devices.
std::vector<std::string> ClassNames(const DeviceList& devices);

}  // namespace upscaled::server
