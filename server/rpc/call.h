// One gRPC call of any method, over the generic asynchronous service.
//
// Life cycle. A Call waits inside gRPC until a client calls a method, then puts a fresh Call in
// its place. It knows its method and limits before it reads a byte of a message. It holds no
// slot and no thread until its request has arrived: a unary message and its end, or a stream's
// first message. A request worker runs it from then on.
//
// Streams. The handler sees blocking streams. At most one read and one write are in flight.
// Reading ahead stops at Method::input_queue_bytes. Written messages wait in a queue of
// Method::output_queue_bytes. So the client cannot grow the call's memory. The call reserves it
// before it reads the second message.
//
// Slow clients (Method::spools). While slots or memory are short, a stream's messages go to the
// disk until they are whole or come at 1 MiB a second. The call has neither slot nor thread until
// then. A message waiting for the disk's thread is in the memory budget. Answers to a slow client
// go to the disk, too, to let the handler end. The call has no slot and no thread then, until the
// client has taken all.
//
// Unary answers keep the handler's reservation until they are sent. A client that does not read
// cannot push the server over its memory budget. The server drops it after a while.
//
// Ownership. A call is owned by its operations in flight (see CompletionTag), by its request
// worker, and by the health service watching it. It is destroyed when the last of them ends.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "engine/base/steady_wait.h"
#include "server/admission/admission.h"
#include "server/base/payer.h"
#include "server/base/request_record.h"
#include "server/base/stall_meter.h"
#include "server/calls/call_context.h"
#include "server/calls/call_environment.h"
#include "server/calls/call_registry.h"
#include "server/calls/watchdog.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/message_spool.h"
#include "server/rpc/method.h"
#include "server/rpc/pending_calls.h"
#include "server/spool/body_budget.h"

namespace upscaled::server {

// The surroundings of all calls of one port. Everything outlives them.
struct CallHost {
  CallEnvironment& environment;
  const MethodTable& methods;
  grpc::AsyncGenericService& service;
  PendingCalls& pending;
  std::shared_ptr<BodyBudget> bodies = nullptr;  // for messages on the disk; null: none
};

class Call final : public std::enable_shared_from_this<Call> {
 public:
  // Makes one more call ready to be called.
  static void Listen(CallHost& host, grpc::ServerCompletionQueue& queue);

  Call(CallHost& host, grpc::ServerCompletionQueue& queue);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // --- For Method::watch ---

  Cancellation& cancellation() const { return entry_.cancellation(); }
  // To be called before the first message: `idle` is told whenever all messages have left, with no
  // lock held.
  void TellWhenIdle(std::function<void()> idle) { idle_ = std::move(idle); }
  // Sends a small message unless others still wait to be sent, or the call has ended. Never waits.
  bool SendIfIdle(MessagePtr message) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndWatch(const absl::Status& status) { Finish(status); }

  // --- For Method::stream, as MessageReader and MessageWriter have them ---

