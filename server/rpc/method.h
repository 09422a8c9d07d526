// The methods of the gRPC port: a table of names, limits and handlers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/calls/call_context.h"
#include "server/identity/principal.h"

namespace upscaled::server {

class Call;

using MessagePtr = std::unique_ptr<google::protobuf::Message>;

// One method. Exactly one of the handlers is set, by the functions of typed_method.h.
struct Method {
  std::string path;                                    // "/upscale.v1.UpscaleService/UpscaleImage"
  std::string name;                                    // "UpscaleImage"
  const google::protobuf::Message* request = nullptr;  // the default instance
  size_t max_first_message_bytes = 0;  // the options of a stream, all of a unary call
  size_t max_message_bytes = 0;        // every other one of a stream
  size_t input_queue_bytes = 0;
  size_t output_queue_bytes = 0;
  // A stream with messages that may wait on the disk: its requests while slots are short, its
  // answers while the client is slow. The order of its messages does not depend on the other
  // side's.
  bool spools = false;
  bool recorded = true;  // logged and counted
  // The role for callers if the server asks for keys; nullopt: every caller may call.
  std::optional<Role> role = Role::kAdmin;

  // Many messages either way; on a request worker, with a slot.
  std::function<absl::Status(CallContext, Call&)> stream;
  // One message either way. The handler works for it: on a request worker, with a slot. The answer
  // is null after an error.
  std::function<std::pair<absl::Status, MessagePtr>(CallContext,
                                                    const google::protobuf::Message& request)>
      unary;
  // One message either way, answered from memory on gRPC's thread.
  decltype(unary) quick;
  // Many messages, each answered from memory on gRPC's thread before the next one is read. The call
  // stays pending, so --start-timeout bounds all of it.
  decltype(unary) reply;
  // One message, many answers, no thread: keeps the call until it is cancelled, then ends it by
  // Call::EndWatch. On gRPC's thread.
  std::function<void(const std::shared_ptr<Call>&, const google::protobuf::Message& request)> watch;

  bool streams() const { return stream != nullptr; }
  // Memory of a call's messages. For a stream: a message goes beyond the full input queue, another
  // one is in the handler's hands. For a unary call: the message, on the wire and parsed. The
  // others' are small and short-lived.
  size_t memory_bytes() const {
    if (stream != nullptr) return input_queue_bytes + 2 * max_message_bytes + output_queue_bytes;
    return unary != nullptr ? 2 * max_first_message_bytes : 0;
  }
};

// Requests without an image or a tile.
inline constexpr size_t kMaxSmallMessageBytes = size_t{64} << 10;

// By path.
using MethodTable = std::unordered_map<std::string, Method>;

}  // namespace upscaled::server
