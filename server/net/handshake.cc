#include "server/net/handshake.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "engine/base/clock.h"

namespace upscaled::server {
namespace {

// Reads the received bytes: closing with something unread resets the connection, and a client of
// the wrong protocol would see an error of the network.
void Discard(int socket) {
  constexpr int kReads = 16;
  std::array<uint8_t, 4096> bytes;
  for (int i = 0; i < kReads && recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0; ++i) {
  }
}

}  // namespace

std::shared_ptr<Handshake> Handshake::Start(IoThread& thread,
                                            std::shared_ptr<Http2Connection> connection,
                                            absl::Duration timeout, Done done,
                                            HandshakeCrew* crew) {
  std::shared_ptr<Handshake> handshake(
      new Handshake(thread, std::move(connection), std::move(done), crew));
  // After the caller was notified.
  thread.Post([handshake, timeout] { handshake->Begin(timeout); });
  return handshake;
}

Handshake::Handshake(IoThread& thread, std::shared_ptr<Http2Connection> connection, Done done,
                     HandshakeCrew* crew)
    : thread_(thread),
      connection_(std::move(connection)),
      socket_(thread.context()),
      timer_(thread.context()),
      done_(std::move(done)),
      shake_(crew) {}

void Handshake::Begin(absl::Duration timeout) {
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

void Handshake::Cancel() {
  done_ = {};
  End(std::nullopt);
}

void Handshake::Step() {
  if (ended_) return;
  if (secure_) return GoOn(ReadPreface());
  shake_.Run([this] {
    const IoResult result = connection_->stream->Handshake();
    std::shared_ptr<Handshake> self = weak_from_this().lock();
    if (self == nullptr) return;  // it is being destroyed, which waits for this
    thread_.Post([self = std::move(self), result] { self->OnShaken(result); });
  });
}

void Handshake::OnShaken(IoResult result) {
  if (ended_) return;
  secure_ = result.status == IoStatus::kDone;
  GoOn(secure_ ? ReadPreface() : result);
}

void Handshake::GoOn(IoResult result) {
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

IoResult Handshake::ReadPreface() {
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

void Handshake::Await(Descriptor::wait_type what) {
  socket_.async_wait(what, [self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->Step();
  });
}

void Handshake::End(std::optional<Offence> offence) {
  if (std::exchange(ended_, true)) return;
  shake_.Withdraw();
  if (offence == Offence::kHandshake) Discard(connection_->stream->fd());
  timer_.cancel();
  socket_.release();
  const std::shared_ptr<Http2Connection> connection = std::move(connection_);
  if (done_) std::exchange(done_, {})(connection, offence);
}

}  // namespace upscaled::server
