#include "server/rpc/call.h"

#include <chrono>
#include <utility>

#include <grpc/grpc.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"
#include "server/rpc/caller_metadata.h"
#include "server/rpc/grpc_status.h"
#include "server/spool/body_queue.h"

namespace upscaled::server {
namespace {

// A client resets the call at its deadline, a little before our own clock, started at the call's
// arrival, says the same.
constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(100);

// gRPC reports the end of a lost client's messages a little before the client's end.
constexpr absl::Duration kCancelDelay = absl::Milliseconds(100);

// Memory of a call without its handler, in addition to its queue: a message from the disk, as it
// was there and as gRPC has it.
constexpr size_t kFetchedBytes = size_t{384} << 10;

// As the label of metrics: clients choose the names of unknown methods.
constexpr char kUnknownMethod[] = "unknown";
constexpr size_t kMaxPathBytes = 100;  // in an error

absl::Status InvalidCall(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption, message);
}

// A copy, unless it is in one piece already.
absl::StatusOr<grpc::Slice> InOnePiece(const grpc::ByteBuffer& message) {
  grpc::Slice piece;
  if (message.DumpToSingleSlice(&piece).ok()) return piece;
  return absl::InternalError("a message that has come cannot be read");
}

std::string_view TextOf(const grpc::Slice& bytes) {
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

absl::Status UnknownMethod(absl::string_view path) {
  return MakeError(absl::StatusCode::kUnimplemented, ErrorReason::kUnsupported,
                   absl::StrCat("there is no method ", path.substr(0, kMaxPathBytes),
                                " here; AdminService is at the server's --admin address"));
}

}  // namespace

void Call::Listen(CallHost& host, grpc::ServerCompletionQueue& queue) {
  const auto call = std::make_shared<Call>(host, queue);
  call->context_.AsyncNotifyWhenDone(call->done_.Arm(call));
  host.service.RequestCall(&call->context_, &call->stream_, &queue, &queue,
                           call->started_.Arm(call));
}

Call::Call(CallHost& host, grpc::ServerCompletionQueue& queue)
    : host_(host),
      queue_(queue),
      entry_(host.environment.registry),
      input_stall_(host.environment.stall_timeout, host.environment.min_progress_bytes),
      output_stall_(host.environment.stall_timeout, host.environment.min_progress_bytes) {}

void Call::OnStarted(bool ok) {
  if (!ok) {
    done_.Disarm();  // gRPC reports the end of calls that began, and of no others
    return;
  }
  Listen(host_, queue_);
  start_time_ = Now();
  record_.transport = "grpc";
  RecordTrace(host_.environment, TraceparentOf(context_.client_metadata()), start_time_, record_);
  PeerAddress peer = host_.environment.peer(context_.peer());
  record_.peer = peer.name;
  if (host_.environment.client_of != nullptr) {
    const CallerMetadata& metadata = context_.client_metadata();
    std::string client = host_.environment.client_of(peer, AllEntries(metadata, "x-forwarded-for"),
                                                     AllEntries(metadata, "forwarded"));
    if (client != peer.host) record_.peer = client;
    peer.host = std::move(client);
  }
  payer_ = PayerOf(peer.host, nullptr);
  const auto method = host_.methods.find(context_.method());
  if (method == host_.methods.end()) {
    record_.method = kUnknownMethod;
    Finish(UnknownMethod(context_.method()));
    return;
  }
  method_ = &method->second;
  record_.method = method_->name;
  // By a weak pointer: the last owner may be gone while another thread cancels.
  on_cancel_ = cancellation().OnCancel([weak = weak_from_this()] {
    if (const std::shared_ptr<Call> call = weak.lock()) call->OnCancelled();
  });
  absl::Status refusal = Authorize(peer);
  if (refusal.ok())
    refusal = ReadPriority(AllEntries(context_.client_metadata(), kPriorityField), payer_);
  if (!refusal.ok()) return Finish(refusal);
  if (const absl::Status status = BeginReading(); !status.ok()) Finish(status);
}

absl::Status Call::Authorize(const PeerAddress& peer) {
  const Authenticator* const authenticator = host_.environment.authenticator;
  if (authenticator == nullptr || !method_->role) return absl::OkStatus();
  const Authorization asked = authenticator->Authorize(
      CredentialsOf(context_.client_metadata(), peer), peer.host, *method_->role);
  RecordCaller(asked.caller.get(), record_);
  RETURN_IF_ERROR(asked.status);
  payer_ = PayerOf(peer.host, asked.caller.get());
  call_time_ = WatchCallTime(host_.environment.watchdog, payer_,
                             [weak = weak_from_this()](const absl::Status& status) {
                               const std::shared_ptr<Call> call = weak.lock();
                               if (call != nullptr) call->cancellation().Cancel(status);
                             });
  return absl::OkStatus();
}

// --- The request ---

absl::Status Call::BeginReading() {
  pending_place_ =
      host_.pending.Enter(address(), [weak = weak_from_this()](const absl::Status& status) {
        if (const std::shared_ptr<Call> call = weak.lock()) call->EndPending(status);
      });
  if (!method_->streams() && method_->memory_bytes() > 0) {
    RETURN_IF_ERROR(host_.environment.admission.CheckOpen());
    ASSIGN_OR_RETURN(
        message_memory_,
        host_.environment.admission.Reserve(
            {.memory_bytes = static_cast<int64_t>(method_->memory_bytes()), .payer = payer_}));
  }
  watch_ =
      host_.environment.watchdog.Watch(host_.environment.start_timeout, [weak = weak_from_this()] {
        if (const std::shared_ptr<Call> call = weak.lock()) call->OnLate();
      });
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return cancellation().status();
    phase_ = Phase::kPending;
  }
  if (method_->reply != nullptr) {
    idle_ = [this] { ReadNext(); };
  }
  StartRead();
  return absl::OkStatus();
}

