// The bytes of one connection, plain or in TLS.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/net/handshake_crew.h"
#include "server/net/socket_stream.h"

namespace upscaled::server {

class Http1Session;

// On the thread of `io`; calls its owner there, never after Close. An exception of the owner closes
// the connection.
class HttpSocket {
 public:
  // `buffer` is for one read at a time, and may be shared by all sockets of the thread. `crew`
  // computes the handshake; null: the thread itself does.
  HttpSocket(boost::asio::io_context& io, std::unique_ptr<SocketStream> stream,
             std::span<uint8_t> buffer, HandshakeCrew* crew = nullptr);
  ~HttpSocket() { Close(); }
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  // `owner` has this as a member.
  void Shake(const std::shared_ptr<Http1Session>& owner);
  // Reads while the owner wants bytes, now and when there are some.
  void Receive();
  // One at a time; `head` goes before `body`.
  void Send(std::string head, std::string body);
  bool sending() const { return sending_; }
  // Ends this side's half of the connection.
  void EndOutput();
  void Close();
  // Whether the connection's end, by Close or that of the process, is a reset, to tell the other
  // side about missing bytes. At first it is not.
  void SetResetAtEnd(bool reset);
  // The names in the client's certificate, after the handshake (see PeerAddress).
  std::shared_ptr<const std::vector<std::string>> CertificateNames() const {
    return stream_->CertificateNames();
  }
  // Whether the other side has ended its half, even with unread bytes before the end.
  bool OtherSideEnded() const;
  // Whether there are resets; Unix sockets have none.
  bool CanReset() const;

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  using Step = void (HttpSocket::*)();

  void Await(Descriptor::wait_type what, Step step);
  // Calls `step` later, after others.
  void Yield(Step step);
  void Run(Http1Session& owner, Step step);
  void ContinueHandshake();
  void OnShaken();
  void OnReadable();
  void ReceiveSome();
  // Whether to go on.
  bool OnRead(const IoResult& result);
  void Transmit();
  // Whether the system has taken all.
  bool TransmitAll();
  std::string_view Unsent() const;

  boost::asio::io_context& io_;
  const std::span<uint8_t> buffer_;
  std::unique_ptr<SocketStream> stream_;  // null after Close
  Descriptor descriptor_;                 // the stream's, borrowed
  std::weak_ptr<Http1Session> owner_;
  bool receiving_ = false;
  bool awaits_bytes_ = false;
  bool ended_ = false;
  bool sending_ = false;
  bool transmitting_ = false;
  std::string head_, body_;
  size_t sent_ = 0;  // of both
  bool reset_at_end_ = false;
  IoResult shaken_;  // by the last step
  HandshakeCrew::Job shake_;
};

}  // namespace upscaled::server
