#include "server/net/handshake.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>
#include "engine/base/clock.h"

namespace upscaled::server {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

// Reads what has come: closing with something unread resets the connection, and a client that spoke
// the wrong protocol would see an error of the network.
void Discard(int socket) {
  constexpr int kReads = 16;
  std::array<uint8_t, 4096> bytes;
  for (int i = 0; i < kReads && recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0; ++i) {
  }
}

class AsioHandshake final : public Handshake, public std::enable_shared_from_this<AsioHandshake> {
 public:
  AsioHandshake(IoThread& thread, std::shared_ptr<Http2Connection> connection, Done done,
                HandshakeCrew* crew)
      : thread_(thread),
        connection_(std::move(connection)),
        socket_(thread.context()),
        timer_(thread.context()),
        done_(std::move(done)),
        shake_(crew) {}
  ~AsioHandshake() override { socket_.release(); }  // the connection's

  void Begin(absl::Duration timeout) {
    if (ended_) return;
    boost::system::error_code failed;
    socket_.assign(connection_->stream->fd(), failed);
    if (failed) return End(Offence::kHandshake);
    timer_.expires_after(absl::ToChronoNanoseconds(timeout));
    timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->End(Offence::kHandshakeTimeout);
    });
    Step();
  }

  void Cancel() override {
    done_ = {};
    End(std::nullopt);
  }

  const Http2Connection& connection() const override { return *connection_; }

 private:
  void Step() {
    if (ended_) return;
    if (secure_) return GoOn(ReadPreface());
    shake_.Run([this] {
      const IoResult result = connection_->stream->Handshake();
      std::shared_ptr<AsioHandshake> self = weak_from_this().lock();
      if (self == nullptr) return;  // it is being destroyed, which waits for this
      thread_.Post([self = std::move(self), result] { self->OnShaken(result); });
    });
  }

  void OnShaken(IoResult result) {
    if (ended_) return;
    secure_ = result.status == IoStatus::kDone;
    GoOn(secure_ ? ReadPreface() : result);
  }

  void GoOn(IoResult result) {
    switch (result.status) {
      case IoStatus::kWantRead:
        return Await(Descriptor::wait_read);
      case IoStatus::kWantWrite:
        return Await(Descriptor::wait_write);
      case IoStatus::kDone:
        return End(std::nullopt);
      default:
        End(Offence::kHandshake);
    }
  }

  // kDone when it has come; no byte more than it is read.
  IoResult ReadPreface() {
    Http2Guard& guard = connection_->guard;
    std::array<uint8_t, Http2Guard::kPreface.size()> bytes;
    while (guard.missing_preface_bytes() > 0) {
      const auto wanted = std::span(bytes).first(guard.missing_preface_bytes());
      const IoResult result = connection_->stream->Read(wanted);
      if (result.status != IoStatus::kDone) return result;
      if (guard.OnReceived(wanted.first(result.bytes), Clock::Real().Now()))
        return {IoStatus::kError};
    }
    return {IoStatus::kDone};
  }

  void Await(Descriptor::wait_type what) {
    socket_.async_wait(what, [self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->Step();
    });
  }

  void End(std::optional<Offence> offence) {
    if (std::exchange(ended_, true)) return;
    shake_.Withdraw();
    if (offence == Offence::kHandshake) Discard(connection_->stream->fd());
    timer_.cancel();
    socket_.release();
    const std::shared_ptr<Http2Connection> connection = std::move(connection_);
    if (done_) std::exchange(done_, {})(connection, offence);
  }

  IoThread& thread_;
  std::shared_ptr<Http2Connection> connection_;  // null when this has ended
  Descriptor socket_;                            // the connection's, borrowed
  asio::steady_timer timer_;
  Done done_;
  bool secure_ = false;
  bool ended_ = false;
  HandshakeCrew::Job shake_;  // last: its end is the end of what uses the others
};

}  // namespace

std::shared_ptr<Handshake> Handshake::Start(IoThread& thread,
                                            std::shared_ptr<Http2Connection> connection,
                                            absl::Duration timeout, Done done,
                                            HandshakeCrew* crew) {
  auto handshake =
      std::make_shared<AsioHandshake>(thread, std::move(connection), std::move(done), crew);
  // After the caller was notified.
  thread.Post([handshake, timeout] { handshake->Begin(timeout); });
  return handshake;
}

}  // namespace upscaled::server
