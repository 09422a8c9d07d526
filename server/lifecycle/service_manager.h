// The messages of the server to a service manager (systemd, with Type=notify).
#pragma once

#include <string_view>

namespace upscaled::server {

// Sends `state` ("READY=1", see sd_notify(3)) to $NOTIFY_SOCKET; does nothing without that
// variable, and never waits. The protocol is one datagram. libsystemd with its compression
// libraries would be much to load for it into a process in front of the network.
void NotifyServiceManager(std::string_view state);

}  // namespace upscaled::server
