// The client's part of traces: a span an operation, sent to a collector as OTLP over HTTP.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/http/http_target.h"
#include "client/http/http_transfer.h"
#include "opentelemetry/otlp_trace.pb.h"

namespace upscaled::client {

// Thread safe. Lossy: operations put their spans into a bounded list and go on; a thread of its own
// sends what is there, and tries nothing twice.
class Tracer {
 public:
  static constexpr size_t kMaxWaiting = 1024;                     // spans
  static constexpr absl::Duration kTimeout = absl::Seconds(5);    // of one message
  static constexpr absl::Duration kLastFlush = absl::Seconds(1);  // at the end, for what there is

  // Spans are POSTed to `url`; without a path, to /v1/traces. `on_failure` hears, on the tracer's
  // own thread, why spans were lost. Errors as HttpTarget::Create's.
  static absl::StatusOr<std::shared_ptr<Tracer>> Create(
      const std::string& url, std::function<void(const absl::Status&)> on_failure);
  ~Tracer();

  // Lost where kMaxWaiting spans wait.
  void Add(opentelemetry::proto::Span span);

 private:
  Tracer(HttpTarget target, std::string path, std::function<void(const absl::Status&)> on_failure);
  void Run(std::stop_token stop);
  absl::Status Send(std::vector<opentelemetry::proto::Span> spans, std::stop_token stop);

  const HttpTarget target_;
  const std::string path_;
  const std::function<void(const absl::Status&)> on_failure_;
  HttpTransfers transfers_;  // of whoever sends
  std::mutex mutex_;         // of what is below
  std::condition_variable changed_;
  std::vector<opentelemetry::proto::Span> waiting_;
  bool ending_ = false, ended_ = false;
  std::jthread sender_;  // last: it uses what is above
};

// One operation of a client, tries and waits included: the parent of the servers' spans.
class OperationSpan {
 public:
  // `tracer` may be null: there is no span, and the operation belongs to what `traceparent` says.
  // Otherwise the span does, or begins a trace if that is not valid. Its caller may decide
  // against it, by the flag of W3C's Trace Context.
  OperationSpan(Tracer* tracer, const char* name, const char* transport,
                const std::string& traceparent);
  // Adds the span to the tracer.
  ~OperationSpan();
  OperationSpan(const OperationSpan&) = delete;
  OperationSpan& operator=(const OperationSpan&) = delete;

  // The field that goes along with the operation's calls; "": nothing.
  const std::string& traceparent() const { return traceparent_; }
  // `status`, for its caller to return.
  absl::Status End(absl::Status status, int attempts);

 private:
  Tracer* const tracer_;  // null: there is no span
  std::string traceparent_;
  opentelemetry::proto::Span span_;
};

}  // namespace upscaled::client
