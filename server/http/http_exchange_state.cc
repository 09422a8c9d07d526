#include "server/http/http_exchange_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// A client's time to make space for more before the disk is used. Clients with timely reads never
// need the disk.
constexpr absl::Duration kSpoolDelay = absl::Milliseconds(100);

// The first unsendable field; null: none.
const HttpField* FindUnsendable(const std::vector<HttpField>& fields) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [](const HttpField& field) { return !IsSendable(field); });
  return found == fields.end() ? nullptr : &*found;
}

// A handler's own failure.
HttpFault NoAnswer(std::string_view message) {
  return {500, MakeError(absl::StatusCode::kInternal, ErrorReason::kInternal, message)};
}

class Exchange final : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<HttpExchangeState> state) : state_(std::move(state)) {}
  ~Exchange() override { state_->Abandon(); }

  const HttpRequest& request() const override { return state_->request(); }
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override { return state_->Read(dst); }
  void OnBody(std::function<void()> ready) override { state_->OnBody(std::move(ready)); }
  bool BodyBegun() const override { return state_->body()->begun(); }
  std::unique_ptr<BodySpool> MakeSpool() override { return state_->MakeSpool(); }
  void Send(HttpResponse response) override {
    if (state_->Start({.response = std::move(response)}).ok()) return;
    (void)state_->Start({.fault = NoAnswer("the answer cannot be sent")});
  }
  absl::Status Begin(HttpResponse response,
                     const std::vector<std::string>& trailer_names) override {
    return state_->Start(
        {.response = std::move(response), .streamed = true, .trailer_names = trailer_names});
  }
  absl::Status Write(std::span<const uint8_t> bytes) override { return state_->Write(bytes); }
  absl::Status Settle() override { return state_->Settle(); }
  void Finish(std::vector<HttpField> trailers) override { state_->Finish(std::move(trailers)); }
  void Cancel(absl::Status reason) override { state_->Cancel(std::move(reason)); }
  void OnGone(std::function<void()> callback) override { state_->OnGone(std::move(callback)); }

 private:
  const std::shared_ptr<HttpExchangeState> state_;
};

class Writer final : public HttpResponseWriter {
 public:
  explicit Writer(std::shared_ptr<HttpExchangeState> state) : exchange_(std::move(state)) {}
  void Send(HttpResponse response) override { exchange_.Send(std::move(response)); }

 private:
  Exchange exchange_;
};

}  // namespace

std::unique_ptr<HttpExchange> MakeHttpExchange(std::shared_ptr<HttpExchangeState> state) {
  return std::make_unique<Exchange>(std::move(state));
}

std::unique_ptr<HttpResponseWriter> MakeHttpResponseWriter(
    std::shared_ptr<HttpExchangeState> state) {
  return std::make_unique<Writer>(std::move(state));
}

HttpExchangeState::HttpExchangeState(HttpRequest request, std::shared_ptr<BodyBudget> budget,
                                     size_t max_queue_bytes, std::function<void()> wake)
    : request_(std::move(request)),
      max_queue_bytes_(max_queue_bytes),
      wake_(wake),
      budget_(std::move(budget)),
      payer_(request_.caller == nullptr ? request_.peer : request_.caller->tenant),
      body_(std::make_shared<BodyQueue>(budget_, std::move(wake), payer_)),
      spool_(budget_, payer_) {}

void HttpExchangeState::Wake() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(woken_, true)) return;
  }
  wake_();
}

// --- The connection's side ---

void HttpExchangeState::ListenAgain() {
  absl::MutexLock lock(&mutex_);
  woken_ = false;
}

bool HttpExchangeState::WantsBody() const {
  absl::MutexLock lock(&mutex_);
  return wants_body_;
}

std::optional<HttpExchangeState::Answer> HttpExchangeState::TakeAnswer() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(answer_, std::nullopt);
}

HttpExchangeState::Piece HttpExchangeState::TakePiece() {
  absl::MutexLock lock(&mutex_);
  sending_ = !queue_.empty();
  space_.NotifyAll();
  Piece piece{.bytes = std::exchange(queue_, {}), .cut = cut_};
  MaybeFetch();
  piece.finished = ended_ && SpoolIsIdle();
  if (piece.finished) piece.trailers = std::exchange(trailers_, {});
  return piece;
}

void HttpExchangeState::MaybeFetch() {
  if (!queue_.empty() || SpoolIsIdle() || fetching_) return;
  fetching_ = true;
  budget_->RunOnDisk([self = shared_from_this()] { self->Fetch(); });
}

void HttpExchangeState::Fetch() {
  absl::StatusOr<std::string> bytes = spool_.Take();
  {
    absl::MutexLock lock(&mutex_);
    fetching_ = false;
    space_.NotifyAll();
    if (bytes.ok()) {
      queue_ = *std::move(bytes);
    } else {
      cut_ = true;
      if (error_.ok()) error_ = bytes.status();
    }
  }
  Wake();
}

