// One request with a duration: a call like any other, on a request worker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "server/admission/admission.h"
#include "server/base/payer.h"
#include "server/base/request_record.h"
#include "server/calls/call_registry.h"
#include "server/http/http_exchange.h"
#include "server/http/http_fault.h"
#include "server/rest/answer_sink.h"
#include "server/rest/rest_host.h"

namespace upscaled::server {

// Ends its work when the client goes. Owned by its worker: it ends with it.
class RestCall : public std::enable_shared_from_this<RestCall> {
 public:
  virtual ~RestCall() = default;
  RestCall(const RestCall&) = delete;
  RestCall& operator=(const RestCall&) = delete;

  // Goes on on a worker, or answers why not; on the server's thread. `memory_bytes` is its memory
  // in addition to the transport's.
  void Start(int64_t memory_bytes);
  // The same for a call that works on its body, and takes a slot once there is work: an upload
  // slower than the server waits without a slot and without a thread. A call without a slot now is
  // refused at once.
  void StartWithBody(int64_t memory_bytes);
  // The same for a short question without a slot (QuestionPool).
  void StartWithoutSlot();
  // Ends its work with `reason`. Thread safe.
  void GiveUp(const absl::Status& reason) { cancellation().Cancel(reason); }

 protected:
  // `method` as records have it.
  RestCall(RestHost& host, std::unique_ptr<HttpExchange> exchange, std::string method);

  // Refuses a request before its body, if possible; on the server's thread.
  virtual absl::Status CheckHeader() { return absl::OkStatus(); }
  // After CheckHeader: whether its work begins with its body. Otherwise it begins at once.
  virtual bool AwaitsBody() const { return true; }
  // On the worker; ends with Conclude and an answer.
  virtual void Run() = 0;
  // Closes the record and frees the slot: the client may call again as soon as it has its answer.
  // No later step waits for the client: there are no more workers than slots.
  virtual void Conclude(const absl::Status& status);
  // Answers with a problem: `status`, or the one kept by KeepFault. A begun answer is cut when the
  // exchange goes.
  void Fail(const absl::Status& status);
  // Keeps a problem with a status or fields of its own for Fail, before the answer has begun.
  // Returns its error.
  absl::Status KeepFault(HttpFault fault);
  bool has_fault() const { return fault_.has_value(); }
  HttpResponse WithCors(HttpResponse response) const;

  RestHost& host() const { return host_; }
  HttpExchange& exchange() const { return *exchange_; }
  const HttpRequest& request() const { return exchange_->request(); }
  Cancellation& cancellation() const { return entry_.cancellation(); }
  const Payer& payer() const { return payer_; }
  absl::Time start() const { return start_; }
  absl::Duration Elapsed() const { return host_.calls.clock.Now() - start_; }
  // The client's; the call ends with DEADLINE_EXCEEDED once it has passed.
  void SetTimeout(absl::Duration timeout);
  // When it ends at the latest.
  absl::Time deadline() const { return deadline_; }
  RequestRecord& record() { return record_; }
  AdmissionController::CallSlot& slot() { return slot_; }
  AnswerSink& sink() { return sink_; }

 private:
  // Has its work end when the client goes, or its time is over. An error is the answer.
  absl::Status Begin();
  // Goes on on a worker, with a slot.
  void Admit(int64_t memory_bytes);
  void Refuse(const absl::Status& refusal);

  RestHost& host_;
  CallRegistry::Entry entry_;
  const std::unique_ptr<HttpExchange> exchange_;
  Payer payer_;
  const absl::Time start_;
  RequestRecord record_;
  AdmissionController::CallSlot slot_;
  absl::Time deadline_;
  Watchdog::Id call_time_;  // for the end that the tenant's limits set
  Watchdog::Id timeout_;    // for that which the client sets
  AnswerSink sink_;
  std::optional<HttpFault> fault_;
  Cancellation::Registration on_cancel_;  // last: it uses what is above
};

}  // namespace upscaled::server
