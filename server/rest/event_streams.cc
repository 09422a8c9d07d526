#include "server/rest/event_streams.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/image/memory_io.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kRetryDelay = absl::Seconds(5);
// More than the events of any request or job take; days of comments do.
constexpr size_t kMaxStreamBytes = size_t{48} << 10;

absl::Status TooMany(absl::string_view whose, int64_t maximum) {
  return MakeOverloaded(
      absl::StrCat("there are ", maximum, " progress streams", whose, ", the most at a time"),
      kRetryDelay, {{"limit", "progress-streams"}, {"maximum", absl::StrCat(maximum)}});
}

}  // namespace

std::string TenantOf(const HttpRequest& request) {
  return request.caller == nullptr ? "" : request.caller->tenant;
}

// Only the task uses it, except the note of the client's end by another thread.
class EventStreams::Listener {
 public:
  Listener(std::unique_ptr<HttpExchange> exchange, std::unique_ptr<EventFeed> feed)
      : exchange_(std::move(exchange)),
        gone_(std::make_shared<std::atomic<bool>>(false)),
        feed_(std::move(feed)) {
    exchange_->OnGone([gone = gone_] { gone->store(true); });
  }

  const HttpRequest& request() const { return exchange_->request(); }

  absl::Status Begin(std::vector<HttpField> fields) {
    HttpResponse response{.fields = {{"Content-Type", "text/event-stream"},
                                     {"Cache-Control", "no-store"},
                                     {"X-Accel-Buffering", "no"}}};  // nginx would hold events back
    for (HttpField& field : fields) response.fields.push_back(std::move(field));
    return exchange_->Begin(std::move(response), {});
  }

  void Finish() { exchange_->Finish({}); }

  // Sends the feed's news, as the last ones if it is `ending`. Returns whether it goes on.
  bool Advance(absl::Time now, bool ending) {
    if (gone_->load()) return false;
    const std::string text = feed_->Next(now);
    if (!text.empty() && !exchange_->Write(AsBytes(text)).ok()) return false;
    sent_bytes_ += text.size();
    if (!ending && !feed_->ended() && sent_bytes_ < kMaxStreamBytes) return true;
    Finish();
    return false;
  }

 private:
  const std::unique_ptr<HttpExchange> exchange_;
  const std::shared_ptr<std::atomic<bool>> gone_;
  const std::unique_ptr<EventFeed> feed_;
  size_t sent_bytes_ = 0;
};

EventStreams::EventStreams(Timer& timer, const Clock& clock, absl::Duration period,
                           int max_listeners_per_address)
    : clock_(clock),
      period_(period),
      shares_(max_listeners_per_address),
      tenants_(kMaxListenersPerTenant),
      task_(timer, Timer::Length::kMayBlock, [this] { Advance(); }) {}

EventStreams::~EventStreams() = default;

absl::Status EventStreams::Add(std::unique_ptr<HttpExchange>& exchange,
                               std::vector<HttpField> fields, std::unique_ptr<EventFeed> feed) {
  if (exchange->request().method == "HEAD") {  // a header alone, and no listener
    Listener asker(std::move(exchange), std::move(feed));
    if (asker.Begin(std::move(fields)).ok()) asker.Finish();
    return absl::OkStatus();
  }
  const std::string& address = exchange->request().peer;
  const std::string tenant = TenantOf(exchange->request());
  {
    absl::MutexLock lock(&mutex_);
    if (listener_count_ >= kMaxListeners) return TooMany("", kMaxListeners);
    if (!shares_.Fits(address, 1)) return TooMany(" of this address", shares_.max_per_address());
    if (!tenants_.Fits(tenant, 1)) return TooMany(" of this tenant", kMaxListenersPerTenant);
    ++listener_count_;
    shares_.Take(address, 1);
    tenants_.Take(tenant, 1);
  }
  auto listener = std::make_unique<Listener>(std::move(exchange), std::move(feed));
  if (!listener->Begin(std::move(fields)).ok()) {
    Leave(*listener);
    return absl::OkStatus();  // the client has gone
  }
  {
    absl::MutexLock lock(&mutex_);
    arrivals_.push_back(std::move(listener));
  }
  task_.Request();
  return absl::OkStatus();
}

void EventStreams::Leave(const Listener& listener) {
  absl::MutexLock lock(&mutex_);
  --listener_count_;
  shares_.Give(listener.request().peer, 1);
  tenants_.Give(TenantOf(listener.request()), 1);
}

void EventStreams::End() {
  ending_ = true;
  task_.Request();
}

void EventStreams::Advance() {
  const bool ending = ending_;
  {
    absl::MutexLock lock(&mutex_);
    listeners_.splice(listeners_.end(), arrivals_);
  }
  const absl::Time now = clock_.Now();
  std::erase_if(listeners_, [&](const std::unique_ptr<Listener>& listener) {
    if (listener->Advance(now, ending)) return false;
    Leave(*listener);
    return true;
  });
  if (!listeners_.empty()) task_.Request(period_);
}

}  // namespace upscaled::server
