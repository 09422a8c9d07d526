// The shared state of a handler's HttpExchange and the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/steady_wait.h"
#include "server/http/http_exchange.h"
#include "server/http/http_fault.h"
#include "server/http/http_message.h"
#include "server/spool/answer_spool.h"
#include "server/spool/body_queue.h"

namespace upscaled::server {

// Thread safe. The handler's side waits, the connection's never does.
class HttpExchangeState : public std::enable_shared_from_this<HttpExchangeState> {
 public:
  // An answer as far as it is known when it begins.
  struct Answer {
    HttpResponse response;
    std::optional<HttpFault> fault;  // instead of a response, which the connection makes of it
    bool streamed = false;           // its body follows in pieces
    std::vector<std::string> trailer_names;
  };
  // The bytes written since the last one.
  struct Piece {
    std::string bytes;
    bool finished = false;  // it is the last one
    bool cut = false;       // there will be no proper end
    std::vector<HttpField> trailers;
  };

  // `wake` makes a thread of the connection look at the changes; any thread calls it.
  HttpExchangeState(HttpRequest request, std::shared_ptr<BodyBudget> budget, size_t max_queue_bytes,
                    std::function<void()> wake);

  // The connection's side.
  const std::shared_ptr<BodyQueue>& body() const { return body_; }
  // Before it looks at any of these: calls `wake` when there is more.
  void ListenAgain() ABSL_LOCKS_EXCLUDED(mutex_);
  bool WantsBody() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Answer> TakeAnswer() ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when the system has taken the last one.
  Piece TakePiece() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the handler has written all of its answer.
  bool Finished() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether no handler works on it: its body is still to come, or its answer is whole.
  bool Unattended() const { return body_->awaited() || Finished(); }
  // The connection ends before the answer does: reading and writing fail with `reason`, and the
  // handler is told.
  void EndConnection(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);

  // The handler's side: see HttpExchange.
  const HttpRequest& request() const { return request_; }
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnBody(std::function<void()> ready) ABSL_LOCKS_EXCLUDED(mutex_);
  std::unique_ptr<BodySpool> MakeSpool() const {
    return std::make_unique<BodySpool>(budget_, payer_);
  }
  absl::Status Start(Answer answer) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Write(std::span<const uint8_t> bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Settle() ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(std::vector<HttpField> trailers) ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnGone(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);
  // The exchange has been destroyed.
  void Abandon() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  void AskForBody() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the first written bytes wait in the queue, not in the spool.
  bool SpoolIsIdle() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !fetching_ && spool_.empty();
  }
  // Has the next bytes of the spool put into the queue, if it is empty.
  void MaybeFetch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts `bytes` into the queue. false: no space was there in time.
  absl::StatusOr<bool> Queue(std::span<const uint8_t> bytes, absl::Duration patience)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // On the budget's thread.
  void Fetch() ABSL_LOCKS_EXCLUDED(mutex_);

  const HttpRequest request_;
  const size_t max_queue_bytes_;
  const std::function<void()> wake_;
  const std::shared_ptr<BodyBudget> budget_;
  const std::string payer_;  // of its disk
  const std::shared_ptr<BodyQueue> body_;

  mutable absl::Mutex mutex_;
  SteadyCondition space_;                       // for the writer
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // and not listened to yet
  bool wants_body_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Answer> answer_ ABSL_GUARDED_BY(mutex_);  // not taken yet
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // by Finish or a whole answer
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<uint64_t> left_ ABSL_GUARDED_BY(mutex_);  // to be written, where it is known
  std::string queue_ ABSL_GUARDED_BY(mutex_);
  AnswerSpool spool_;                              // behind the queue
  bool fetching_ ABSL_GUARDED_BY(mutex_) = false;  // bytes of it are between the two
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;   // what the last piece had
  std::vector<HttpField> trailers_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> gone_ ABSL_GUARDED_BY(mutex_);
  bool connection_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// The handler's end of `state`.
std::unique_ptr<HttpExchange> MakeHttpExchange(std::shared_ptr<HttpExchangeState> state);

// The same for a handler with a whole answer at once.
std::unique_ptr<HttpResponseWriter> MakeHttpResponseWriter(
    std::shared_ptr<HttpExchangeState> state);

}  // namespace upscaled::server
