// A request and its answer as streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/http_message.h"
#include "server/spool/body_spool.h"

namespace upscaled::server {

// One request and its answer, for a handler on a thread of its own. The server goes on reading the
// body during any answer, within its limits. May outlive the server: reads and writes then fail
// with CANCELLED. Destroyed without Send or Finish, the connection is cut, so no client takes half
// an answer for a whole one; before Begin: status 500.
//
// Reads and writes fail with
//   CANCELLED           the client has gone, or the server ends
//   ABORTED             (kStalled) the client sends or takes too little for too long
//   INVALID_ARGUMENT    the body breaks the rules of HTTP; the server answers 400 itself
//   the status given to Cancel
// and reads also with
//   OUT_OF_RANGE        (kLimitExceeded) the body is longer than the route takes; where the
//                       request tells its length, before any byte
//   RESOURCE_EXHAUSTED  (kOverloaded) no space is left for the bytes to keep
// An answer can still be begun after an error of reading, but for the first and the third.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;

  // Waits for the next bytes of the body; 0: its end. One thread reads. The first call asks a
  // client waiting for "100 Continue" to send.
  virtual absl::StatusOr<size_t> Read(std::span<uint8_t> dst) = 0;
  // Asks for the body, and calls `ready` once, on any thread and perhaps at once, when there is
  // work for a handler (BodyQueue::OnReady). `ready` may own the exchange.
  virtual void OnBody(std::function<void()> ready) = 0;
  // Whether the body's first byte, or its end, has come.
  virtual bool BodyBegun() const = 0;
  // Keeps read bytes, within the same budget. May outlive the exchange.
  virtual std::unique_ptr<BodySpool> MakeSpool() = 0;

  // The whole answer at once; at most once and instead of Begin. Does not wait.
  virtual void Send(HttpResponse response) = 0;

  // Begins an answer; its body follows: with its length where `response` tells it, else chunked,
  // for HTTP/1.0 until the connection's end. `trailer_names` are the fields Finish may add to
  // chunks. `response.body` is empty. Does not wait.
  virtual absl::Status Begin(HttpResponse response,
                             const std::vector<std::string>& trailer_names) = 0;
  // Hands `bytes` to the bounded output queue, or to the disk if the client takes them too slowly;
  // waits while both are full. Nothing is sent in answer to HEAD.
  // OUT_OF_RANGE: more than the announced length.
  virtual absl::Status Write(std::span<const uint8_t> bytes) = 0;
  // Waits until the system has taken all written bytes, and the connection holds no more; with a
  // disk for slow clients (BodyBudget), does not wait. Errors as Write's.
  virtual absl::Status Settle() = 0;
  // Ends the answer, or cuts one shorter than its length. Does not wait. Leaves out trailers with
  // unannounced names.
  virtual void Finish(std::vector<HttpField> trailers) = 0;

  // Ends waiting and later Read and Write with `reason`, not OK. Thread safe.
  virtual void Cancel(absl::Status reason) = 0;
  // `callback` is called at most once, on the server's thread, when the client goes before the
  // answer's end; soon, when it has gone already. To be set before the handler returns.
  virtual void OnGone(std::function<void()> callback) = 0;
};

// Called on the thread of all connections: must be quick, or hand the exchange to another thread.
using HttpStreamHandler = std::function<void(std::unique_ptr<HttpExchange>)>;

}  // namespace upscaled::server
