// One connection of HTTP/1.1: http_session.cc has its requests, http_session_exchange.cc bodies and
// answers.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/base/peer_address.h"
#include "server/base/stall_meter.h"
#include "server/http/http_answer.h"
#include "server/http/http_exchange_state.h"
#include "server/http/http_host.h"
#include "server/http/http_session_list.h"
#include "server/http/http_socket.h"
#include "server/http/request_parser.h"
#include "server/net/connection_table.h"

namespace upscaled::server {

// Whether the client of one exchange moves fast enough, in both directions. Not thread safe.
class MinimumRate {
 public:
  MinimumRate(absl::Duration timeout, int64_t min_bytes)
      : input_(timeout, min_bytes), output_(timeout, min_bytes) {}

  // Sets the server's wait, from now on.
  void SetWaits(bool for_input, bool for_output, absl::Time now) {
    SetWait(input_, for_input, now);
    SetWait(output_, for_output, now);
  }
  void OnInput(int64_t bytes, absl::Time now) { input_.Move(bytes, now); }
  void OnOutput(int64_t bytes, absl::Time now) { output_.Move(bytes, now); }
  // The client has taken all bytes.
  void OnOutputTaken(absl::Time now) { output_.Restart(now); }

  bool input_stalled(absl::Time now) const { return Stalled(input_, now); }
  bool output_stalled(absl::Time now) const { return Stalled(output_, now); }
  // Until the first awaited client has stalled; infinite without a wait.
  absl::Duration Patience(absl::Time now) const {
    absl::Duration patience = absl::InfiniteDuration();
    for (const StallMeter* meter : {&input_, &output_}) {
      if (meter->waiting()) patience = std::min(patience, meter->Patience(now));
    }
    return patience;
  }

 private:
  static void SetWait(StallMeter& meter, bool waits, absl::Time now) {
    waits ? meter.BeginWait(now) : meter.EndWait(now);
  }
  static bool Stalled(const StallMeter& meter, absl::Time now) {
    return meter.waiting() && meter.Patience(now) <= absl::ZeroDuration();
  }

  StallMeter input_, output_;
};

// Only on the host's thread.
class Http1Session final : public HttpSession {
 public:
  Http1Session(HttpHost& host, boost::asio::io_context& io, ConnectionTable::Place connection_place,
               PeerAddress peer, std::unique_ptr<SocketStream> stream)
      : host_(host),
        connection_place_(std::move(connection_place)),
        peer_(std::move(peer)),
        socket_(io, std::move(stream), host.buffer, host.handshakes),
        deadline_(io),
        pace_timer_(io) {}

  void Start() {
    place_ = host_.sessions.Add(Self(), peer_.host);
    SetDeadline(host_.limits.header_timeout, &Http1Session::OnHeaderLate);
    parser_.emplace(host_.limits.max_header_bytes);
    socket_.Shake(Self());
  }

  void Advance() override;
  bool idle() const override {
    return phase_ == Phase::kHandshake ||
           (phase_ == Phase::kRequest && buffer_.empty() && !parser_->begun()) ||
           (exchange_ != nullptr && exchange_->body()->awaited());
  }
  void Close(bool evicted) override;
  void CloseIdle() override;

  // --- Called by the socket ---

  void OnHandshake(bool succeeded);
  // How many OnBytes may give now; 0: it is not called.
  size_t WantedBytes() const;
  void OnBytes(std::span<const uint8_t> bytes);
  // Nothing more comes. `broken`: nothing can be sent, either.
  void OnEnd(bool broken);
  // The system has taken bytes from Send; OnSent: all of them.
  void OnProgress(size_t bytes);
  void OnSent();
  void OnException() { Close(/*evicted=*/false); }

 private:
  enum class Phase : uint8_t {
    kHandshake,
    kRequest,   // no request, or a part of its header
    kExchange,  // it is being answered
    kDrain,     // it has been answered; what is left of its body is read and dropped
    kLinger,    // likewise, and then the connection ends
  };
  using Step = void (Http1Session::*)();

