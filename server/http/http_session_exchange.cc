#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/http/http1_session.h"

namespace upscaled::server {
namespace {

// How long a client may go on sending after the last answer.
constexpr absl::Duration kLingerTimeout = absl::Seconds(1);
// From one look to the next whether other bodies have left room.
constexpr absl::Duration kRoomInterval = absl::Milliseconds(100);
// The time between looks for a client gone behind unread bytes.
constexpr absl::Duration kEndInterval = absl::Seconds(1);

}  // namespace

// --- Bodies ---

void Http1Session::FeedBody() {
  if (parser_->body_done()) return;  // the next request
  paused_ = false;
  buffer_.erase(0, parser_->ReadBody(Unparsed(), [this](std::span<const uint8_t> bytes) {
    return TakeBody(bytes);
  }));
  if (parser_->fault()) return OnBodyFault();
  if (!parser_->body_done()) {
    if (phase_ == Phase::kDrain && DroppedEnough()) Linger();
    return;
  }
  if (phase_ == Phase::kDrain) return AwaitRequest();
  if (exchange_ != nullptr) exchange_->body()->End();
}

size_t Http1Session::TakeBody(std::span<const uint8_t> bytes) {
  awaits_continue_ = false;  // it has not waited
  size_t taken = bytes.size();
  if (exchange_ != nullptr && !body_failed_) {
    if (body_bytes_ + bytes.size() > max_body_bytes_) {
      body_failed_ = true;
      exchange_->body()->Fail(TooLong(std::nullopt, max_body_bytes_));
    } else {
      taken = exchange_->body()->Append(bytes);
      paused_ = taken < bytes.size();
    }
  }
  body_bytes_ += taken;
  return taken;
}

void Http1Session::OnBodyFault() {
  const HttpFault fault = *parser_->fault();
  if (phase_ == Phase::kDrain) return Linger();
  if (answer_begun_ || socket_.sending()) return Abort(fault.error);
  const std::shared_ptr<HttpExchangeState> exchange = std::exchange(exchange_, nullptr);
  exchange->EndConnection(fault.error);
  Refuse(fault, exchange->request());
}

void Http1Session::Drain() {
  phase_ = Phase::kDrain;
  // A server that ends has no time for a body that comes slowly.
  SetDeadline(host_.draining ? kLingerTimeout : host_.limits.drain_timeout, &Http1Session::Close);
  FeedBody();
  if (!closed_) socket_.Receive();
}

// Announces its end, and reads on until the client has seen it.
void Http1Session::Linger() {
  const bool body_left = streams_ && parser_->header_done() && !parser_->body_done();
  if (!body_left) body_bytes_ = max_body_bytes_ = 0;
  phase_ = Phase::kLinger;
  const bool waits = body_left && !host_.draining;
  SetDeadline(waits ? host_.limits.drain_timeout : kLingerTimeout, &Http1Session::Close);
  buffer_ = std::string();
  socket_.EndOutput();
  socket_.Receive();
}

// --- Answers ---

void Http1Session::Advance() try {
  if (closed_ || exchange_ == nullptr) return;
  exchange_->ListenAgain();
  if (paused_) FeedBody();
  if (closed_ || exchange_ == nullptr) return;
  if (!socket_.sending()) SendMore();
  if (closed_) return;
  socket_.Receive();
  UpdatePace();
} catch (const std::exception&) {  // no memory
  Close();
}

void Http1Session::SendMore() {
  if (exchange_ == nullptr) return;
  std::string head, body;
  if (!answer_begun_) {
    std::optional<HttpExchangeState::Answer> answer = exchange_->TakeAnswer();
    if (answer) {
      RefuseUnframed(*answer);
      if (answer->fault) {
        answer->response = host_.fault_answer(*answer->fault, exchange_->request());
      }
      head = BeginAnswer(*answer);
      body = std::move(answer->response.body);
    } else if (awaits_continue_ && exchange_->WantsBody()) {
      awaits_continue_ = false;
      head = "HTTP/1.1 100 Continue\r\n\r\n";
    }
  }
  if (answer_begun_ && !answer_ends_) {
    HttpExchangeState::Piece piece = exchange_->TakePiece();
    if (piece.cut) return Close();
    answer_ends_ = piece.finished;
    if (framing_ == HttpFraming::kChunked && !head_) {
      if (!piece.bytes.empty()) absl::StrAppend(&body, HttpChunk(piece.bytes));
      if (piece.finished) absl::StrAppend(&body, HttpLastChunk(piece.trailers, trailer_names_));
    } else {
      body = std::move(piece.bytes);
    }
  }
  if (head.empty() && body.empty()) {
    if (answer_ends_) OnAnswered();
    return;
  }
  socket_.Send(std::move(head), std::move(body));
}

// TLS shows such a cut by a missing close_notify, but not every client looks (nginx).
void Http1Session::RefuseUnframed(HttpExchangeState::Answer& answer) {
  const bool until_close = answer.streamed && !answer.response.length && minor_version_ == 0;
  if (!until_close || head_ || socket_.CanReset()) return;
  const absl::Status error = MakeError(
      absl::StatusCode::kUnimplemented, ErrorReason::kUnsupported,
      "over a Unix socket this takes HTTP/1.1: by HTTP/1.0 a result that breaks off would "
      "look whole (in nginx: proxy_http_version 1.1)");
  answer = HttpExchangeState::Answer{.fault = HttpFault{505, error}};
  keep_alive_ = false;
  exchange_->Cancel(error);
}

std::string Http1Session::BeginAnswer(HttpExchangeState::Answer& answer) {
  answer_begun_ = true;
  answer_ends_ = !answer.streamed;
  // A body without a request for it may come or not; one beyond its limit is not worth the wait.
  if (awaits_continue_ || body_failed_ || host_.draining) keep_alive_ = false;
  const std::optional<uint64_t> length = answer.response.length;
  framing_ = HttpFraming::kLength;
  if (answer.streamed && !length) {
    framing_ = minor_version_ == 0 ? HttpFraming::kUntilClose : HttpFraming::kChunked;
    if (framing_ == HttpFraming::kUntilClose) keep_alive_ = false;
  }
  if (answer.streamed) {
    socket_.SetResetAtEnd(true);  // until it is whole
  } else {
    host_.sessions.SetWaiting(place_, true);
    SetDeadline(host_.limits.write_timeout, &Http1Session::OnWriteLate);
  }
  trailer_names_ = std::move(answer.trailer_names);
  HttpResponse& response = answer.response;
  std::string header = HttpAnswerHeader(
      response,
      {.minor_version = minor_version_,
       .keep_alive = keep_alive_,
       .framing = framing_,
       .body_bytes =
           answer.streamed || head_ ? length.value_or(response.body.size()) : response.body.size(),
       .trailer_names = trailer_names_},
      absl::Now());
  if (head_ || response.status == 204 || response.status == 304) response.body.clear();
  return header;
}

void Http1Session::OnProgress(size_t bytes) {
  if (minimum_rate_) minimum_rate_->OnOutput(static_cast<int64_t>(bytes), Now());
}

void Http1Session::OnSent() {
  if (minimum_rate_) minimum_rate_->OnOutputTaken(Now());
  if (answer_ends_) return OnAnswered();
  SendMore();
  if (!closed_ && phase_ == Phase::kExchange) UpdatePace();
}

void Http1Session::OnAnswered() {
  socket_.SetResetAtEnd(false);
  exchange_ = nullptr;
  minimum_rate_.reset();
  ClearDeadline();
  host_.sessions.SetWaiting(place_, true);
  if (ended_ && (buffer_.empty() || !keep_alive_)) return Close();
  if (!keep_alive_) return Linger();
  if (parser_->body_done()) return AwaitRequest();
  Drain();
}

// --- Paces ---

void Http1Session::UpdateWaiting() {
  const bool waits = exchange_->Unattended();
  if (std::exchange(waits_, waits) != waits) host_.sessions.SetWaiting(place_, waits);
}

void Http1Session::UpdatePace() {
  if (!minimum_rate_ || exchange_ == nullptr) return;
  UpdateWaiting();
  const absl::Time now = Now();
  const bool sends = !parser_->body_done() && !paused_ && !awaits_continue_ && !body_failed_;
  minimum_rate_->SetWaits(/*for_input=*/sends,
                          /*for_output=*/socket_.sending() && answer_begun_ && !sends, now);
  const bool wants_room = paused_ && exchange_->body()->waits_for_others();
  const bool deaf = WantedBytes() == 0 && !ended_;
  const absl::Duration look =
      std::min({wants_room ? kRoomInterval : absl::InfiniteDuration(),
                deaf ? kEndInterval : absl::InfiniteDuration(), minimum_rate_->Patience(now)});
  if (look == absl::InfiniteDuration() || next_look_ <= now + look) return;
  next_look_ = now + look;
  pace_timer_.expires_after(absl::ToChronoNanoseconds(look));
  pace_timer_.async_wait([weak = weak_from_this(), this](boost::system::error_code error) {
    const std::shared_ptr<HttpSession> self = weak.lock();
    if (error || self == nullptr || closed_) return;
    next_look_ = absl::InfiniteFuture();
    LookAtPace();
  });
}

void Http1Session::LookAtPace() {
  if (!minimum_rate_ || exchange_ == nullptr) return;
  if (WantedBytes() == 0 && !Answered() && socket_.OtherSideEnded()) return Close();
  const absl::Time now = Now();
  if (minimum_rate_->output_stalled(now)) {
    host_.table.OnEnded(Offence::kStalled);
    return Abort(Stalled("takes"));
  }
  if (minimum_rate_->input_stalled(now)) {
    host_.table.OnEnded(Offence::kStalled);
    keep_alive_ = false;
    body_failed_ = true;
    exchange_->body()->Fail(Stalled("sends"));
  }
  Advance();
}

absl::Status Http1Session::Stalled(std::string_view what) const {
  return MakeError(
      absl::StatusCode::kAborted, ErrorReason::kStalled,
      absl::StrCat("the client ", std::string(what), " less than ", host_.limits.min_progress_bytes,
                   " bytes in ", absl::FormatDuration(host_.limits.stall_timeout),
                   " (stall-timeout, min-client-rate)"),
      {{"limit", "stall-timeout"}});
}

absl::Status Http1Session::TooLong(std::optional<uint64_t> bytes, uint64_t max_bytes) {
  return MakeError(absl::StatusCode::kOutOfRange, ErrorReason::kLimitExceeded,
                   absl::StrCat("the body has ", bytes ? absl::StrCat(*bytes, " bytes, ") : "",
                                "more than the ", max_bytes, " bytes that this takes"),
                   {{"limit", "body-bytes"}, {"maximum", absl::StrCat(max_bytes)}});
}

}  // namespace upscaled::server
