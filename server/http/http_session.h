// One connection of HTTP/1.1, from its first byte to its last.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "server/http/http_host.h"
#include "server/net/listener.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace upscaled::server {

// Serves `connection`, over TLS unless `tls` is null; on the thread that runs `io`, the host's.
// Requests are answered one after the other, also where a client sends several at once.
//
// Faults come from here, and end the connection, because bytes behind such a request may be
// smuggled:
//   400  no request; none or two Hosts; Content-Length next to Transfer-Encoding; a target with two
//        readings; chunks that break the rules, carry next to nothing, or have headers or
//        trailers over 8 KiB
//   408  too slow
//   417  an Expect other than 100-continue
//   431  a header over the limit
//   501  an unknown method, or a transfer coding other than chunked
//   505  another version; a streamed answer over a Unix socket to HTTP/1.0, without its length
// The end is gradual: the session reads on first, so that the client gets to read the answer.
//
// A body is read while its request is answered, into the exchange's BodyQueue, until it is full.
// Unread bytes are dropped, within limits, so the connection can serve the next request.
void StartHttpSession(HttpHost& host, boost::asio::io_context& io, AcceptedConnection connection,
                      const std::shared_ptr<ssl_ctx_st>& tls);

}  // namespace upscaled::server
