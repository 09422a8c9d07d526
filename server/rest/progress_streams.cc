#include "server/rest/progress_streams.h"

#include <utility>

#include "absl/time/time.h"
#include "server/rest/progress_events.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kProgressPeriod = absl::Milliseconds(50);

class ProgressFeed final : public EventFeed {
 public:
  ProgressFeed(ProgressBoard& board, TenantRequest request, absl::Time now)
      : board_(board), since_(now), request_(std::move(request)), events_(request_.id, now) {}

  std::string Next(absl::Time now) override {
    if (progress_ == nullptr) progress_ = board_.Find(request_, since_);
    std::string text = events_.Next(progress_.get(), now);
    if (events_.ended() && progress_ != nullptr) progress_->SetTold(now);
    return text;
  }
  bool ended() const override { return events_.ended(); }

 private:
  ProgressBoard& board_;
  const absl::Time since_;
  const TenantRequest request_;
  ProgressEvents events_;
  std::shared_ptr<RequestProgress> progress_;
};

}  // namespace

ProgressStreams::ProgressStreams(ProgressBoard& board, Timer& timer, const Clock& clock,
                                 int max_listeners_per_address)
    : board_(board),
      clock_(clock),
      streams_(timer, clock, kProgressPeriod, max_listeners_per_address) {}

absl::Status ProgressStreams::Add(std::unique_ptr<HttpExchange>& exchange,
                                  std::vector<HttpField> fields) {
  const HttpRequest& request = exchange->request();
  return streams_.Add(
      exchange, std::move(fields),
      std::make_unique<ProgressFeed>(board_, TenantRequest{TenantOf(request), request.parameter},
                                     clock_.Now()));
}

}  // namespace upscaled::server