bool Call::LeavePending() {
  Watchdog::Id watch;
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kPending) return false;
    phase_ = Phase::kRunning;
    watch = watch_;
  }
  host_.environment.watchdog.Drop(watch);
  pending_place_.Release();
  return true;
}

void Call::OnLate() {
  // A session of questions and answers may last as long.
  if (method_->reply != nullptr) return EndPending(absl::OkStatus());
  EndPending(MakeError(
      absl::StatusCode::kAborted, ErrorReason::kStalled,
      absl::StrCat("the client has not sent its request within ",
                   absl::FormatDuration(host_.environment.start_timeout), " (start-timeout)"),
      {{"limit", "start-timeout"}}));
}

void Call::EndPending(const absl::Status& status) {
  if (LeavePending()) Finish(status);
}

void Call::OnRequest(absl::StatusOr<MessagePtr> message) {
  if (!message.ok()) return EndPending(message.status());
  if (method_->reply != nullptr) return Reply(*message);
  const bool ended = *message == nullptr;
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kPending) return;  // refused by another thread, which has the request now
    first = request_ == nullptr;
    if (first) request_ = *std::move(message);
  }
  if (ended && first) return EndPending(InvalidCall("the call ended without a message"));
  if (!ended && !first) {
    return EndPending(
        InvalidCall(absl::StrCat(method_->name, " takes one message, and there is a second one")));
  }
  if (!ended && !method_->streams()) return StartRead();  // its end is still to come
  if (AwaitsBody()) return AwaitBody();
  if (!LeavePending()) return;
  if (method_->streams()) return RunStream();
  if (method_->watch != nullptr) return method_->watch(shared_from_this(), *request_);
  if (method_->quick != nullptr) return RunUnary();
  if (const absl::Status refusal = RunOnWorker(/*memory_bytes=*/0, [this] { RunUnary(); });
      !refusal.ok()) {
    Finish(refusal);
  }
}

void Call::Reply(const MessagePtr& message) {
  if (message == nullptr) return EndPending(absl::OkStatus());
  MessagePtr answer;
  const absl::Status status = GuardHandler(record_, [&] {
    absl::Status result;
    std::tie(result, answer) = method_->reply(MakeCallContext(), *message);
    return result;
  });
  if (!status.ok()) return EndPending(status);
  SendIfIdle(std::move(answer));
}

