// A bidirectional streaming call over a completion queue, given to its handler as blocking streams.
//
// One read and one write are in flight at most. Reading ahead stops while the input queue holds
// `input_queue_bytes`, and what the handler writes waits in an output queue of
// `output_queue_bytes`. That bounds the memory of a call, which is reserved before its first
// message is read, whatever the client does.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/handlers/message_stream.h"
#include "server/rpc/call.h"

namespace upscaled::server {

// One streaming method of a service.
template <typename Request, typename Response>
struct StreamMethod {
  std::string name;
  // The generated RequestX of the service.
  std::function<void(grpc::ServerContext*, grpc::ServerAsyncReaderWriter<Response, Request>*,
                     grpc::ServerCompletionQueue*, void* tag)>
      request_call;
  // Runs on a request worker.
  std::function<absl::Status(CallContext, MessageReader<Request>&, MessageWriter<Response>&)>
      handler;
  size_t input_queue_bytes = 0;
  size_t output_queue_bytes = 0;
  size_t max_message_bytes = 0;  // that a client may send

  // A message goes beyond the full input queue, another one is in the handler's hands.
  size_t memory_bytes() const {
    return input_queue_bytes + 2 * max_message_bytes + output_queue_bytes;
  }
};

template <typename Request, typename Response>
class StreamCall final : public Call,
                         private MessageReader<Request>,
                         private MessageWriter<Response> {
 public:
  using Method = StreamMethod<Request, Response>;

  // Makes one more call of `method` (which must outlive it) ready to be called.
  static void Listen(CallEnvironment& environment, const Method& method,
                     grpc::ServerCompletionQueue& queue) {
    auto call = std::make_shared<StreamCall>(environment, method, queue);
    call->NotifyWhenDone();
    method.request_call(&call->context(), &call->stream_, &queue, call->started_.Arm(call));
  }

  StreamCall(CallEnvironment& environment, const Method& method, grpc::ServerCompletionQueue& queue)
      : Call(environment, method.name), method_(method), queue_(queue) {}

 private:
  struct Outgoing {
    Response response;
    size_t reserved_bytes = 0;
    std::shared_ptr<const void> held;
  };

  void OnStarted(bool ok) {
    if (!Start(ok)) return;
    Listen(environment(), method_, queue_);
    on_cancel_ = cancellation().OnCancel([this] { OnCancelled(); });
    if (absl::Status refusal =
            RunOnWorker([this] { RunHandler(); }, static_cast<int64_t>(method_.memory_bytes()));
        !refusal.ok()) {
      Finish(refusal);
      return;
    }
    StartRead();
  }

  void RunHandler() {
    absl::Status status =
        Guard([this] { return method_.handler(MakeCallContext(), *this, *this); });
    if (!status.ok()) DropOutput();
    // A client that has stalled was waited for already.
    if (ReasonOf(status) != ErrorReason::kStalled) {
      if (absl::Status flushed = Flush(); status.ok()) status = flushed;
    }
    Finish(status);
  }

  // --- Reading ---

  absl::StatusOr<bool> Read(Request& request) override ABSL_LOCKS_EXCLUDED(mutex_) {
    bool read_on = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return cancelled_ || input_ended_ || !input_.empty();
      };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&ready), environment().stall_timeout)) {
        return Stalled("sent nothing");
      }
      if (cancelled_) return cancellation().status();
      if (input_.empty()) return false;
      request = std::move(input_.front());
      input_.pop_front();
      input_bytes_ -= QueuedBytes(request);
      read_on = WantsRead();
      reading_ |= read_on;
    }
    if (read_on) StartRead();
    return true;
  }

  // A message's bytes in the input queue; an empty one is not free.
  static size_t QueuedBytes(const Request& request) {
    return sizeof(Request) + request.ByteSizeLong();
  }

  bool WantsRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !reading_ && !input_ended_ && input_bytes_ < method_.input_queue_bytes;
  }

  void StartRead() { stream_.Read(&incoming_, read_.Arm(this->shared_from_this())); }

  void OnRead(bool ok) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      if (!ok || cancelled_ || finish_status_.has_value()) {
        input_ended_ = true;
        return;
      }
      input_bytes_ += QueuedBytes(incoming_);
      input_.push_back(std::exchange(incoming_, Request()));
      reading_ = WantsRead();
      if (!reading_) return;
    }
    StartRead();
  }

  // --- Writing ---

  absl::Status Reserve(size_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto fits = [this, bytes]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return output_bytes_ == 0 || output_bytes_ + bytes <= method_.output_queue_bytes;
    };
    if (absl::Status status = AwaitOutput(fits); !status.ok()) return status;
    output_bytes_ += bytes;
    return absl::OkStatus();
  }

  absl::Status Flush() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return AwaitOutput(
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !writing_ && output_.empty(); });
  }

  // Waits for `condition` as long as the client takes what there is to take.
  template <typename Condition>
  absl::Status AwaitOutput(const Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto over = [this, &condition]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return cancelled_ || condition();
    };
    int64_t written = 0;
    do {
      written = messages_written_;
      if (mutex_.AwaitWithTimeout(absl::Condition(&over), environment().stall_timeout)) {
        return cancelled_ ? cancellation().status() : absl::OkStatus();
      }
    } while (!writing_ || written != messages_written_);
    return Stalled("took none of its result");
  }

  void Send(Response response, size_t reserved_bytes, std::shared_ptr<const void> held) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (cancelled_) return;
      output_.push_back({std::move(response), reserved_bytes, std::move(held)});
    }
    MaybeStartWrite();
  }

  void SendIfIdle(Response response) override ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (cancelled_ || !output_.empty()) return;
      output_.push_back({std::move(response), 0, nullptr});
    }
    MaybeStartWrite();
  }

  // Starts the next write, or the finish once there is nothing left to write, unless a write is in
  // flight.
  void MaybeStartWrite() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<Response> next;
    grpc::Status status;
    {
      absl::MutexLock lock(&mutex_);
      if (writing_ || (output_.empty() && !finish_status_.has_value())) return;
      writing_ = true;  // finishing included, which is the last write
      if (output_.empty()) {
        status = *finish_status_;
      } else {
        next = std::move(output_.front().response);
        bytes_in_flight_ = output_.front().reserved_bytes;
        held_in_flight_ = std::move(output_.front().held);
        output_.pop_front();
      }
    }
    if (next.has_value()) {
      stream_.Write(*next, write_.Arm(this->shared_from_this()));
    } else {
      stream_.Finish(status, finish_.Arm(this->shared_from_this()));
    }
  }

  void OnWritten(bool ok) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      output_bytes_ -= bytes_in_flight_;
      held_in_flight_ = nullptr;
      ++messages_written_;
      if (!ok) output_.clear();  // the call is over; its end is on the way
    }
    MaybeStartWrite();
  }

  // --- Ending ---

  void OnCancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    input_.clear();
    output_.clear();
  }

  void DropOutput() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    output_.clear();
  }

  // After everything was sent, or when the rest shall not be.
  void Finish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    ReleaseReservation();
    const grpc::Status result = Conclude(status);
    bool stuck = false;
    {
      absl::MutexLock lock(&mutex_);
      finish_status_ = result;
      input_.clear();
      stuck = writing_;
    }
    // A status waits behind the message that the client does not take; this does not.
    if (stuck) CancelWith(result);
    MaybeStartWrite();
  }

  absl::Status Stalled(std::string_view what) {
    return MakeError(absl::StatusCode::kAborted, ErrorReason::kStalled,
                     absl::StrCat("the client ", ToAbsl(what), " for ",
                                  absl::FormatDuration(environment().stall_timeout)));
  }

  const Method& method_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerAsyncReaderWriter<Response, Request> stream_{&context()};
  Request incoming_;  // the message of the read in flight

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;  // a read is in flight; OnStarted starts the first
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Request> input_ ABSL_GUARDED_BY(mutex_);
  size_t input_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;  // a write is in flight
  std::deque<Outgoing> output_ ABSL_GUARDED_BY(mutex_);
  size_t output_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // reserved, queued and in flight
  size_t bytes_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const void> held_in_flight_ ABSL_GUARDED_BY(mutex_);
  int64_t messages_written_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<grpc::Status> finish_status_ ABSL_GUARDED_BY(mutex_);

  CompletionTag started_{[this](bool ok) { OnStarted(ok); }};
  CompletionTag read_{[this](bool ok) { OnRead(ok); }};
  CompletionTag write_{[this](bool ok) { OnWritten(ok); }};
  CompletionTag finish_{[](bool) {}};
  Cancellation::Registration on_cancel_;  // last: it uses what is above
};

template <typename Request, typename Response>
void Listen(CallEnvironment& environment, const StreamMethod<Request, Response>& method,
            grpc::ServerCompletionQueue& queue) {
  StreamCall<Request, Response>::Listen(environment, method, queue);
}

}  // namespace upscaled::server
