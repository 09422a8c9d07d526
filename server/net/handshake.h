// The beginning of a connection: TLS where asked, then HTTP/2's preface, in time.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "server/net/handshake_crew.h"
#include "server/net/http2_connection.h"
#include "server/net/io_thread.h"

namespace upscaled::server {

// Used on `thread` only. `crew` computes TLS, if not null. A silent connection costs only its
// socket and this object.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  // Called once, on the thread, with the connection after its preface, or with the reason for its
  // failure. Not called after Cancel.
  using Done = std::function<void(std::shared_ptr<Http2Connection>, std::optional<Offence>)>;

  static std::shared_ptr<Handshake> Start(IoThread& thread,
                                          std::shared_ptr<Http2Connection> connection,
                                          absl::Duration timeout, Done done,
                                          HandshakeCrew* crew = nullptr);
  ~Handshake() { socket_.release(); }  // the connection's

  // Closes the connection, if it is still its own.
  void Cancel();
  // Until it has ended.
  const Http2Connection& connection() const { return *connection_; }

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;

  Handshake(IoThread& thread, std::shared_ptr<Http2Connection> connection, Done done,
            HandshakeCrew* crew);
  void Begin(absl::Duration timeout);
  void Step();
  void OnShaken(IoResult result);
  void GoOn(IoResult result);

  // kDone when it has come; no byte more than it is read.
  IoResult ReadPreface();
  void Await(Descriptor::wait_type what);
  void End(std::optional<Offence> offence);

  IoThread& thread_;
  std::shared_ptr<Http2Connection> connection_;  // null when this has ended
  Descriptor socket_;                            // the connection's, borrowed
  boost::asio::steady_timer timer_;
  Done done_;
  bool secure_ = false;
  bool ended_ = false;
  HandshakeCrew::Job shake_;  // last: its end is the end of what uses the others
};

}  // namespace upscaled::server