void Call::ReadNext() {
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kPending) return;
  }
  StartRead();
}

// --- A body that is received before the handler begins ---

bool Call::AwaitsBody() const { return MaySpool() && !host_.environment.admission.HasPlenty(); }

bool Call::MaySpool() const {
  return method_->spools && host_.bodies != nullptr && host_.bodies->options().spool_bytes > 0;
}

void Call::AwaitBody() {
  absl::Status refusal = host_.environment.admission.CheckCall(payer_);
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kPending) return;  // its place may be gone
    if (refusal.ok()) refusal = pending_place_.Settle();
  }
  if (!refusal.ok()) return EndPending(refusal);
  backlog_ = std::make_unique<MessageSpool>(host_.bodies, payer_.name());
  body_begun_ = Now();
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kPending) return;
    host_.environment.watchdog.Drop(watch_);
    input_stall_.BeginWait(Now());
  }
  OnSlowBody();
  StartBodyRead();
}

void Call::OnSlowBody() {
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kPending) return;
    const absl::Duration patience = input_stall_.Patience(Now());
    if (patience > absl::ZeroDuration()) {
      watch_ = host_.environment.watchdog.Watch(patience, [weak = weak_from_this()] {
        if (const std::shared_ptr<Call> call = weak.lock()) call->OnSlowBody();
      });
      return;
    }
  }
  EndPending(Stalled(kSentNothing));
}

void Call::StartBodyRead() {
  {
    absl::MutexLock lock(&mutex_);
    if (phase_ != Phase::kPending) return;
    input_stall_.BeginWait(Now());
  }
  StartRead();
}

void Call::OnBody(bool more) {
  const int64_t bytes = more ? static_cast<int64_t>(incoming_.Length()) : 0;
  {
    absl::MutexLock lock(&mutex_);
    input_stall_.EndWait(Now());
    input_stall_.Move(bytes, Now());
    input_ended_ = !more;
  }
  body_bytes_ += bytes + static_cast<int64_t>(sizeof(uint32_t));  // its length, in the spool
  if (!more) {
    if (LeavePending()) RunStream();
    return;
  }
  const absl::StatusOr<bool> kept = GuardMemory([this] { return KeepBody(); });
  if (!kept.ok() || *kept) OnBodyKept(kept.status());
}

absl::StatusOr<bool> Call::KeepBody() {
  struct Held {
    grpc::ByteBuffer message;
    AdmissionController::Reservation memory;
  };
  const auto held = std::make_shared<Held>();  // std::function copies
  held->message.Swap(&incoming_);
  const size_t bytes = held->message.Length();
  if (bytes < kBodyBlockBytes) {
    ASSIGN_OR_RETURN(const grpc::Slice message, InOnePiece(held->message));
    if (backlog_->AddInMemory(TextOf(message))) return true;
  }
  // As it came, and in one piece.
  ASSIGN_OR_RETURN(held->memory,
                   host_.environment.admission.Reserve(
                       {.memory_bytes = 2 * static_cast<int64_t>(bytes), .payer = payer_}));
  host_.bodies->RunOnDisk([self = shared_from_this(), held] {
    const absl::Status kept = GuardMemory([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const grpc::Slice message, InOnePiece(held->message));
      return self->backlog_->Add(TextOf(message));
    });
    held->message.Clear();
    held->memory.Release();
    self->OnBodyKept(kept);
  });
  return false;
}

void Call::OnBodyKept(const absl::Status& kept) {
  if (!kept.ok()) return EndPending(kept);
  if (!BodyIsReady()) return StartBodyRead();
  if (LeavePending()) RunStream();
}

bool Call::BodyIsReady() const {
  if (backlog_->full() || body_bytes_ > host_.environment.admission.limits().max_source_bytes) {
    return true;
  }
  const double seconds = absl::ToDoubleSeconds(Now() - body_begun_);
  return body_bytes_ >= kStreamBytes &&
         static_cast<double>(body_bytes_) >= seconds * kStreamBytesPerSecond;
}

