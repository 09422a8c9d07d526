// One connection of HTTP/1.1, from its first byte to its last.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "server/http/http_host.h"
#include "server/net/listener.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace upscaled::server {

// Serves `connection`, over TLS unless `tls` is null; on the thread that runs `io`, the host's.
// Requests are answered one after the other, also where a client sends several at once. Status 400,
// 408, 417, 431, 501 and 505 come from here, and end the connection.
//
// A body is read while its request is answered, into the exchange's BodyQueue, until it is full.
// Unread bytes are dropped, within limits, so the connection can serve the next request.
void StartHttpSession(HttpHost& host, boost::asio::io_context& io, AcceptedConnection connection,
                      const std::shared_ptr<ssl_ctx_st>& tls);

}  // namespace upscaled::server
