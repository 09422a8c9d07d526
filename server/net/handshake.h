// The beginning of a connection: TLS where asked, then HTTP/2's preface, in time.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "server/net/handshake_crew.h"
#include "server/net/http2_connection.h"
#include "server/net/io_thread.h"

namespace upscaled::server {

// Used on one thread, which must be `thread`. TLS is computed by `crew`, if that is not null. A
// silent connection costs only its socket and this object.
class Handshake {
 public:
  // Called once, on the thread, with the connection after its preface, or with the reason for its
  // failure. Not called after Cancel.
  using Done = std::function<void(std::shared_ptr<Http2Connection>, std::optional<Offence>)>;

  virtual ~Handshake() = default;
  static std::shared_ptr<Handshake> Start(IoThread& thread,
                                          std::shared_ptr<Http2Connection> connection,
                                          absl::Duration timeout, Done done,
                                          HandshakeCrew* crew = nullptr);
  // Closes the connection, if it is still its own.
  virtual void Cancel() = 0;
  // Until it has ended.
  virtual const Http2Connection& connection() const = 0;
};

}  // namespace upscaled::server
