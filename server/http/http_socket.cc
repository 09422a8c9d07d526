#include "server/http/http_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/as_bytes.h"
#include "server/http/http1_session.h"

namespace upscaled::server {
namespace {

constexpr int kReadsAtATime = 8;  // until other connections of the thread have their turn
constexpr int kSendsAtATime = 8;  // likewise

}  // namespace

HttpSocket::HttpSocket(boost::asio::io_context& io, std::unique_ptr<SocketStream> stream,
                       std::span<uint8_t> buffer, HandshakeCrew* crew)
    : io_(io), buffer_(buffer), stream_(std::move(stream)), descriptor_(io), shake_(crew) {}

void HttpSocket::Shake(const std::shared_ptr<Http1Session>& owner) {
  owner_ = owner;
  boost::system::error_code failed;
  descriptor_.assign(stream_->fd(), failed);
  if (failed) return owner->OnHandshake(false);
  Run(*owner, &HttpSocket::ContinueHandshake);
}

void HttpSocket::ContinueHandshake() {
  shake_.Run([this] {
    shaken_ = stream_->Handshake();
    std::shared_ptr<Http1Session> owner = owner_.lock();
    if (owner == nullptr) return;  // it is being destroyed, which waits for this
    boost::asio::post(io_,
                      [this, owner = std::move(owner)] { Run(*owner, &HttpSocket::OnShaken); });
  });
}

void HttpSocket::OnShaken() {
  switch (shaken_.status) {
    case IoStatus::kWantRead:
      return Await(Descriptor::wait_read, &HttpSocket::ContinueHandshake);
    case IoStatus::kWantWrite:
      return Await(Descriptor::wait_write, &HttpSocket::ContinueHandshake);
    case IoStatus::kDone:
      return owner_.lock()->OnHandshake(true);
    default:
      return owner_.lock()->OnHandshake(false);
  }
}

void HttpSocket::Run(Http1Session& owner, Step step) try {
  if (stream_ != nullptr) (this->*step)();
} catch (const std::exception&) {  // no memory
  owner.OnException();
}

void HttpSocket::Await(Descriptor::wait_type what, Step step) {
  descriptor_.async_wait(what,
                         [this, owner = owner_.lock(), step](boost::system::error_code error) {
                           if (!error) Run(*owner, step);
                         });
}

void HttpSocket::Yield(Step step) {
  boost::asio::post(io_, [this, owner = owner_.lock(), step] { Run(*owner, step); });
}

// --- Reading ---

void HttpSocket::Receive() {
  if (receiving_ || awaits_bytes_) return;  // it goes on by itself
  ReceiveSome();
}

void HttpSocket::OnReadable() {
  awaits_bytes_ = false;
  ReceiveSome();
}

void HttpSocket::ReceiveSome() {
  receiving_ = true;
  const absl::Cleanup over = [this] { receiving_ = false; };
  for (int i = 0; i < kReadsAtATime; ++i) {
    if (stream_ == nullptr || ended_) return;
    const size_t bytes = std::min(buffer_.size(), owner_.lock()->WantedBytes());
    if (bytes == 0 || !OnRead(stream_->Read(buffer_.first(bytes)))) return;
  }
  awaits_bytes_ = true;
  Yield(&HttpSocket::OnReadable);
}

bool HttpSocket::OnRead(const IoResult& result) {
  switch (result.status) {
    case IoStatus::kDone:
      owner_.lock()->OnBytes(buffer_.first(result.bytes));
      return true;
    case IoStatus::kWantRead:
    case IoStatus::kWantWrite:
      awaits_bytes_ = true;
      Await(result.status == IoStatus::kWantRead ? Descriptor::wait_read : Descriptor::wait_write,
            &HttpSocket::OnReadable);
      return false;
    default:
      ended_ = true;
      owner_.lock()->OnEnd(result.status == IoStatus::kError);
      return false;
  }
}

// --- Writing ---

void HttpSocket::Send(std::string head, std::string body) {
  head_ = std::move(head);
  body_ = std::move(body);
  sent_ = 0;
  sending_ = true;
  if (!transmitting_) Transmit();
}

std::string_view HttpSocket::Unsent() const {
  if (sent_ < head_.size()) return std::string_view(head_).substr(sent_);
  return std::string_view(body_).substr(sent_ - head_.size());
}

void HttpSocket::Transmit() {
  transmitting_ = true;
  const absl::Cleanup over = [this] { transmitting_ = false; };
  for (int i = 0; i < kSendsAtATime; ++i) {
    if (!TransmitAll()) return;
    head_ = std::string();
    body_ = std::string();
    sent_ = 0;
    sending_ = false;
    owner_.lock()->OnSent();  // which may send again
    if (stream_ == nullptr || !sending_) return;
  }
  Yield(&HttpSocket::Transmit);
}

bool HttpSocket::TransmitAll() {
  while (!Unsent().empty()) {
    const std::string_view rest = Unsent();
    const IoResult result = stream_->Write(AsBytes(rest));
    switch (result.status) {
      case IoStatus::kDone:
        sent_ += result.bytes;
        owner_.lock()->OnProgress(result.bytes);
        break;
      case IoStatus::kWantRead:
        Await(Descriptor::wait_read, &HttpSocket::Transmit);
        return false;
      case IoStatus::kWantWrite:
        Await(Descriptor::wait_write, &HttpSocket::Transmit);
        return false;
      default:
        ended_ = true;
        owner_.lock()->OnEnd(/*broken=*/true);
        return false;
    }
  }
  return true;
}

// --- Ends ---

void HttpSocket::EndOutput() { stream_->EndWrites(); }

void HttpSocket::Close() {
  shake_.Withdraw();
  if (descriptor_.is_open()) descriptor_.release();
  stream_.reset();
}

void HttpSocket::SetResetAtEnd(bool reset) {
  if (std::exchange(reset_at_end_, reset) == reset) return;
  const linger at_once = {.l_onoff = reset, .l_linger = 0};
  setsockopt(stream_->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

bool HttpSocket::OtherSideEnded() const {
  pollfd ends = {.fd = stream_->fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&ends, 1, /*timeout=*/0) == 1;
}

bool HttpSocket::CanReset() const {
  int family = AF_UNIX;
  socklen_t size = sizeof(family);
  getsockopt(stream_->fd(), SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family != AF_UNIX;
}

}  // namespace upscaled::server