  // The bytes a client may still send after the last answer, so it reads the answer before the
  // connection is reset.
  static constexpr uint64_t kLingerBytes = uint64_t{1} << 20;

  std::shared_ptr<Http1Session> Self() {
    return std::static_pointer_cast<Http1Session>(shared_from_this());
  }
  absl::Time Now() const { return Clock::Real().Now(); }
  void SetDeadline(absl::Duration after, Step step);
  void ClearDeadline();
  void Close() { Close(/*evicted=*/false); }
  void End(Offence offence) {
    host_.table.OnEnded(offence);
    Close();
  }

  // Requests.
  void AwaitRequest();
  std::span<const uint8_t> Unparsed() const {
    return {reinterpret_cast<const uint8_t*>(buffer_.data()), buffer_.size()};
  }
  void ReadHeader();
  void OnHeaderLate();
  // The host of a request's client, perhaps through proxies.
  std::string ClientOf(const HttpRequest& request) const;
  void Handle();
  void Dispatch(const std::variant<const HttpRoute*, HttpFault>& found);
  void Refuse(const HttpFault& fault, const HttpRequest& request);

  // Bodies.
  void FeedBody();
  size_t TakeBody(std::span<const uint8_t> bytes);
  void OnBodyFault();
  // Whether more of the body was dropped than a connection is worth.
  bool DroppedEnough() const { return body_bytes_ > 2 * max_body_bytes_ + kLingerBytes; }
  static absl::Status TooLong(std::optional<uint64_t> bytes, uint64_t max_bytes);
  void Drain();
  void Linger();

  // Answers.
  // Whether the request has come whole, and its handler has written all of the answer.
  bool Answered() const {
    return exchange_ != nullptr && parser_->body_done() && exchange_->Finished();
  }
  void SendMore();
  std::string BeginAnswer(HttpExchangeState::Answer& answer);
  void OnAnswered();
  void OnWriteLate() { End(Offence::kStalled); }
  // Makes a fault of an answer with the connection's end as its own end: a cut one would look
  // whole.
  void RefuseUnframed(HttpExchangeState::Answer& answer);
  // The connection ends before the answer does.
  void Abort(absl::Status reason);

  // Lets a new connection take the place of one without a handler at work.
  void UpdateWaiting();

  // Paces.
  void UpdatePace();
  void LookAtPace();
  absl::Status Stalled(std::string_view what) const;

  HttpHost& host_;
  ConnectionTable::Place connection_place_;
  PeerAddress peer_;
  HttpSocket socket_;
  boost::asio::steady_timer deadline_;
  int deadline_number_ = 0;  // the current one's
  boost::asio::steady_timer pace_timer_;
  absl::Time next_look_ = absl::InfiniteFuture();  // when the timer ends
  HttpSessionList::Place place_;
  Phase phase_ = Phase::kHandshake;
  bool closed_ = false;
  bool idle_ = false;   // nothing of the next request has come
  bool ended_ = false;  // the client has sent its last byte
  std::string buffer_;  // not parsed yet

  // The state of the request.
  std::optional<HttpRequestParser> parser_;
  int minor_version_ = 1;
  bool head_ = false;
  bool keep_alive_ = false;
  bool streams_ = false;          // its route takes bodies
  bool awaits_continue_ = false;  // the client does
  bool paused_ = false;           // the body's queue is full
  bool body_failed_ = false;      // it is read and dropped
  uint64_t body_bytes_ = 0, max_body_bytes_ = 0;
  std::shared_ptr<HttpExchangeState> exchange_;  // null when nobody answers
  std::optional<MinimumRate> minimum_rate_;      // while a stream is answered
  // The state of its answer.
  bool waits_ = false;  // as the list of connections has it
  bool answer_begun_ = false;
  bool answer_ends_ = false;  // with what has been given to the socket
  HttpFraming framing_ = HttpFraming::kLength;
  std::vector<std::string> trailer_names_;
};

}  // namespace upscaled::server
