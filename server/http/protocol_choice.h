// HTTP/1.1 and HTTP/2 on one port, told apart by the client's first bytes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>

#include "server/http/http_host.h"
#include "server/net/listener.h"

namespace upscaled::server {

enum class Transport : uint8_t { kPlain, kTls };

// Waits for the first bytes of `connection`, for at most the host's header timeout, leaves them
// where they are, and gives it to `on_http2` when they begin HTTP/2's preface, or, of TLS, offer
// HTTP/2 and not HTTP/1.1 (browsers and scrapers with both want HTTP/1.1). Gives others to
// `on_http1`. On the thread of `io`, the host's; until then the connection is one of the host's
// sessions.
void ChooseProtocol(HttpHost& host, boost::asio::io_context& io, Transport transport,
                    AcceptedConnection connection, std::function<void(AcceptedConnection)> on_http1,
                    std::function<void(AcceptedConnection)> on_http2);

}  // namespace upscaled::server
