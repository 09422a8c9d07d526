// Moves bytes between an HTTP/2 client and the server's end of a socket pair, with the guard on
// the client's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/time/time.h"
#include "engine/base/unique_fd.h"
#include "server/net/http2_connection.h"
#include "server/net/io_thread.h"

namespace upscaled::server {

class Relay;

struct RelayOptions {
  // The limit for a client that takes nothing of what it was sent.
  absl::Duration stall_timeout = absl::Seconds(60);
  // For the server to close its end after the client has ended its half, and for the client to take
  // what the server still says to that. gRPC does not close during a write.
  absl::Duration close_timeout = absl::Seconds(10);
  // Both are called on the thread, at most once; nothing is after `on_end`, which may destroy the
  // relay. The client has done something wrong and is being dismissed:
  std::function<void(Relay& relay, Offence offence)> on_offence;
  // Both sides are closed:
  std::function<void(Relay& relay)> on_end;
};

// Used on one thread, which must be `thread`. Holds bytes only while a side does not take them, at
// most one buffer each way, and reads none of the other side meanwhile. After the server closes its
// end, the client has a limited time to read the remaining bytes. A client that breaks the rules is
// told so (GOAWAY), unless the server is within a frame or the client takes nothing.
class Relay {
 public:
  virtual ~Relay() = default;
  // `server`: non-blocking. `buffer` is used during callbacks of the thread and may be shared by
  // all relays of the thread.
  static std::shared_ptr<Relay> Start(IoThread& thread, std::shared_ptr<Http2Connection> connection,
                                      UniqueFd server, std::span<uint8_t> buffer,
                                      RelayOptions options);
  // From now on this is the time in which the client must take something.
  virtual void SetStallTimeout(absl::Duration timeout) = 0;
  // Closes both sides.
  virtual void Cancel() = 0;
  virtual const Http2Connection& connection() const = 0;
};

}  // namespace upscaled::server