bool HttpExchangeState::Finished() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

void HttpExchangeState::EndConnection(absl::Status reason) {
  std::function<void()> gone;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(connection_ended_, true)) return;
    gone = std::exchange(gone_, nullptr);
    queue_.clear();
  }
  Cancel(std::move(reason));
  if (gone) gone();
}

// --- The handler's side ---

void HttpExchangeState::AskForBody() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(wants_body_, true)) return;
  }
  Wake();
}

void HttpExchangeState::OnBody(std::function<void()> ready) {
  AskForBody();
  body_->OnReady(std::move(ready));
}

absl::StatusOr<size_t> HttpExchangeState::Read(std::span<uint8_t> dst) {
  AskForBody();
  return body_->Read(dst);
}

absl::Status HttpExchangeState::Start(Answer answer) {
  std::vector<HttpField>& fields = answer.response.fields;
  for (const std::string& name : answer.trailer_names) fields.push_back({name, ""});
  const HttpField* const unsendable = FindUnsendable(fields);
  if (unsendable != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the field ", unsendable->name, " of the answer cannot be sent"));
  }
  fields.resize(fields.size() - answer.trailer_names.size());
  {
    absl::MutexLock lock(&mutex_);
    if (started_) return absl::FailedPreconditionError("the answer has begun already");
    if (connection_ended_) return error_;
    started_ = true;
    ended_ = !answer.streamed;
    if (request_.method != "HEAD") left_ = answer.response.length;
    answer_ = std::move(answer);
  }
  Wake();
  return absl::OkStatus();
}

absl::Status HttpExchangeState::Write(std::span<const uint8_t> bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (!started_ || ended_) return absl::FailedPreconditionError("no answer is being written");
    if (!error_.ok()) return error_;
    if (bytes.empty() || request_.method == "HEAD") return absl::OkStatus();
    if (left_ && bytes.size() > *left_) {
      return absl::OutOfRangeError(
          absl::StrCat("the answer has ", *left_, " more bytes, not ", bytes.size()));
    }
    if (left_) *left_ -= bytes.size();
  }
  absl::Duration patience =
      budget_->options().spool_bytes > 0 ? kSpoolDelay : absl::InfiniteDuration();
  while (true) {
    ASSIGN_OR_RETURN(const bool queued, Queue(bytes, patience));
    if (!queued) {
      ASSIGN_OR_RETURN(const size_t spooled, spool_.Append(bytes));
      bytes = bytes.subspan(spooled);
    }
    Wake();
    if (queued || bytes.empty()) return absl::OkStatus();
    patience = absl::InfiniteDuration();  // the disk is full
  }
}

absl::StatusOr<bool> HttpExchangeState::Queue(std::span<const uint8_t> bytes,
                                              absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  const auto fits = [this, bytes]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool space = queue_.empty() || queue_.size() + bytes.size() <= max_queue_bytes_;
    return !error_.ok() || (space && SpoolIsIdle());
  };
  // There is no wait for a client with a lag.
  if (!SpoolIsIdle() && patience < absl::InfiniteDuration()) patience = absl::ZeroDuration();
  const bool fit = space_.Await(mutex_, patience, fits);
  if (!error_.ok()) return error_;
  if (fit) queue_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return fit;
}

absl::Status HttpExchangeState::Settle() {
  absl::MutexLock lock(&mutex_);
  if (budget_->options().spool_bytes > 0) return error_;
  const auto taken = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !error_.ok() || (queue_.empty() && !sending_);
  };
  mutex_.Await(absl::Condition(&taken));
  return error_;
}

void HttpExchangeState::Finish(std::vector<HttpField> trailers) {
  {
    absl::MutexLock lock(&mutex_);
    if (!started_ || ended_) return;
    cut_ = left_.value_or(0) > 0;
    ended_ = !cut_;
    trailers_ = std::move(trailers);
  }
  Wake();
}

void HttpExchangeState::Cancel(absl::Status reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (error_.ok()) error_ = reason;
    space_.NotifyAll();
  }
  body_->Fail(std::move(reason));
}

void HttpExchangeState::OnGone(std::function<void()> callback) {
  {
    absl::MutexLock lock(&mutex_);
    if (!connection_ended_) {
      gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

void HttpExchangeState::Abandon() {
  body_->Discard();
  std::function<void()> gone;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    gone = std::exchange(gone_, nullptr);
    if (started_) {
      cut_ = !ended_;
    } else if (!connection_ended_) {
      started_ = ended_ = true;
      answer_ = Answer{.fault = NoAnswer("no answer")};
    }
  }
  Wake();
}

}  // namespace upscaled::server
