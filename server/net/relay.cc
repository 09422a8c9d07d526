#include "server/net/relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/clock.h"

namespace upscaled::server {
namespace {

namespace asio = boost::asio;

constexpr int kReadsAtATime = 4;  // until other connections of the thread have their turn
// For the client to take the server's last data after the server closed its end.
constexpr std::chrono::seconds kFlushTime{10};
// Lets the client close first. Bytes it sends until then would reset the connection and lose data
// it has not read.
constexpr std::chrono::seconds kLingerTime{2};
constexpr absl::Duration kLongestTime = absl::Hours(24 * 365);  // far from any overflow
// The bytes read of a dismissed client with a flood.
constexpr size_t kLingerBytes = size_t{1} << 20;

}  // namespace

std::shared_ptr<Relay> Relay::Start(IoThread& thread, std::shared_ptr<Http2Connection> connection,
                                    UniqueFd server, std::span<uint8_t> buffer,
                                    RelayOptions options) {
  std::shared_ptr<Relay> relay(
      new Relay(thread, std::move(connection), std::move(server), buffer, std::move(options)));
  thread.Post([relay] { relay->Begin(); });  // after the caller knows of it
  return relay;
}

Relay::Relay(IoThread& thread, std::shared_ptr<Http2Connection> connection, UniqueFd server,
             std::span<uint8_t> buffer, RelayOptions options)
    : connection_(std::move(connection)),
      server_fd_(std::move(server)),
      buffer_(buffer),
      client_(thread.context()),
      server_(thread.context()),
      timer_(thread.context()),
      stall_timer_(thread.context()),
      stall_time_(absl::ToChronoNanoseconds(std::min(options.stall_timeout, kLongestTime))),
      close_time_(absl::ToChronoNanoseconds(options.close_timeout)),
      options_(std::move(options)) {}

void Relay::Begin() {
  if (ended_) return;
  boost::system::error_code client_failed, server_failed;
  client_.assign(connection_->stream->fd(), client_failed);
  server_.assign(server_fd_.get(), server_failed);
  if (client_failed || server_failed) return End();
  Await(server_, Descriptor::wait_error, &Relay::OnServerGone);
  ReceiveFromServer();
  if (ended_) return;
  // The handshake has taken it from the client.
  const auto* const preface = reinterpret_cast<const uint8_t*>(Http2Guard::kPreface.data());
  if (PassToServer({preface, Http2Guard::kPreface.size()})) ReceiveFromClient();
}

void Relay::SetStallTimeout(absl::Duration timeout) {
  stall_time_ = absl::ToChronoNanoseconds(std::min(timeout, kLongestTime));
  if (!to_client_.empty()) StartTimer(stall_timer_, stall_time_, /*stalled=*/true);
}

void Relay::Await(Descriptor& side, Descriptor::wait_type what, Step step) {
  side.async_wait(what, [self = shared_from_this(), step](boost::system::error_code error) {
    if (!error && !self->ended_) (self.get()->*step)();
  });
}

void Relay::StartTimer(asio::steady_timer& timer, std::chrono::nanoseconds time, bool stalled) {
  timer.expires_after(time);
  timer.async_wait([self = shared_from_this(), stalled](boost::system::error_code error) {
    if (error || self->ended_) return;
    if (stalled) self->Report(Offence::kStalled);
    self->End();
  });
}

void Relay::ReceiveFromClient() {
  for (int i = 0; i < kReadsAtATime && !ended_; ++i) {
    const IoResult result = connection_->stream->Read(buffer_);
    switch (result.status) {
      case IoStatus::kDone:
        if (!OnReceived(buffer_.first(result.bytes))) return;
        if (result.bytes < buffer_.size()) i = kReadsAtATime;  // that was all, most likely
        break;
      case IoStatus::kWantRead:
        return AwaitFromClient();
      case IoStatus::kWantWrite:
        return Await(client_, Descriptor::wait_write, &Relay::ReceiveFromClient);
      case IoStatus::kEnd:
        return OnClientEnded();
      case IoStatus::kError:
        return End();
    }
  }
  if (ended_) return;
  if (!connection_->stream->HasBuffered()) return AwaitFromClient();
  asio::post(client_.get_executor(), [self = shared_from_this()] { self->ReceiveFromClient(); });
}

bool Relay::OnReceived(std::span<const uint8_t> bytes) {
  if (server_ended_) return Discard(bytes.size());
  if (const auto offence = connection_->guard.OnReceived(bytes, Clock::Real().Now())) {
    Dismiss(*offence);
    return true;
  }
  return PassToServer(bytes);
}

bool Relay::Discard(size_t bytes) {
  if (!reported_) return true;
  discarded_bytes_ += bytes;
  if (discarded_bytes_ <= kLingerBytes) return true;
  End();
  return false;
}

bool Relay::PassToServer(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(server_fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      to_server_.assign(bytes.begin(), bytes.end());
      Await(server_, Descriptor::wait_write, &Relay::ResumeToServer);
      return false;
    }
    if (n < 0) return true;  // it has closed its end, which is read to its end
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

void Relay::ResumeToServer() {
  const std::vector<uint8_t> bytes = std::exchange(to_server_, {});
  if (PassToServer(bytes)) ReceiveFromClient();
}

void Relay::OnClientEnded() {
  client_ended_ = true;
  if (server_ended_) return End();
  shutdown(server_fd_.get(), SHUT_WR);  // the server may still answer
  StartTimer(timer_, close_time_, /*stalled=*/true);
}

void Relay::ReceiveFromServer() {
  if (server_ended_) return;
  for (int i = 0; i < kReadsAtATime; ++i) {
    const ssize_t n = recv(server_fd_.get(), buffer_.data(), buffer_.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) return OnServerEnded();
    const auto bytes = buffer_.first(static_cast<size_t>(n));
    const std::optional<Offence> offence = connection_->guard.OnSent(bytes);
    const bool passed = PassToClient(bytes);
    if (offence && !ended_) return Dismiss(*offence);
    if (!passed) return;
    if (static_cast<size_t>(n) < buffer_.size()) break;  // that was all, most likely
  }
  AwaitFromServer();
}

bool Relay::PassToClient(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const IoResult result = connection_->stream->Write(bytes);
    if (result.status == IoStatus::kDone) {
      bytes = bytes.subspan(result.bytes);
      continue;
    }
    if (result.status != IoStatus::kWantRead && result.status != IoStatus::kWantWrite) {
      End();
      return false;
    }
    to_client_.assign(bytes.begin(), bytes.end());
    StartTimer(stall_timer_, stall_time_, /*stalled=*/true);
    const bool read = result.status == IoStatus::kWantRead;
    Await(client_, read ? Descriptor::wait_read : Descriptor::wait_write, &Relay::ResumeToClient);
    return false;
  }
  return true;
}

void Relay::ResumeToClient() {
  stall_timer_.cancel();
  const std::vector<uint8_t> bytes = std::exchange(to_client_, {});
  if (PassToClient(bytes)) ReceiveFromServer();
}

void Relay::OnServerGone() {
  if (!server_ended_) StartTimer(timer_, kFlushTime, /*stalled=*/true);
}

void Relay::OnServerEnded() {
  server_ended_ = true;
  if (client_ended_) return End();
  Linger();
}

void Relay::Linger() {
  connection_->stream->EndWrites();
  StartTimer(timer_, kLingerTime, /*stalled=*/false);
  if (!std::exchange(to_server_, {}).empty()) ReceiveFromClient();  // it waited for the server
}

void Relay::Dismiss(Offence offence) {
  Report(offence);
  const std::string farewell = connection_->guard.Farewell(offence);
  if (std::exchange(to_client_, {}).empty() && !farewell.empty()) {
    // Bytes beyond a full socket are lost.
    (void)connection_->stream->Write(
        {reinterpret_cast<const uint8_t*>(farewell.data()), farewell.size()});
  }
  server_ended_ = true;
  server_.release();
  server_fd_ = UniqueFd();
  if (client_ended_) return End();
  stall_timer_.cancel();
  Linger();
}

void Relay::Report(Offence offence) {
  if (!std::exchange(reported_, true)) options_.on_offence(*this, offence);
}

void Relay::End() {
  if (std::exchange(ended_, true)) return;
  timer_.cancel();
  stall_timer_.cancel();
  ReleaseSockets();
  server_fd_ = UniqueFd();
  connection_->stream.reset();
  connection_->place = {};               // waits that were aborted may own this for a little longer
  const auto self = shared_from_this();  // which on_end may forget
  options_.on_end(*this);
}

void Relay::ReleaseSockets() {
  if (client_.is_open()) client_.release();
  if (server_.is_open()) server_.release();
}

}  // namespace upscaled::server
