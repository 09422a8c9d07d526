#include "server/http/protocol_choice.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/net/client_hello.h"

namespace upscaled::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// The request line of HTTP/2's preface (RFC 9113, section 3.4), shorter than any of HTTP/1.
constexpr std::string_view kPreface = "PRI * HTTP/2.0";

void SetLowWaterMark(int socket, int bytes) {
  setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

class Choice final : public HttpSession {
 public:
  Choice(HttpHost& host, asio::io_context& io, Transport transport, AcceptedConnection connection,
         std::function<void(AcceptedConnection)> on_http1,
         std::function<void(AcceptedConnection)> on_http2)
      : host_(host),
        transport_(transport),
        connection_(std::move(connection)),
        on_http1_(std::move(on_http1)),
        on_http2_(std::move(on_http2)),
        readiness_(io, connection_.socket.get()),
        timer_(io) {}
  ~Choice() override {
    if (readiness_.is_open()) readiness_.release();  // whose descriptor connection_ owns
  }

  void Start() {
    place_ = host_.sessions.Add(shared_from_this(), connection_.peer.host);
    timer_.expires_after(absl::ToChronoNanoseconds(host_.limits.header_timeout));
    timer_.async_wait([self = Self()](error_code error) {
      if (error || self->closed_) return;
      self->host_.table.OnEnded(Offence::kHandshakeTimeout);
      self->Close(/*evicted=*/false);
    });
    Await(transport_ == Transport::kTls ? kTlsRecordHeaderBytes : kPreface.size());
  }

  void Advance() override {}
  bool idle() const override { return true; }

  void Close(bool evicted) override {
    if (std::exchange(closed_, true)) return;
    if (evicted) host_.table.OnEnded(Offence::kEvicted);
    timer_.cancel();
    readiness_.release();
    connection_ = {};
    host_.sessions.Remove(place_);  // last: it may be the one that owns this
  }

 private:
  std::shared_ptr<Choice> Self() { return std::static_pointer_cast<Choice>(shared_from_this()); }

  // Goes on when as many bytes are there, or the client has closed.
  void Await(size_t bytes) {
    first_bytes_.resize(bytes);
    SetLowWaterMark(connection_.socket.get(), static_cast<int>(bytes));
    readiness_.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = Self()](error_code error) {
                            if (!error && !self->closed_) self->Look();
                          });
  }

  void Look() {
    const ssize_t count = recv(connection_.socket.get(), first_bytes_.data(), first_bytes_.size(),
                               MSG_PEEK | MSG_DONTWAIT);
    if (count <= 0) return Close(/*evicted=*/false);
    if (static_cast<size_t>(count) < first_bytes_.size()) return HandOver(/*http2=*/false);
    if (transport_ == Transport::kPlain) {
      return HandOver(std::ranges::equal(first_bytes_, kPreface));
    }
    const size_t record_bytes =
        HandshakeRecordBytes(std::span(first_bytes_).first<kTlsRecordHeaderBytes>());
    if (record_bytes > first_bytes_.size()) return Await(record_bytes);
    HandOver(record_bytes > 0 && OffersHttp2Alone(first_bytes_));
  }

  void HandOver(bool http2) {
    SetLowWaterMark(connection_.socket.get(), 1);
    readiness_.release();  // no reactor watches it any more
    AcceptedConnection connection = std::move(connection_);
    Close(/*evicted=*/false);
    (http2 ? on_http2_ : on_http1_)(std::move(connection));
  }

  HttpHost& host_;
  const Transport transport_;
  AcceptedConnection connection_;
  std::vector<uint8_t> first_bytes_;
  const std::function<void(AcceptedConnection)> on_http1_, on_http2_;
  asio::posix::stream_descriptor readiness_;
  asio::steady_timer timer_;
  HttpSessionList::Place place_;
  bool closed_ = false;
};

}  // namespace

void ChooseProtocol(HttpHost& host, asio::io_context& io, Transport transport,
                    AcceptedConnection connection, std::function<void(AcceptedConnection)> on_http1,
                    std::function<void(AcceptedConnection)> on_http2) {
  std::make_shared<Choice>(host, io, transport, std::move(connection), std::move(on_http1),
                           std::move(on_http2))
      ->Start();
}

}  // namespace upscaled::server
