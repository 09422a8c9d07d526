// Handlers over messages of their own types as methods of the table.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/message_stream.h"
#include "server/rpc/call.h"
#include "server/rpc/method.h"

namespace upscaled::server {

// The streams of a call for a handler with their types.
template <typename Request, typename Response>
class TypedStreams final : public MessageReader<Request>, public MessageWriter<Response> {
 public:
  explicit TypedStreams(Call& call) : call_(call) {}

  absl::StatusOr<bool> Read(Request& request) override {
    absl::StatusOr<MessagePtr> message = call_.Read();
    if (!message.ok()) return message.status();
    if (*message == nullptr) return false;
    request = std::move(static_cast<Request&>(**message));
    return true;
  }
  void ReportProgress() override { call_.ReportInput(); }

  absl::Status Reserve(size_t bytes) override { return call_.Reserve(bytes); }
  void Send(Response response, size_t reserved_bytes, std::shared_ptr<const void> held) override {
    call_.Send(std::make_unique<Response>(std::move(response)), reserved_bytes, std::move(held));
  }
  void SendIfIdle(Response response) override {
    call_.SendIfIdle(std::make_unique<Response>(std::move(response)));
  }

 private:
  Call& call_;
};

// `handler(CallContext, MessageReader<Request>&, MessageWriter<Response>&)` gives an absl::Status.
template <typename Request, typename Response, typename Handler>
auto StreamHandler(Handler handler) {
  return [handler = std::move(handler)](CallContext context, Call& call) {
    TypedStreams<Request, Response> typed(call);
    return handler(context, typed, typed);
  };
}

// `handler(CallContext, const Request&, Response&)` gives an absl::Status.
template <typename Request, typename Response, typename Handler>
auto UnaryHandler(Handler handler) {
  return [handler = std::move(handler)](CallContext context,
                                        const google::protobuf::Message& request) {
    auto response = std::make_unique<Response>();
    absl::Status status = handler(context, static_cast<const Request&>(request), *response);
    if (!status.ok()) response = nullptr;
    return std::pair<absl::Status, MessagePtr>(std::move(status), std::move(response));
  };
}

}  // namespace upscaled::server
