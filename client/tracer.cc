#include "client/tracer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/image_io.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

namespace otlp = opentelemetry::proto;

constexpr char kServiceName[] = "upscale";
constexpr size_t kTraceIdBytes = 16, kSpanIdBytes = 8;

std::string RandomBytes(size_t count) {
  std::random_device random;
  std::string bytes(count, '\0');
  std::ranges::generate(bytes, [&] { return static_cast<char>(random()); });
  return bytes;
}

// Version 00, which later ones begin like: a version, the trace's id, the span's, flags.
bool IsTraceparent(absl::string_view text) {
  constexpr absl::string_view kForm = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  const auto fits = [](char form, char c) {
    return form == '-' ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  const auto is_zero = [](absl::string_view id) {
    return id.find_first_not_of('0') == absl::string_view::npos;
  };
  return text.size() >= kForm.size() &&
         std::equal(kForm.begin(), kForm.end(), text.begin(), fits) && text.substr(0, 2) != "ff" &&
         !is_zero(text.substr(3, 32)) && !is_zero(text.substr(36, 16));
}

bool IsSampled(absl::string_view traceparent) {
  return (absl::HexStringToBytes(traceparent.substr(53, 2))[0] & 1) != 0;
}

uint64_t NowNanos() { return static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())); }

otlp::AnyValue& AddAttribute(otlp::Span& span, const char* key) {
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(key);
  return *attribute.mutable_value();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Tracer>> Tracer::Create(
    const std::string& url, std::function<void(const absl::Status&)> on_failure) {
  const size_t path = IsHttpUrl(url) ? url.find('/', url.find("://") + 3) : std::string::npos;
  const bool has_path = path != std::string::npos && path + 1 < url.size();
  ASSIGN_OR_RETURN(HttpTarget target, HttpTarget::Create(url.substr(0, path), std::nullopt));
  return std::shared_ptr<Tracer>(new Tracer(
      std::move(target), has_path ? url.substr(path) : "/v1/traces", std::move(on_failure)));
}

Tracer::Tracer(HttpTarget target, std::string path,
               std::function<void(const absl::Status&)> on_failure)
    : target_(std::move(target)),
      path_(std::move(path)),
      on_failure_(std::move(on_failure)),
      sender_([this](std::stop_token stop) { Run(std::move(stop)); }) {}

Tracer::~Tracer() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, absl::ToChronoNanoseconds(kLastFlush), [this] { return ended_; });
  lock.unlock();
  sender_.request_stop();
}

void Tracer::Add(otlp::Span span) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMaxWaiting) return;
  waiting_.push_back(std::move(span));
  changed_.notify_all();
}

void Tracer::Run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) break;
    std::vector<otlp::Span> spans = std::exchange(waiting_, {});
    lock.unlock();
    if (absl::Status sent = Send(std::move(spans), stop); !sent.ok()) on_failure_(sent);
    lock.lock();
  }
  ended_ = true;
  changed_.notify_all();
}

absl::Status Tracer::Send(std::vector<otlp::Span> spans, std::stop_token stop) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans& resource_spans = *request.add_resource_spans();
  otlp::KeyValue& service = *resource_spans.mutable_resource()->add_attributes();
  service.set_key("service.name");
  service.mutable_value()->set_string_value(kServiceName);
  otlp::ScopeSpans& scope_spans = *resource_spans.add_scope_spans();
  scope_spans.mutable_scope()->set_name(kServiceName);
  std::ranges::move(spans,
                    google::protobuf::RepeatedFieldBackInserter(scope_spans.mutable_spans()));
  const std::string message = request.SerializeAsString();
  MemorySource body(message);
  HttpTransfer transfer(
      target_, {.path = path_, .body = &body, .content_type = "application/x-protobuf"}, {});
  transfers_.Start(transfer);
  absl::Status status = transfers_.Await(transfer, absl::Now() + kTimeout, std::move(stop));
  if (status.ok()) status = transfer.status();
  transfers_.Remove(transfer);
  return status;
}

OperationSpan::OperationSpan(Tracer* tracer, const char* name, const char* transport,
                             const std::string& traceparent)
    : tracer_(tracer != nullptr && !(IsTraceparent(traceparent) && !IsSampled(traceparent))
                  ? tracer
                  : nullptr),
      traceparent_(traceparent) {
  if (tracer_ == nullptr) return;
  span_.set_trace_id(RandomBytes(kTraceIdBytes));
  span_.set_span_id(RandomBytes(kSpanIdBytes));
  if (IsTraceparent(traceparent)) {
    span_.set_trace_id(absl::HexStringToBytes(traceparent.substr(3, 2 * kTraceIdBytes)));
    span_.set_parent_span_id(absl::HexStringToBytes(traceparent.substr(36, 2 * kSpanIdBytes)));
  }
  traceparent_ = absl::StrCat("00-", absl::BytesToHexString(span_.trace_id()), "-",
                              absl::BytesToHexString(span_.span_id()), "-01");
  span_.set_name(name);
  span_.set_kind(otlp::Span::SPAN_KIND_CLIENT);
  span_.set_start_time_unix_nano(NowNanos());
  AddAttribute(span_, "transport").set_string_value(transport);
}

OperationSpan::~OperationSpan() {
  if (tracer_ == nullptr) return;
  span_.set_end_time_unix_nano(NowNanos());
  tracer_->Add(std::move(span_));
}

absl::Status OperationSpan::End(absl::Status status, int attempts) {
  if (tracer_ == nullptr) return status;
  AddAttribute(span_, "attempts").set_int_value(attempts);
  AddAttribute(span_, "code").set_string_value(absl::StatusCodeToString(status.code()));
  if (!status.ok()) {
    span_.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
    span_.mutable_status()->set_message(std::string(status.message()));
  }
  return status;
}

}  // namespace upscaled::client
