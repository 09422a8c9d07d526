// A call without a transport: messages of a test to a handler, and the handler's.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/calls/call_context.h"
#include "server/calls/message_stream.h"

namespace upscaled::server {

// Gives messages in order, then the end of the stream or an error.
template <typename Request>
class GivenMessages final : public MessageReader<Request> {
 public:
  explicit GivenMessages(std::vector<Request> messages, absl::Status end = absl::OkStatus())
      : messages_(messages.begin(), messages.end()), end_(std::move(end)) {}

  absl::StatusOr<bool> Read(Request& request) override {
    if (messages_.empty()) {
      if (!end_.ok()) return end_;
      return false;
    }
    request = std::move(messages_.front());
    messages_.pop_front();
    return true;
  }
  size_t left() const { return messages_.size(); }

 private:
  std::deque<Request> messages_;
  const absl::Status end_;
};

// Keeps all messages, until the client is `gone`.
template <typename Response>
class SentMessages final : public MessageWriter<Response> {
 public:
  absl::Status Reserve(size_t) override { return gone_; }
  void Send(Response response, size_t, std::shared_ptr<const void>) override {
    absl::MutexLock lock(&mutex_);
    messages_.push_back(std::move(response));
  }
  void SendIfIdle(Response response) override { Send(std::move(response), 0, nullptr); }

  void Leave(absl::Status reason) { gone_ = std::move(reason); }
  std::vector<Response> messages() const {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }

 private:
  absl::Status gone_;  // set before the call
  mutable absl::Mutex mutex_;
  std::vector<Response> messages_ ABSL_GUARDED_BY(mutex_);
};

// A call as a transport hands it to a handler.
struct TestCall {
  Cancellation cancellation;
  RequestRecord record;
  AdmissionController::Reservation reservation;
  Payer payer;

  CallContext context() { return {cancellation, record, absl::Now(), reservation, payer}; }
};

}  // namespace upscaled::server
