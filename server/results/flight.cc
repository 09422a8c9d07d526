#include "server/results/flight.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"

namespace upscaled::server {

Flight::Flight(Source source) : source_(std::move(source)) {
  wake_ = cancellation_.OnCancel([this] { Wake(); });
}

void Flight::Wake() {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
}

// --- The computation ---

void Flight::SetReadBack(ReadBack read_back) {
  absl::MutexLock lock(&mutex_);
  read_back_ = std::move(read_back);
}

void Flight::Announce(upscale::v1::UpscaleImageHeader header, absl::Time forecast_end) {
  absl::MutexLock lock(&mutex_);
  header_ = std::move(header);
  forecast_end_ = forecast_end;
  changed_.SignalAll();
}

void Flight::ReportProgress(int64_t done, int64_t total) {
  absl::MutexLock lock(&mutex_);
  if (done <= progress_.done) return;  // reports of several threads overtake each other
  progress_ = {done, total};
  changed_.SignalAll();
}

int64_t Flight::Allowed() const {
  int64_t fastest = 0;
  for (const auto& [number, position] : positions_) fastest = std::max(fastest, position);
  return fastest + static_cast<int64_t>(kAheadBytes);
}

absl::Status Flight::Append(std::string block) {
  const auto block_bytes = static_cast<int64_t>(block.size());
  absl::MutexLock lock(&mutex_);
  while (bytes_ >= Allowed()) {
    RETURN_IF_ERROR(cancellation_.status());
    changed_.Wait(&mutex_);
  }
  RETURN_IF_ERROR(cancellation_.status());
  blocks_.push_back(std::make_shared<const std::string>(std::move(block)));
  bytes_ += block_bytes;
  while (blocks_.size() > kKeptBytes / kBlockBytes) {
    blocks_.pop_front();
    ++dropped_;
  }
  changed_.SignalAll();
  return absl::OkStatus();
}

void Flight::Finish(absl::StatusOr<upscale::v1::UpscaleSummary> summary,
                    std::shared_ptr<const RequestRecord> record) {
  absl::MutexLock lock(&mutex_);
  end_ = std::move(summary);
  if (record != nullptr) meter_ = record->cost;
  record_ = std::move(record);
  changed_.SignalAll();
}

void Flight::HoldForWaiters(std::shared_ptr<const void> held) {
  absl::MutexLock lock(&mutex_);
  if (!positions_.empty()) held_.swap(held);
}

// --- Those who wait ---

int64_t Flight::KeptFrom() const { return dropped_ * static_cast<int64_t>(kBlockBytes); }

std::unique_ptr<Flight::Waiter> Flight::Join(Cancellation& cancellation, const Payer& payer,
                                             int64_t position) {
  std::unique_ptr<Waiter> waiter(new Waiter(shared_from_this(), cancellation, position));
  {
    absl::MutexLock lock(&mutex_);
    const bool there = position >= KeptFrom() || read_back_ != nullptr;
    if (left_ || end_.has_value() || !there) return nullptr;
    waiter->number_ = ++waiters_;
    positions_.emplace(waiter->number_, position);
  }
  payers_->Add(waiter->number_, payer);
  return waiter;
}

Flight::Bill Flight::TakeBill() {
  const int64_t cost = std::max<int64_t>(meter_ - paid_, 0);
  paid_ += cost;
  return {.cost = cost, .record = std::move(record_)};
}

Flight::Bill Flight::Leave(const Waiter& waiter) {
  bool last = false;
  Bill bill;
  std::shared_ptr<const void> held;  // destroyed with no lock held
  {
    absl::MutexLock lock(&mutex_);
    const auto place = positions_.find(waiter.number_);
    if (place == positions_.end()) return bill;
    const bool pays = place == positions_.begin();
    positions_.erase(place);
    last = positions_.empty() && !end_.has_value();
    left_ = left_ || last;
    if (pays && !last) bill = TakeBill();
    if (positions_.empty()) held = std::move(held_);
    changed_.SignalAll();
  }
  payers_->Remove(waiter.number_);
  if (!last) return bill;
  cancellation_.Cancel(absl::CancelledError("no caller waits for the result any more"));
  absl::MutexLock lock(&mutex_);
  return TakeBill();
}

bool Flight::Tell(Waiter& waiter, News& news) const {
  if (header_.has_value() && !std::exchange(waiter.knows_header_, true)) {
    news.header = header_;
    news.forecast_end = forecast_end_;
  }
  if (progress_ != waiter.progress_) news.progress = waiter.progress_ = progress_;
  const int64_t position = waiter.position_;
  if (position < KeptFrom()) {
    news.left_behind = true;  // unless it can be read back
  } else if (position < bytes_) {
    const int64_t block = position / static_cast<int64_t>(kBlockBytes);
    news.block = blocks_[static_cast<size_t>(block - dropped_)];
    news.bytes = std::string_view(*news.block).substr(position % kBlockBytes);
  } else if (end_.has_value()) {
    news.end = end_;
  }
  return news.header.has_value() || news.progress.has_value() || news.left_behind ||
         news.block != nullptr || news.end.has_value();
}

void Flight::ReadBehind(int64_t position, int64_t bytes, const ReadBack& read_back, News& news) {
  if (read_back == nullptr) return;
  const size_t count = std::min<size_t>(static_cast<size_t>(bytes - position), kBlockBytes);
  absl::StatusOr<std::string> read = read_back(position, count);
  if (!read.ok()) {  // as the file was given up
    absl::MutexLock lock(&mutex_);
    read_back_ = nullptr;
    return;
  }
  news.block = std::make_shared<const std::string>(*std::move(read));
  news.bytes = *news.block;
  news.left_behind = false;
}

Flight::Waiter::Waiter(std::shared_ptr<Flight> flight, Cancellation& cancellation, int64_t position)
    : flight_(std::move(flight)), cancellation_(cancellation), position_(position) {
  wake_ = cancellation_.OnCancel([flight = flight_.get()] { flight->Wake(); });
}

Flight::Waiter::~Waiter() { Leave(); }

Flight::Bill Flight::Waiter::Leave() { return flight_->Leave(*this); }

absl::StatusOr<Flight::News> Flight::Waiter::Await() {
  Flight& flight = *flight_;
  News news;
  int64_t bytes = 0;
  ReadBack read_back;
  {
    absl::MutexLock lock(&flight.mutex_);
    int64_t& delivered = flight.positions_[number_];
    if (std::exchange(delivered, position_) != position_) flight.changed_.SignalAll();
    while (true) {
      RETURN_IF_ERROR(cancellation_.status());
      if (flight.Tell(*this, news)) break;
      flight.changed_.Wait(&flight.mutex_);
    }
    bytes = flight.bytes_;
    if (news.left_behind) read_back = flight.read_back_;
  }
  if (news.left_behind) flight.ReadBehind(position_, bytes, read_back, news);
  position_ += static_cast<int64_t>(news.bytes.size());
  return news;
}

}  // namespace upscaled::server
