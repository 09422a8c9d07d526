// Moves bytes between an HTTP/2 client and the server's end of a socket pair, with the guard on
// the client's.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/unique_fd.h"
#include "server/net/http2_connection.h"
#include "server/net/io_thread.h"

namespace upscaled::server {

class Relay;

struct RelayOptions {
  // The limit for a client without reads of its data.
  absl::Duration stall_timeout = absl::Seconds(60);
  // For the server to close its end after the client has ended its half, and for the client to take
  // the server's reply. gRPC does not close during a write.
  absl::Duration close_timeout = absl::Seconds(10);
  // Both are called on the thread, at most once; nothing is after `on_end`: it may destroy the
  // relay. The client has done something wrong and is being dismissed:
  std::function<void(Relay& relay, Offence offence)> on_offence;
  // Both sides are closed:
  std::function<void(Relay& relay)> on_end;
};

// Used on `thread` only. Holds bytes only while a side does not take them, at most one buffer each
// way, and reads none of the other side meanwhile. After the server closes its end, the client has
// a limited time to read the remaining bytes. A client that breaks the rules is told so (GOAWAY),
// unless the server is within a frame or the client takes nothing.
class Relay : public std::enable_shared_from_this<Relay> {
 public:
  // `server`: non-blocking. `buffer` is used during callbacks of the thread and may be shared by
  // all relays of the thread.
  static std::shared_ptr<Relay> Start(IoThread& thread, std::shared_ptr<Http2Connection> connection,
                                      UniqueFd server, std::span<uint8_t> buffer,
                                      RelayOptions options);
  ~Relay() { ReleaseSockets(); }

  // From now on the client must take something within this time.
  void SetStallTimeout(absl::Duration timeout);
  // Closes both sides.
  void Cancel() { End(); }
  const Http2Connection& connection() const { return *connection_; }

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  using Step = void (Relay::*)();

  Relay(IoThread& thread, std::shared_ptr<Http2Connection> connection, UniqueFd server,
        std::span<uint8_t> buffer, RelayOptions options);
  void Begin();

  void Await(Descriptor& side, Descriptor::wait_type what, Step step);
  void AwaitFromClient() { Await(client_, Descriptor::wait_read, &Relay::ReceiveFromClient); }
  void AwaitFromServer() { Await(server_, Descriptor::wait_read, &Relay::ReceiveFromServer); }

  // To end it: `stalled`, as the client takes nothing.
  void StartTimer(boost::asio::steady_timer& timer, std::chrono::nanoseconds time, bool stalled);

  // The client may have sent something, and the server has taken all earlier bytes.
  void ReceiveFromClient();

  // Whether to go on reading.
  bool OnReceived(std::span<const uint8_t> bytes);

  // No reader takes it any more.
  bool Discard(size_t bytes);

  // Whether the server has taken all of it.
  bool PassToServer(std::span<const uint8_t> bytes);
  void ResumeToServer();
  void OnClientEnded();

  // The server may have sent something, and the client has taken all earlier bytes.
  void ReceiveFromServer();

  // Whether the client has taken all of it.
  bool PassToClient(std::span<const uint8_t> bytes);
  void ResumeToClient();

  // The server has closed its end, but the client may not have read everything yet.
  void OnServerGone();
  void OnServerEnded();

  // Nothing more will come from the server.
  void Linger();

  // Tells the client why, if possible now, and the server about the client's end.
  void Dismiss(Offence offence);
  void Report(Offence offence);
  void End();
  void ReleaseSockets();

  const std::shared_ptr<Http2Connection> connection_;
  UniqueFd server_fd_;
  const std::span<uint8_t> buffer_;
  Descriptor client_;  // borrowed, as `server_`
  Descriptor server_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer stall_timer_;  // while the client does not take `to_client_`
  std::chrono::nanoseconds stall_time_;
  const std::chrono::nanoseconds close_time_;
  const RelayOptions options_;
  std::vector<uint8_t> to_server_;  // what it has not taken yet
  std::vector<uint8_t> to_client_;
  bool client_ended_ = false;
  bool server_ended_ = false;
  bool reported_ = false;  // the client has done something wrong
  size_t discarded_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace upscaled::server
