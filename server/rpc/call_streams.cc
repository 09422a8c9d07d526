#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/rpc/call.h"
#include "server/rpc/message_check.h"

namespace upscaled::server {
namespace {

using google::protobuf::Message;

// Bytes of the input queue for each message: an empty one is not free.
constexpr size_t kQueuedMessageBytes = 256;

// Memory of messages for a client, if others may wait on the disk.
constexpr size_t kMaxSpoolingQueueBytes = size_t{1} << 20;
// The time for a client to make space for more before the disk is used: punctual clients never meet
// it.
constexpr absl::Duration kSpoolDelay = absl::Milliseconds(100);

absl::Status CheckMessageBytes(size_t bytes, size_t max_bytes, const std::string& method) {
  if (bytes <= max_bytes) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
      absl::StrCat("the message has ", bytes, " bytes, more than the ", max_bytes, " that ", method,
                   " takes here", method == "Upscale" ? "; UpscaleImage takes larger images" : ""),
      {{"limit", "message-bytes"},
       {"value", absl::StrCat(bytes)},
       {"maximum", absl::StrCat(max_bytes)}});
}

// A message of more than 2 GiB does not serialise, and none is made.
grpc::ByteBuffer Serialize(const Message& message) {
  constexpr int kBlockBytes = 1 << 20;
  grpc::ByteBuffer bytes;
  const auto size = static_cast<int>(message.ByteSizeLong());
  grpc::ProtoBufferWriter writer(&bytes, kBlockBytes, size);
  (void)message.SerializeToZeroCopyStream(&writer);
  return bytes;
}

}  // namespace

void Call::QueueInput(MessagePtr message) {
  const size_t bytes = message->ByteSizeLong();
  input_bytes_ += kQueuedMessageBytes + bytes;
  input_stall_.Move(static_cast<int64_t>(bytes), Now());
  input_.push_back(std::move(message));
  changed_.NotifyAll();
}

// --- Reading ---

absl::StatusOr<MessagePtr> Call::Read() {
  if (!std::exchange(gave_first_, true) || backlog_ == nullptr) return ReadQueue();
  if (!backlog_->empty()) return ReadBacklog();
  backlog_ = nullptr;
  return ReadQueue();
}

absl::StatusOr<MessagePtr> Call::ReadBacklog() {
  if (cancellation().IsCancelled()) return cancellation().status();
  ASSIGN_OR_RETURN(const std::string bytes, backlog_->Take());
  MessagePtr message(method_->request->New());
  if (message->ParseFromString(bytes)) return message;
  return NoSuchMessage(*method_->request->GetDescriptor());
}

absl::StatusOr<MessagePtr> Call::ReadQueue() {
  MessagePtr message;
  {
    absl::MutexLock lock(&mutex_);
    if (absl::Status status = AwaitInput(); !status.ok()) return status;
    if (cancelled_) return cancellation().status();
    if (input_.empty()) {
      if (!input_error_.ok()) return input_error_;
      gave_end_ = true;
      return nullptr;
    }
    message = std::move(input_.front());
    input_.pop_front();
    input_bytes_ -= kQueuedMessageBytes + message->ByteSizeLong();
    if (!WantsRead()) return message;
    reading_ = true;
  }
  StartRead();
  return message;
}

absl::Status Call::AwaitInput() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cancelled_ || input_ended_ || !input_.empty();
  };
  if (ready()) return absl::OkStatus();
  slot_.BeginWait();
  input_stall_.BeginWait(Now());
  bool there = false;
  absl::Duration patience;
  do {
    there = changed_.Await(mutex_, input_stall_.Patience(Now()), ready);
    patience = input_stall_.Patience(Now());
  } while (!there && patience > absl::ZeroDuration());
  input_stall_.EndWait(Now());
  slot_.EndWait(input_.empty() ? 0 : static_cast<int64_t>(input_.front()->ByteSizeLong()));
  if (there) return absl::OkStatus();
  input_stall_.Restart(Now());  // for a handler that asks again
  return Stalled(kSentNothing);
}

void Call::ReportInput() {
  absl::MutexLock lock(&mutex_);
  input_stall_.Restart(Now());
}

bool Call::WantsRead() const {
  return !reading_ && !input_ended_ && input_bytes_ < method_->input_queue_bytes;
}