// --- The handler ---

void Call::RunUnary() {
  const auto& handler = method_->quick != nullptr ? method_->quick : method_->unary;
  MessagePtr answer;
  const absl::Status status = GuardHandler(record_, [&] {
    absl::Status result;
    std::tie(result, answer) = handler(MakeCallContext(), *request_);
    return result;
  });
  Finish(status, std::move(answer));
}

void Call::RunStream() {
  request_handed_over_ = true;
  bool reads = false;
  {
    absl::MutexLock lock(&mutex_);
    QueueInput(std::move(request_));
    reads = reading_ = !input_ended_;
    if (MaySpool()) {
      spool_ = std::make_shared<MessageSpool>(host_.bodies, payer_.name());
    }
  }
  const absl::Status refusal = RunOnWorker(static_cast<int64_t>(method_->memory_bytes()), [this] {
    FinishStream(
        GuardHandler(record_, [this] { return method_->stream(MakeCallContext(), *this); }));
  });
  if (!refusal.ok()) return Finish(refusal);
  if (reads) StartRead();
}

void Call::FinishStream(absl::Status status) {
  if (!status.ok()) {
    if (cancellation().IsCancelled()) status = cancellation().status();
    DropOutput();
  } else if (method_->spools) {
    return FinishWhenTaken();
  }
  // A stalled client had its wait already.
  if (ReasonOf(status) != ErrorReason::kStalled) {
    if (absl::Status flushed = Flush(); status.ok()) status = flushed;
  }
  if (MayBeGone(status)) return FinishUnlessGone(status);
  Finish(status);
}

bool Call::MayBeGone(const absl::Status& failure) {
  absl::MutexLock lock(&mutex_);
  return gave_end_ && absl::IsInvalidArgument(failure);
}

void Call::FinishUnlessGone(const absl::Status& failure) {
  slot_.KeepOnly(/*memory_bytes=*/1);  // a drain waits for the call
  reservation_.Release();
  {
    absl::MutexLock lock(&mutex_);
    waiting_end_ = failure;
    watch_ = host_.environment.watchdog.Watch(kCancelDelay, [weak = weak_from_this()] {
      if (const std::shared_ptr<Call> call = weak.lock()) call->FinishWaiting();
    });
  }
  if (cancellation().IsCancelled()) FinishWaiting();
}

void Call::FinishWhenTaken() {
  reservation_.Release();
  backlog_ = nullptr;
  std::deque<MessagePtr> unread;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    unread.swap(input_);
    input_bytes_ = 0;
    input_ended_ = true;
    waiting_end_ = absl::OkStatus();
    slot_.KeepOnly(static_cast<int64_t>(output_bytes_ + kFetchedBytes));
  }
  OnSlowReader();
  if (cancellation().IsCancelled()) FinishWaiting();
}

void Call::OnSlowReader() {
  {
    absl::MutexLock lock(&mutex_);
    if (!waiting_end_.has_value()) return;
    if (!AllTaken()) {
      const absl::Duration patience = output_stall_.Patience(Now());
      if (patience > absl::ZeroDuration()) {
        watch_ = host_.environment.watchdog.Watch(patience, [weak = weak_from_this()] {
          if (const std::shared_ptr<Call> call = weak.lock()) call->OnSlowReader();
        });
        return;
      }
      waiting_end_ = Stalled(kTookNothing);
    }
  }
  FinishWaiting();
}

void Call::FinishWaiting() {
  std::optional<absl::Status> status;
  Watchdog::Id watch;
  {
    absl::MutexLock lock(&mutex_);
    status.swap(waiting_end_);
    watch = watch_;
  }
  if (!status.has_value()) return;  // another thread has ended the call
  host_.environment.watchdog.Drop(watch);
  if (!status->ok()) DropOutput();
  Finish(cancellation().IsCancelled() ? cancellation().status() : *status);
}

