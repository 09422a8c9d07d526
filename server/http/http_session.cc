#include "server/http/http_session.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/http/http1_session.h"

namespace upscaled::server {
namespace {

// The bytes of requests a client sends before it has the answer to one. Its end shows once all is
// read, so the end of a client with more bytes is noticed later.
constexpr size_t kMaxBytesAhead = size_t{16} << 10;
// In addition to a header, in one read.
constexpr size_t kReadBytes = 4096;
constexpr uint64_t kMaxMaxBodyBytes = uint64_t{1} << 60;  // far from any overflow

absl::Status Gone() {
  return MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelled, "the client has gone");
}

}  // namespace

// --- Ends and deadlines ---

void Http1Session::SetDeadline(absl::Duration after, Step step) {
  deadline_.expires_after(absl::ToChronoNanoseconds(after));
  deadline_.async_wait([weak = weak_from_this(), this, step,
                        number = ++deadline_number_](boost::system::error_code) {
    const std::shared_ptr<HttpSession> self = weak.lock();
    if (self != nullptr && !closed_ && number == deadline_number_) (this->*step)();
  });
}

void Http1Session::ClearDeadline() {
  ++deadline_number_;
  deadline_.cancel();
}

void Http1Session::Close(bool evicted) {
  if (std::exchange(closed_, true)) return;
  if (evicted) host_.table.OnEnded(Offence::kEvicted);
  const std::shared_ptr<Http1Session> self = Self();
  ClearDeadline();
  pace_timer_.cancel();
  socket_.Close();
  connection_place_ = {};
  host_.sessions.Remove(place_);
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->EndConnection(Gone());
}

void Http1Session::CloseIdle() {
  if (exchange_ == nullptr || !exchange_->body()->awaited()) return HttpSession::CloseIdle();
  exchange_->body()->Fail(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                                    "the server is shutting down, and the body has not come yet"));
}

void Http1Session::Abort(absl::Status reason) {
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->EndConnection(std::move(reason));
  Close();
}

void Http1Session::OnHandshake(bool succeeded) {
  if (!succeeded) return End(Offence::kHandshake);
  peer_.certificate_names = socket_.CertificateNames();
  phase_ = Phase::kRequest;
  socket_.Receive();
}

size_t Http1Session::WantedBytes() const {
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  if (closed_ || ended_ || phase_ == Phase::kHandshake) return 0;
  if (phase_ == Phase::kRequest) return host_.limits.max_header_bytes + kReadBytes;
  if (phase_ != Phase::kExchange) return kAll;
  if (exchange_ == nullptr || !streams_) return 0;  // whose clients may end their half
  if (parser_->body_done()) return kMaxBytesAhead - std::min(kMaxBytesAhead, buffer_.size());
  return paused_ || DroppedEnough() ? 0 : kAll;
}

