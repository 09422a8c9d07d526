#include "server/spool/body_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// Enough for the connection to go on while one is written.
constexpr size_t kMaxOnTheirWay = 4;

}  // namespace

BodyQueue::BodyQueue(std::shared_ptr<BodyBudget> budget, std::function<void()> on_room,
                     std::string payer)
    : budget_(std::move(budget)),
      on_room_(std::move(on_room)),
      file_(std::make_shared<SpoolFile>(budget_, std::move(payer))) {}

BodyQueue::~BodyQueue() { DropAll(); }

// --- Appending ---

size_t BodyQueue::Append(std::span<const uint8_t> bytes) {
  const size_t taken = Take(bytes);
  TellIfReady();
  return taken;
}

size_t BodyQueue::Take(std::span<const uint8_t> bytes) {
  absl::MutexLock lock(&mutex_);
  refused_ = waits_for_others_ = full_ = false;
  if (discards_) return bytes.size();
  size_t taken = 0;
  while (taken < bytes.size()) {
    if (!MakeSpace()) {
      refused_ = true;
      break;
    }
    Block& block = *blocks_.back();
    const size_t n = std::min(bytes.size() - taken, kBodyBlockBytes - block.size);
    const auto piece = bytes.subspan(taken, n);
    block.bytes.insert(block.bytes.end(), piece.begin(), piece.end());
    block.size += n;
    taken += n;
  }
  if (taken_ == 0) begun_ = Clock::Real().Now();
  taken_ += static_cast<int64_t>(taken);
  return taken;
}

bool BodyQueue::waits_for_others() const {
  absl::MutexLock lock(&mutex_);
  return waits_for_others_;
}

bool BodyQueue::MakeSpace() {
  if (!blocks_.empty() && blocks_.back()->place == Place::kMemory &&
      blocks_.back()->size < kBodyBlockBytes) {
    return true;
  }
  if (AddBlock()) return true;
  Spill();
  return false;
}

bool BodyQueue::AddBlock() {
  const bool spare = !has_spare_;
  const size_t max_bytes = budget_->options().memory_bytes_per_body;
  if (!spare && memory_blocks_ * kBodyBlockBytes >= max_bytes) return false;
  auto block = std::make_shared<Block>();
  block->bytes.reserve(kBodyBlockBytes);
  block->spare = spare;
  if (!spare && !budget_->TakeMemoryBlock()) {
    waits_for_others_ = true;
    return false;
  }
  has_spare_ = true;
  ++memory_blocks_;
  blocks_.push_back(std::move(block));
  return true;
}

void BodyQueue::Spill() {
  if (budget_->options().spool_bytes == 0) {
    full_ = true;
    return;
  }
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    if (on_their_way_ >= kMaxOnTheirWay) return;
    if ((*block)->place != Place::kMemory) continue;
    const std::optional<size_t> slot = file_->TakeSlot();
    if (!slot) {
      waits_for_others_ = full_ = true;
      return;
    }
    (*block)->place = Place::kOnItsWay;
    (*block)->slot = *slot;
    ++on_their_way_;
    budget_->RunOnDisk([self = shared_from_this(), block = *block] { self->WriteBlock(*block); });
  }
}

void BodyQueue::WriteBlock(Block& block) {
  const absl::Status written = file_->Write(block.slot, block.bytes);  // which nobody changes now
  if (!written.ok()) Fail(written);
  {
    absl::MutexLock lock(&mutex_);
    --on_their_way_;
    ReleaseMemory(block);
    block.place = Place::kFile;
    if (block.dropped) file_->ReturnSlot(block.slot);
  }
  TellOfRoom();
}

// --- The time to read ---

void BodyQueue::OnReady(std::function<void()> ready) {
  {
    absl::MutexLock lock(&mutex_);
    ready_ = std::move(ready);
  }
  TellIfReady();
}

bool BodyQueue::awaited() const {
  absl::MutexLock lock(&mutex_);
  return ready_ != nullptr;
}

bool BodyQueue::begun() const {
  absl::MutexLock lock(&mutex_);
  return taken_ > 0 || ended_ || discards_;
}

bool BodyQueue::Ready() const {
  if (ended_ || discards_ || full_) return true;
  if (taken_ < kStreamBytes) return false;
  const double seconds = absl::ToDoubleSeconds(Clock::Real().Now() - begun_);
  return static_cast<double>(taken_) >= seconds * kStreamBytesPerSecond;
}

void BodyQueue::TellIfReady() {
  std::function<void()> ready;
  {
    absl::MutexLock lock(&mutex_);
    if (ready_ == nullptr || !Ready()) return;
    ready = std::exchange(ready_, nullptr);
  }
  ready();
}

// --- Ends ---

void BodyQueue::End() {
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }
  TellIfReady();
}

void BodyQueue::Fail(absl::Status status) {
  {
    absl::MutexLock lock(&mutex_);
    if (error_.ok()) error_ = std::move(status);
    discards_ = true;
    DropAll();
  }
  TellIfReady();
  TellOfRoom();
}

void BodyQueue::Discard() {
  {
    absl::MutexLock lock(&mutex_);
    discards_ = true;
    DropAll();
  }
  TellOfRoom();
}

void BodyQueue::Drop(Block& block) {
  if (block.place == Place::kOnItsWay) {
    block.dropped = true;
  } else if (block.place == Place::kFile) {
    file_->ReturnSlot(block.slot);
  } else {
    ReleaseMemory(block);
  }
}

void BodyQueue::DropAll() {
  for (const std::shared_ptr<Block>& block : blocks_) Drop(*block);
  blocks_.clear();
  read_ = 0;
}

void BodyQueue::ReleaseMemory(Block& block) {
  block.bytes = std::vector<uint8_t>();  // {} would keep its memory
  --memory_blocks_;
  if (block.spare) {
    has_spare_ = false;
  } else {
    budget_->ReturnMemoryBlock();
  }
}

void BodyQueue::TellOfRoom() {
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(refused_, false)) return;
  }
  on_room_();
}

// --- Reading ---

absl::StatusOr<size_t> BodyQueue::Read(std::span<uint8_t> dst) {
  std::shared_ptr<Block> block;
  size_t offset = 0;
  bool room = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return discards_ || ended_ || (!blocks_.empty() && blocks_.front()->size > read_);
    };
    mutex_.Await(absl::Condition(&ready));
    RETURN_IF_ERROR(error_);
    if (blocks_.empty() || blocks_.front()->size == read_) return 0;
    block = blocks_.front();
    offset = read_;
    if (block->place != Place::kFile) {
      const size_t n = std::min(dst.size(), block->size - offset);
      memcpy(dst.data(), block->bytes.data() + offset, n);
      room = Advance(n);
      dst = dst.first(n);
      block = nullptr;
    }
  }
  if (block == nullptr) {
    if (room) TellOfRoom();
    return dst.size();
  }
  const absl::StatusOr<size_t> n =
      file_->Read(block->slot, offset, dst.first(std::min(dst.size(), block->size - offset)));
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(error_);  // which may have cut the file
    RETURN_IF_ERROR(n.status());
    room = Advance(*n);
  }
  if (room) TellOfRoom();
  return n;
}

bool BodyQueue::Advance(size_t bytes) {
  read_ += bytes;
  Block& block = *blocks_.front();
  if (read_ < block.size) return false;
  read_ = 0;
  if (blocks_.size() == 1 && block.place == Place::kMemory) {  // to be filled again
    block.bytes.clear();
    block.size = 0;
    return true;
  }
  Drop(block);
  blocks_.pop_front();
  return true;
}

}  // namespace upscaled::server
