#include "server/rest/progress_streams.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/image/memory_io.h"
#include "server/base/error.h"
#include "server/rest/progress_events.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(50);
constexpr absl::Duration kRetryDelay = absl::Seconds(5);
// More than any request's events take; days of comments do.
constexpr size_t kMaxStreamBytes = size_t{48} << 10;

absl::Status TooMany(absl::string_view whose, int64_t maximum) {
  return MakeOverloaded(
      absl::StrCat("there are ", maximum, " progress streams", whose, ", the most at a time"),
      kRetryDelay, {{"limit", "progress-streams"}, {"maximum", absl::StrCat(maximum)}});
}

std::string TenantOf(const HttpRequest& request) {
  return request.caller == nullptr ? "" : request.caller->tenant;
}

}  // namespace

// Touched by the thread alone, but for the news that the client has gone.
class ProgressStreams::Listener {
 public:
  Listener(std::unique_ptr<HttpExchange> exchange, absl::Time now)
      : exchange_(std::move(exchange)),
        gone_(std::make_shared<std::atomic<bool>>(false)),
        since_(now),
        request_{TenantOf(exchange_->request()), exchange_->request().parameter},
        events_(request_.id, now) {
    exchange_->OnGone([gone = gone_] { gone->store(true); });
  }

  std::string address() const { return exchange_->request().peer; }

  absl::Status Begin(std::vector<HttpField> fields) {
    HttpResponse response{.fields = {{"Content-Type", "text/event-stream"},
                                     {"Cache-Control", "no-store"},
                                     {"X-Accel-Buffering", "no"}}};  // nginx would hold events back
    for (HttpField& field : fields) response.fields.push_back(std::move(field));
    return exchange_->Begin(std::move(response), {});
  }

  // Sends what there is; whether it goes on.
  bool Advance(ProgressBoard& board, absl::Time now) {
    if (gone_->load()) return false;
    if (progress_ == nullptr) progress_ = board.Find(request_, since_);
    const std::string text = events_.Next(progress_.get(), now);
    if (!text.empty() && !exchange_->Write(AsBytes(text)).ok()) return false;
    sent_bytes_ += text.size();
    if (events_.ended() && progress_ != nullptr) progress_->SetTold(now);
    if (!events_.ended() && sent_bytes_ < kMaxStreamBytes) return true;
    exchange_->Finish({});
    return false;
  }

 private:
  const std::unique_ptr<HttpExchange> exchange_;
  const std::shared_ptr<std::atomic<bool>> gone_;
  const absl::Time since_;
  const TenantRequest request_;
  ProgressEvents events_;
  std::shared_ptr<RequestProgress> progress_;
  size_t sent_bytes_ = 0;
};

ProgressStreams::ProgressStreams(ProgressBoard& board, const Clock& clock,
                                 int max_listeners_per_address)
    : board_(board),
      clock_(clock),
      shares_(max_listeners_per_address),
      thread_([this] { Loop(); }) {}

ProgressStreams::~ProgressStreams() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    news_.NotifyAll();
  }
  thread_.join();
}

absl::Status ProgressStreams::Add(std::unique_ptr<HttpExchange>& exchange,
                                  std::vector<HttpField> fields) {
  const std::string& address = exchange->request().peer;
  {
    absl::MutexLock lock(&mutex_);
    if (listeners_ >= kMaxListeners) return TooMany("", kMaxListeners);
    if (!shares_.Fits(address, 1)) return TooMany(" of this address", shares_.max_per_address());
    ++listeners_;
    shares_.Take(address, 1);
  }
  auto listener = std::make_unique<Listener>(std::move(exchange), clock_.Now());
  if (!listener->Begin(std::move(fields)).ok()) {
    Leave(*listener);
    return absl::OkStatus();  // the client has gone
  }
  absl::MutexLock lock(&mutex_);
  arrivals_.push_back(std::move(listener));
  news_.NotifyAll();
  return absl::OkStatus();
}

void ProgressStreams::Leave(const Listener& listener) {
  const std::string address = listener.address();
  absl::MutexLock lock(&mutex_);
  --listeners_;
  shares_.Give(address, 1);
}

void ProgressStreams::Loop() {
  std::list<std::unique_ptr<Listener>> listeners;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !arrivals_.empty();
      };
      news_.Await(mutex_, listeners.empty() ? absl::InfiniteDuration() : kPeriod, has_news);
      if (stopping_) return;
      listeners.splice(listeners.end(), arrivals_);
    }
    const absl::Time now = clock_.Now();
    std::erase_if(listeners, [&](const std::unique_ptr<Listener>& listener) {
      if (listener->Advance(board_, now)) return false;
      Leave(*listener);
      return true;
    });
  }
}

}  // namespace upscaled::server