void Call::OnRead(bool ok) {
  if (backlog_ != nullptr && !request_handed_over_) {
    const absl::Status fault = ok ? CheckIncoming() : absl::OkStatus();
    if (fault.ok()) return OnBody(/*more=*/ok);
    incoming_.Clear();
    return EndPending(fault);
  }
  absl::StatusOr<MessagePtr> message = MessagePtr();
  if (ok) message = GuardMemory([this] { return ParseIncoming(); });
  incoming_.Clear();
  if (request_handed_over_) {
    OnStreamRead(std::move(message));
  } else {
    OnRequest(std::move(message));
  }
}

absl::Status Call::CheckIncoming() {
  const size_t max_bytes = request_handed_over_ || backlog_ != nullptr
                               ? method_->max_message_bytes
                               : method_->max_first_message_bytes;
  if (absl::Status status = CheckMessageBytes(incoming_.Length(), max_bytes, method_->name);
      !status.ok()) {
    return status;
  }
  const google::protobuf::Descriptor& type = *method_->request->GetDescriptor();
  grpc::ProtoBufferReader bytes(&incoming_);
  return bytes.status().ok() ? CheckFields(bytes, type) : NoSuchMessage(type);
}

absl::StatusOr<MessagePtr> Call::ParseIncoming() {
  RETURN_IF_ERROR(CheckIncoming());
  MessagePtr message(method_->request->New());
  grpc::ProtoBufferReader bytes(&incoming_);
  if (!message->ParseFromZeroCopyStream(&bytes)) {
    return NoSuchMessage(*method_->request->GetDescriptor());
  }
  return message;
}

void Call::OnStreamRead(absl::StatusOr<MessagePtr> message) {
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!message.ok() || *message == nullptr || cancelled_ || finish_status_.has_value() ||
        waiting_end_.has_value()) {
      input_ended_ = true;
      changed_.NotifyAll();
      input_error_ = message.status();
      return;
    }
    QueueInput(*std::move(message));
    reading_ = WantsRead();
    if (!reading_) return;
  }
  StartRead();
}

// --- Writing ---

size_t Call::OutputQueueBytes() const {
  return spool_ != nullptr ? std::min(method_->output_queue_bytes, kMaxSpoolingQueueBytes)
                           : method_->output_queue_bytes;
}

absl::Status Call::Reserve(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (spool_ != nullptr) {
    ASSIGN_OR_RETURN(lags_, Lags(bytes));
    if (lags_) return absl::OkStatus();
  }
  const auto fits = [this, bytes]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return output_bytes_ == 0 || output_bytes_ + bytes <= OutputQueueBytes();
  };
  RETURN_IF_ERROR(AwaitOutput(fits));
  output_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<bool> Call::Lags(size_t bytes) {
  const std::shared_ptr<MessageSpool> spool = spool_;
  const auto idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return spool->empty() && !fetching_;
  };
  const auto fits = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cancelled_ ||
           (idle() && (output_bytes_ == 0 || output_bytes_ + bytes <= OutputQueueBytes()));
  };
  // A lagging client gets no wait.
  if (changed_.Await(mutex_, idle() ? kSpoolDelay : absl::ZeroDuration(), fits)) {
    return cancelled_ ? absl::StatusOr<bool>(cancellation().status()) : false;
  }
  if (!spool->full()) return true;
  RETURN_IF_ERROR(AwaitOutput(idle));
  return false;
}

void Call::SpoolMessage(const google::protobuf::Message& message) {
  std::shared_ptr<MessageSpool> spool;
  {
    absl::MutexLock lock(&mutex_);
    spool = spool_;
  }
  if (spool == nullptr) return;  // cancelled
  if (const absl::Status added = spool->Add(message.SerializeAsString()); !added.ok()) {
    cancellation().Cancel(added);
  }
}

void Call::Fetch() {
  std::shared_ptr<MessageSpool> spool;
  {
    absl::MutexLock lock(&mutex_);
    spool = spool_;
  }
  absl::StatusOr<std::string> message = absl::CancelledError("dropped");
  if (spool != nullptr) message = GuardMemory([&] { return spool->Take(); });
  {
    absl::MutexLock lock(&mutex_);
    fetching_ = false;
    if (message.ok() && spool_ != nullptr) {  // not dropped meanwhile
      output_.push_back({.serialized = *std::move(message)});
    }
    changed_.NotifyAll();
  }
  if (spool != nullptr && !message.ok()) cancellation().Cancel(message.status());
  MaybeStartWrite();
}