  // Null: the client has sent all.
  absl::StatusOr<MessagePtr> Read() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReportInput() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Reserve(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Send(MessagePtr message, size_t reserved_bytes, std::shared_ptr<const void> held)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& address() const { return payer_.address; }  // the client's, without a port

 private:
  // The faults of a stalled client.
  static constexpr std::string_view kSentNothing = "sent nothing";
  static constexpr std::string_view kTookNothing = "took none of its result";

  enum class Phase : uint8_t {
    kNew,
    kPending,  // its request is on its way
    kRunning,  // its handler ends it
    kEnded,    // its status is on its way
  };
  struct Outgoing {
    MessagePtr message;
    size_t reserved_bytes = 0;
    std::shared_ptr<const void> held;
    std::string serialized = {};  // instead of a message
  };

  // --- Begin and end: call.cc ---

  void OnStarted(bool ok);
  // Whether the caller may call the method.
  absl::Status Authorize(const PeerAddress& peer);
  absl::Status BeginReading() ABSL_LOCKS_EXCLUDED(mutex_);
  // The first to be told so goes on with the call: whether it is the caller.
  bool LeavePending() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLate();
  // The read message; null after the client's last.
  void OnRequest(absl::StatusOr<MessagePtr> message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call unless another thread goes on with it.
  void EndPending(const absl::Status& status);
  // Answers a message of Method::reply; null: the client has sent all.
  void Reply(const MessagePtr& message);
  // Reads its next message, when the answer has left.
  void ReadNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the handler waits until the client has sent its messages, or sends them fast.
  bool AwaitsBody() const;
  bool MaySpool() const;  // whether messages may go to the disk
  void AwaitBody() ABSL_LOCKS_EXCLUDED(mutex_);
  // A message was read; `more` is false when the client has sent all.
  void OnBody(bool more) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the message to the backlog as it came. false: the budget's thread does, and OnBodyKept
  // follows.
  absl::StatusOr<bool> KeepBody();
  void OnBodyKept(const absl::Status& kept) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there is work for a handler: enough has come fast enough, or too much.
  bool BodyIsReady() const;
  void StartBodyRead() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSlowBody() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunStream() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunUnary();
  // Takes a slot and `memory_bytes`, and runs `handler` on a request worker. Returns the refusal
  // instead when there is no slot, memory or thread.
  absl::Status RunOnWorker(int64_t memory_bytes, std::function<void()> handler);
  // Ends a stream without its handler.
  void FinishStream(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a failed call's client may have gone: the loss looks like the end of its messages
  // first, and its image like a broken one.
  bool MayBeGone(const absl::Status& failure) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call in a moment, with `failure` unless it is cancelled until then. Holds no thread.
  void FinishUnlessGone(const absl::Status& failure) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call well when the client has taken all. Holds no slot and no thread.
  void FinishWhenTaken() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSlowReader() ABSL_LOCKS_EXCLUDED(mutex_);
  // The end of either wait.
  void FinishWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  CallContext MakeCallContext();
  // The client's, by the server's clock; infinite: it has set none.
  absl::Time Deadline() const;
  void OnCancelled() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call when all messages have left; `answer` is a unary call's, null after an error.
  void Finish(const absl::Status& status, MessagePtr answer = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes the record, frees the slot and returns the client's status. The client may call again as
  // soon as it has the status.
  grpc::Status Conclude(const absl::Status& status);
  void OnFinished();
  void OnDone();
  // Ends the call at once, even if the client has not taken everything; the status loses its
  // details.
  void CancelWith(const grpc::Status& status);
  absl::Status Stalled(std::string_view what) const;

  // --- Messages: call_streams.cc ---

  absl::StatusOr<MessagePtr> ReadQueue() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<MessagePtr> ReadBacklog();
  absl::Status AwaitInput() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WantsRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartRead() { stream_.Read(&incoming_, read_.Arm(shared_from_this())); }
  void OnRead(bool ok);
  // Looks at the read message: whether it may be parsed.
  absl::Status CheckIncoming();
  absl::StatusOr<MessagePtr> ParseIncoming();
  void OnStreamRead(absl::StatusOr<MessagePtr> message) ABSL_LOCKS_EXCLUDED(mutex_);
  void QueueInput(MessagePtr message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status Flush() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for `condition` as long as the client takes its messages.
  absl::Status AwaitOutput(const std::function<bool()>& condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOutput() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t OutputQueueBytes() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Whether the next message goes to the disk. Waits for the client for a moment, and if the disk
  // is full.
  absl::StatusOr<bool> Lags(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SpoolMessage(const google::protobuf::Message& message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Queues the next message of the spool. On the budget's thread.
  void Fetch() ABSL_LOCKS_EXCLUDED(mutex_);
  bool AllTaken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !writing_ && !fetching_ && output_.empty() && (spool_ == nullptr || spool_->empty());
  }
  // Starts the next write, or the finish once there is nothing left to write, unless a write is in
  // flight.
  void MaybeStartWrite() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWritten(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Time Now() const { return host_.environment.clock.Now(); }

  CallHost& host_;
  grpc::ServerCompletionQueue& queue_;
  CallRegistry::Entry entry_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  const Method* method_ = nullptr;  // null: none of ours
  Payer payer_;
  RequestRecord record_;
  absl::Time start_time_;
  PendingCalls::Place pending_place_;
  Watchdog::Id watch_;                               // for the request, then for the answer
  Watchdog::Id call_time_;                           // for the end that the tenant's limits set
  AdmissionController::Reservation message_memory_;  // a unary request's
  AdmissionController::CallSlot slot_;
  AdmissionController::Reservation reservation_;  // the handler's
  grpc::ByteBuffer incoming_;                     // the message of the read in flight
  MessagePtr request_;                            // the first message; whoever left kPending has it
  bool request_handed_over_ = false;              // reads are the stream's
  std::unique_ptr<MessageSpool> backlog_;  // messages behind the first, from before the handler
  bool gave_first_ = false;                // the handler has the first message
  int64_t body_bytes_ = 0;                 // of the backlog
  absl::Time body_begun_;
  std::function<void()> idle_;

  absl::Mutex mutex_;
  SteadyCondition changed_;  // what the handler may wait for
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNew;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // a read is in flight
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool gave_end_ ABSL_GUARDED_BY(mutex_) = false;     // to the handler
  absl::Status input_error_ ABSL_GUARDED_BY(mutex_);  // the end's, when not OK
  std::deque<MessagePtr> input_ ABSL_GUARDED_BY(mutex_);
  size_t input_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  StallMeter input_stall_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<MessageSpool> spool_ ABSL_GUARDED_BY(mutex_);  // behind output_; null: none
  bool lags_ ABSL_GUARDED_BY(mutex_) = false;      // the next message goes to the spool
  bool fetching_ ABSL_GUARDED_BY(mutex_) = false;  // a message of the spool
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;   // a write is in flight, or the finish
  std::deque<Outgoing> output_ ABSL_GUARDED_BY(mutex_);
  size_t output_bytes_ ABSL_GUARDED_BY(mutex_) = 0;     // reserved, queued and in flight
  Outgoing in_flight_ ABSL_GUARDED_BY(mutex_);          // its message is gone
  size_t bytes_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // on the wire
  StallMeter output_stall_ ABSL_GUARDED_BY(mutex_);
  MessagePtr answer_ ABSL_GUARDED_BY(mutex_);
  bool answering_ ABSL_GUARDED_BY(mutex_) = false;                   // a unary answer is on its way
  std::optional<absl::Status> waiting_end_ ABSL_GUARDED_BY(mutex_);  // of a call without a handler
  std::optional<grpc::Status> finish_status_ ABSL_GUARDED_BY(mutex_);

  CompletionTag started_{[this](bool ok) { OnStarted(ok); }};
  CompletionTag read_{[this](bool ok) { OnRead(ok); }};
  CompletionTag write_{[this](bool ok) { OnWritten(ok); }};
  CompletionTag finish_{[this](bool) { OnFinished(); }};
  CompletionTag done_{[this](bool) { OnDone(); }};
  Cancellation::Registration on_cancel_;  // last: it uses what is above
};

}  // namespace upscaled::server