absl::Status Call::RunOnWorker(int64_t memory_bytes, std::function<void()> handler) {
  return server::RunOnWorker(
      host_.environment, memory_bytes, payer_, slot_,
      [self = shared_from_this(), handler = std::move(handler)] { handler(); },
      [weak = weak_from_this()](const absl::Status& reason) {
        if (const std::shared_ptr<Call> call = weak.lock()) call->cancellation().Cancel(reason);
      });
}

CallContext Call::MakeCallContext() {
  return {cancellation(), record_, start_time_,
          reservation_,   payer_,  EndOf(start_time_, payer_, Deadline())};
}

absl::Time Call::Deadline() const {
  const std::chrono::system_clock::time_point deadline = context_.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return Now() + (absl::FromChrono(deadline) - absl::Now());
}

// --- The end ---

void Call::OnDone() {
  if (!context_.IsCancelled()) return;
  const bool late = absl::FromChrono(context_.deadline()) <= absl::Now() + kDeadlineSlack;
  cancellation().Cancel(late ? MakeError(absl::StatusCode::kDeadlineExceeded,
                                         ErrorReason::kDeadline, "the call's deadline passed")
                             : MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelled,
                                         "the client cancelled the call or went away"));
}

void Call::OnCancelled() {
  bool answering = false;
  std::shared_ptr<MessageSpool> spool;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    changed_.NotifyAll();
    input_.clear();
    output_.clear();
    spool = std::exchange(spool_, nullptr);
    answering = answering_;
  }
  const absl::Status reason = cancellation().status();
  EndPending(reason);
  FinishWaiting();
  if (answering) CancelWith(ToGrpcStatus(reason, record_.request_id));
}

void Call::Finish(const absl::Status& status, MessagePtr answer) {
  request_ = nullptr;
  message_memory_.Release();
  if (answer == nullptr) reservation_.Release();
  const grpc::Status result = Conclude(status);
  bool stuck = false;
  {
    absl::MutexLock lock(&mutex_);
    phase_ = Phase::kEnded;
    answering_ = answer != nullptr;
    answer_ = std::move(answer);
    finish_status_ = result;
    input_.clear();
    stuck = writing_ && (method_->streams() || method_->reply != nullptr);
    if (answering_) {
      watch_ = host_.environment.watchdog.Watch(
          host_.environment.stall_timeout, [weak = weak_from_this()] {
            const std::shared_ptr<Call> call = weak.lock();
            if (call == nullptr) return;
            call->CancelWith(ToGrpcStatus(call->Stalled(kTookNothing), call->record_.request_id));
          });
    }
  }
  // A status waits behind the message not taken by the client; this does not.
  if (stuck) CancelWith(result);
  MaybeStartWrite();
}

grpc::Status Call::Conclude(const absl::Status& status) {
  CloseRecord(record_, status, Now() - start_time_);
  AddRetryPushback(status, context_);
  if (method_ == nullptr || method_->recorded) host_.environment.on_finished(record_);
  slot_.Release();
  return ToGrpcStatus(status, record_.request_id);
}

void Call::OnFinished() {
  host_.environment.watchdog.Drop(watch_);
  host_.environment.watchdog.Drop(call_time_);
  reservation_.Release();
  absl::MutexLock lock(&mutex_);
  answering_ = false;
}

void Call::CancelWith(const grpc::Status& status) {
  grpc_call_cancel_with_status(context_.c_call(),
                               static_cast<grpc_status_code>(status.error_code()),
                               status.error_message().c_str(), nullptr);
}

absl::Status Call::Stalled(std::string_view what) const {
  return MakeError(
      absl::StatusCode::kAborted, ErrorReason::kStalled,
      absl::StrCat("the client ", ToAbsl(what), " for ",
                   absl::FormatDuration(host_.environment.stall_timeout), ", or less than ",
                   host_.environment.min_progress_bytes, " bytes (stall-timeout, min-client-rate)"),
      {{"limit", "stall-timeout"}});
}

}  // namespace upscaled::server
