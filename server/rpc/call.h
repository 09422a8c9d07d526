// The common part of all calls: a place in the registry, a stop signal, a record, a status.
//
// A call object waits in gRPC's hands until a client calls its method, then puts a fresh one in its
// place. It is owned by its operations in flight (see CompletionTag) and by the request worker that
// runs its handler, and goes when the last of them ends.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "server/admission/admission.h"
#include "server/base/request_record.h"
#include "server/handlers/call_context.h"
#include "server/handlers/call_environment.h"
#include "server/handlers/call_registry.h"
#include "server/rpc/completion_tag.h"

namespace upscaled::server {

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(CallEnvironment& environment, std::string method);
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 protected:
  // To be called before the call is handed to gRPC.
  void NotifyWhenDone() { context_.AsyncNotifyWhenDone(done_.Arm(shared_from_this())); }

  // A client has called (or, when not `ok`, the server has shut down): to be called first. Returns
  // whether there is a call to serve.
  bool Start(bool ok);

  // Takes a slot and `memory_bytes`, which Conclude frees, and runs `handler` on a request worker.
  // Returns the refusal instead when there is no slot or memory.
  absl::Status RunOnWorker(std::function<void()> handler, int64_t memory_bytes = 0);

  // The status of `handler`; an overload when the machine has no memory for it.
  static absl::Status Guard(const std::function<absl::Status()>& handler);

  // Closes the record with `status`, frees the slot and returns what the client gets. Call once,
  // when all else is done: the client may call again as soon as it has the status.
  grpc::Status Conclude(const absl::Status& status);

  // Gives back what the handler has reserved: once no answer of its making is left in memory.
  void ReleaseReservation() { reservation_.Release(); }

  // Ends the call at once, whatever the client has not taken yet; its status loses its details.
  void CancelWith(const grpc::Status& status);

  CallEnvironment& environment() const { return environment_; }
  grpc::ServerContext& context() { return context_; }
  Cancellation& cancellation() { return entry_.cancellation(); }
  RequestRecord& record() { return record_; }
  CallContext MakeCallContext() { return {cancellation(), record_, start_time_, reservation_}; }

 private:
  void OnDone(bool ok);

  CallEnvironment& environment_;
  CallRegistry::Entry entry_;
  grpc::ServerContext context_;
  RequestRecord record_;
  absl::Time start_time_;
  AdmissionController::CallSlot slot_;
  AdmissionController::Reservation reservation_;
  CompletionTag done_{[this](bool ok) { OnDone(ok); }};
};

}  // namespace upscaled::server