absl::Status Call::Flush() {
  absl::MutexLock lock(&mutex_);
  return AwaitOutput(
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !writing_ && output_.empty(); });
}

absl::Status Call::AwaitOutput(const std::function<bool()>& condition) {
  const auto over = [this, &condition]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_ || condition(); };
  if (over()) return cancelled_ ? cancellation().status() : absl::OkStatus();
  slot_.BeginWait();
  const size_t waiting_bytes = output_bytes_;
  bool is_over = false;
  do {  // time without a write is not the client's
    is_over = changed_.Await(mutex_, output_stall_.Patience(Now()), over);
    if (!is_over && !writing_) output_stall_.Restart(Now());
  } while (!is_over && output_stall_.Patience(Now()) > absl::ZeroDuration());
  slot_.EndWait(static_cast<int64_t>(waiting_bytes - output_bytes_));
  if (!is_over) return Stalled(kTookNothing);
  return cancelled_ ? cancellation().status() : absl::OkStatus();
}

void Call::Send(MessagePtr message, size_t reserved_bytes, std::shared_ptr<const void> held) {
  bool lags = false;
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return;
    lags = lags_;
    if (!lags) output_.push_back({std::move(message), reserved_bytes, std::move(held)});
  }
  if (lags) SpoolMessage(*message);
  MaybeStartWrite();
}

bool Call::SendIfIdle(MessagePtr message) {
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_ || finish_status_.has_value() || !output_.empty()) return false;
    if (spool_ != nullptr && !spool_->empty()) return false;
    output_.push_back({std::move(message), 0, nullptr});
  }
  MaybeStartWrite();
  return true;
}

void Call::MaybeStartWrite() {
  MessagePtr next, answer;
  std::string serialized;
  grpc::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (writing_ || fetching_) return;
    if (output_.empty() && spool_ != nullptr && !spool_->empty()) {
      fetching_ = true;
      host_.bodies->RunOnDisk([self = shared_from_this()] { self->Fetch(); });
      return;
    }
    if (output_.empty() && !finish_status_.has_value()) return;
    writing_ = true;  // finishing included, which is the last write
    if (output_.empty()) {
      status = *finish_status_;
      answer = std::move(answer_);
    } else {
      in_flight_ = std::move(output_.front());
      output_.pop_front();
      next = std::move(in_flight_.message);
      serialized = std::exchange(in_flight_.serialized, {});
      bytes_in_flight_ = next == nullptr ? serialized.size() : next->ByteSizeLong();
      output_stall_.BeginWait(Now());
    }
  }
  if (next != nullptr) {
    stream_.Write(Serialize(*next), write_.Arm(shared_from_this()));
  } else if (!serialized.empty()) {
    const grpc::Slice slice(serialized);
    stream_.Write(grpc::ByteBuffer(&slice, 1), write_.Arm(shared_from_this()));
  } else if (answer != nullptr) {
    const grpc::ByteBuffer bytes = Serialize(*answer);
    answer = nullptr;
    stream_.WriteAndFinish(bytes, {}, status, finish_.Arm(shared_from_this()));
  } else {
    stream_.Finish(status, finish_.Arm(shared_from_this()));
  }
}

void Call::OnWritten(bool ok) {
  Outgoing gone;  // what it holds may take locks of its own when it goes
  std::shared_ptr<MessageSpool> spool;
  bool idle = false, taken = false;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    changed_.NotifyAll();
    output_bytes_ -= in_flight_.reserved_bytes;
    gone = std::exchange(in_flight_, {});
    output_stall_.EndWait(Now());
    output_stall_.Move(static_cast<int64_t>(bytes_in_flight_), Now());
    if (!ok) {  // the call is over; its end is on the way
      output_.clear();
      spool = std::exchange(spool_, nullptr);
    }
    idle = output_.empty();
    taken = ok && waiting_end_.has_value() && waiting_end_->ok() && AllTaken();
  }
  if (taken) FinishWaiting();
  MaybeStartWrite();
  if (idle && idle_ != nullptr) idle_();
}

void Call::DropOutput() {
  std::shared_ptr<MessageSpool> spool;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  output_.clear();
  spool = std::exchange(spool_, nullptr);
}

}  // namespace upscaled::server