void Http1Session::OnBytes(std::span<const uint8_t> bytes) {
  if (phase_ == Phase::kLinger) {
    body_bytes_ += bytes.size();
    if (DroppedEnough()) Close();
    return;
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (phase_ == Phase::kRequest) {
    if (std::exchange(idle_, false)) {
      SetDeadline(host_.limits.header_timeout, &Http1Session::OnHeaderLate);
    }
    return ReadHeader();
  }
  if (minimum_rate_) minimum_rate_->OnInput(static_cast<int64_t>(bytes.size()), Now());
  FeedBody();
  if (phase_ == Phase::kExchange) UpdatePace();
}

void Http1Session::OnEnd(bool broken) {
  ended_ = true;
  if (phase_ == Phase::kExchange && Answered() && !broken) return;  // it may still read
  Close();
}

// --- Requests ---

void Http1Session::AwaitRequest() {
  phase_ = Phase::kRequest;
  parser_.emplace(host_.limits.max_header_bytes);
  // While it is only draining, the answer to come says it is the last.
  if (host_.sessions.closing()) return Linger();
  if (buffer_.empty()) {
    buffer_.shrink_to_fit();
    idle_ = true;
    SetDeadline(host_.limits.idle_timeout, &Http1Session::Close);
  } else {  // sent together with the last one
    SetDeadline(host_.limits.header_timeout, &Http1Session::OnHeaderLate);
    ReadHeader();
  }
  if (closed_) return;
  if (ended_ && phase_ == Phase::kRequest) return Close();  // its header will never be whole
  socket_.Receive();
}

void Http1Session::ReadHeader() {
  buffer_.erase(0, parser_->ReadHeader(Unparsed()));
  if (parser_->fault()) return Refuse(*parser_->fault(), parser_->parsed().request);
  if (parser_->header_done()) Handle();
}

void Http1Session::OnHeaderLate() {
  const bool begun = !buffer_.empty() || parser_->begun();
  if (phase_ == Phase::kHandshake || !begun) return End(Offence::kHandshakeTimeout);
  const std::string timeout = absl::FormatDuration(host_.limits.header_timeout);
  Refuse({408, MakeError(absl::StatusCode::kAborted, ErrorReason::kStalled,
                         absl::StrCat("no whole header after ", timeout),
                         {{"limit", "header-timeout"}, {"maximum", timeout}})},
         parser_->parsed().request);
}

std::string Http1Session::ClientOf(const HttpRequest& request) const {
  if (host_.proxies == nullptr) return peer_.host;
  return host_.proxies->ClientOf(peer_, request.AllFields("X-Forwarded-For"),
                                 request.AllFields("Forwarded"));
}

void Http1Session::Handle() {
  ParsedHttpRequest& parsed = parser_->parsed();
  HttpRequest request = std::move(parsed.request);
  request.peer = ClientOf(request);
  request.certificate_names = peer_.certificate_names;
  auto found = host_.router.Find(request);
  const HttpRoute* const* const route = std::get_if<const HttpRoute*>(&found);
  streams_ = route != nullptr && (*route)->stream != nullptr;
  if (streams_ && ended_) return Close();  // OnEnd, which ends streams, does not come twice
  max_body_bytes_ = streams_ ? std::min((*route)->max_body_bytes, kMaxMaxBodyBytes) : 0;
  minor_version_ = parsed.minor_version;
  head_ = request.method == "HEAD";
  keep_alive_ = parsed.keep_alive && (streams_ || !request.has_body);
  awaits_continue_ = parsed.expects_continue;
  paused_ = body_failed_ = answer_begun_ = answer_ends_ = false;
  if (host_.guard != nullptr && route != nullptr && (*route)->role) {
    if (std::optional<HttpFault> refusal = host_.guard(**route, request)) {
      found = *std::move(refusal);
      body_failed_ = request.has_body;  // what is sent of it is dropped
    }
  }
  body_bytes_ = 0;
  ClearDeadline();
  phase_ = Phase::kExchange;
  waits_ = false;
  host_.sessions.SetWaiting(place_, waits_);
  exchange_ = std::make_shared<HttpExchangeState>(
      std::move(request), host_.bodies, host_.limits.output_queue_bytes,
      [link = host_.link, weak = weak_from_this()] {
        link->Post([weak] {
          if (const std::shared_ptr<HttpSession> self = weak.lock()) self->Advance();
        });
      });
  if (streams_) minimum_rate_.emplace(host_.limits.stall_timeout, host_.limits.min_progress_bytes);
  Dispatch(found);
}

void Http1Session::Dispatch(const std::variant<const HttpRoute*, HttpFault>& found) {
  const std::optional<uint64_t> length = exchange_->request().content_length;
  if (streams_ && length > max_body_bytes_) {
    body_failed_ = true;
    exchange_->body()->Fail(TooLong(length, max_body_bytes_));
  }
  if (parser_->body_done()) exchange_->body()->End();
  try {
    if (const HttpFault* const fault = std::get_if<HttpFault>(&found)) {
      (void)exchange_->Start({.fault = *fault});
    } else if (const HttpRoute& route = *std::get<const HttpRoute*>(found); streams_) {
      route.stream(MakeHttpExchange(exchange_));
    } else {
      route.handler(exchange_->request(), MakeHttpResponseWriter(exchange_));
    }
  } catch (const std::exception&) {  // status 500, by the exchange's end
  }
  if (!streams_) return;
  if (!buffer_.empty()) FeedBody();
  if (closed_) return;
  socket_.Receive();
  UpdatePace();
}

void Http1Session::Refuse(const HttpFault& fault, const HttpRequest& request) {
  minor_version_ = 1;
  keep_alive_ = streams_ = false;
  head_ = request.method == "HEAD" || (request.method.empty() && buffer_.starts_with("HEAD "));
  minimum_rate_.reset();
  if (fault.status == 431) host_.table.OnEnded(Offence::kHeaderBytes);
  phase_ = Phase::kExchange;
  HttpExchangeState::Answer answer{.response = host_.fault_answer(fault, request)};
  std::string header = BeginAnswer(answer);
  socket_.Send(std::move(header), std::move(answer.response.body));
}

void StartHttpSession(HttpHost& host, boost::asio::io_context& io, AcceptedConnection connection,
                      const std::shared_ptr<ssl_ctx_st>& tls) {
  std::unique_ptr<SocketStream> stream =
      tls == nullptr ? MakePlainStream(std::move(connection.socket))
                     : MakeTlsStream(std::move(connection.socket), tls.get());
  if (stream == nullptr) return;
  std::make_shared<Http1Session>(host, io, std::move(connection.place), std::move(connection.peer),
                                 std::move(stream))
      ->Start();
}

}  // namespace upscaled::server
