#include "engine/backends/cpu/team.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "engine/backends/cpu/denormals.h"
#include "engine/base/clock.h"
#include "engine/base/cpu_info.h"

namespace upscaled::cpu {
namespace {

// How often a thread looks for what comes within microseconds, before it sleeps.
constexpr int kLooks = 4'000;

bool IsAmong(const std::vector<int>& cpus, int cpu) {
  return cpu >= 0 && std::ranges::count(cpus, cpu) > 0;
}

}  // namespace

void Signal::Set(uint32_t value) {
  value_ = value;
  if (sleeps_) value_.notify_one();
}

void Signal::AwaitChange(uint32_t from) const {
  for (int i = 0; i < kLooks; ++i) {
    if (value_ != from) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  // In this order, all threads see either the new value here or the sleeper in Set.
  sleeps_ = true;
  value_.wait(from);
  sleeps_ = false;
}

Helper::Helper(int cpu) : cpu_(cpu), thread_([this] { RunThread(); }) {}

Helper::~Helper() {
  ends_ = true;
  Tell();
  thread_.join();
}

void Helper::Wake(size_t scratch_floats) {
  scratch_.Reserve(scratch_floats);
  work_ = nullptr;
  Tell();
}

void Helper::Start(const PartWork& work, int part, int parts) {
  work_ = &work;
  part_ = part;
  parts_ = parts;
  Tell();
}

void Helper::Tell() { turn_.Set(++told_); }

void Helper::AwaitReady() const {
  for (uint32_t done; (done = done_.value()) != told_;) done_.AwaitChange(done);
}

void Helper::RunThread() {
  BindThread(cpu_);
  const FlushDenormals flush;
  for (uint32_t turn = 0;;) {
    turn_.AwaitChange(turn);
    turn = turn_.value();
    if (ends_) return;
    if (work_ != nullptr) (*work_)(part_, parts_, scratch_.data());
    done_.Set(turn);
  }
}

HelperPool::HelperPool(int streams) : HelperPool(PoolThreadCpus(streams)) {}

HelperPool::HelperPool(std::span<const int> cpus) : streams_(static_cast<int>(cpus.size())) {
  if (streams_ == 1) return;
  try {
    for (const int cpu : cpus) helpers_.push_back(std::make_unique<Helper>(cpu));
  } catch (const std::system_error&) {  // a limit of threads; those that there are do
  }
  absl::MutexLock lock(&mutex_);
  for (const std::unique_ptr<Helper>& helper : helpers_) free_.push_back(helper.get());
}

void HelperPool::Enter(int cpu) {
  absl::MutexLock lock(&mutex_);
  team_cpus_.push_back(cpu);
  ++teams_;
  ++entered_;
}

void HelperPool::Leave(int cpu) {
  absl::MutexLock lock(&mutex_);
  team_cpus_.erase(std::ranges::find(team_cpus_, cpu));
  --teams_;
}

bool HelperPool::HasTeamOn(int cpu) const {
  absl::MutexLock lock(&mutex_);
  return IsAmong(team_cpus_, cpu);
}

Helper* HelperPool::TakeIdle() {
  if (Working() >= streams_) return nullptr;
  absl::MutexLock lock(&mutex_);
  if (Working() >= streams_) return nullptr;
  for (auto idle = free_.begin(); idle != free_.end(); ++idle) {
    Helper* const helper = *idle;
    if (!helper->IsReady() || IsAmong(team_cpus_, helper->cpu())) continue;
    free_.erase(idle);
    ++helping_;
    return helper;
  }
  return nullptr;
}

Helper* HelperPool::Take(size_t scratch_floats) {
  Helper* const helper = TakeIdle();
  if (helper == nullptr) return nullptr;
  try {
    helper->Wake(scratch_floats);
    return helper;
  } catch (const std::bad_alloc&) {
    Return(*helper);
    return nullptr;
  }
}

void HelperPool::Return(Helper& helper) {
  absl::MutexLock lock(&mutex_);
  free_.push_back(&helper);
  --helping_;
}

Team::Team(HelperPool& pool, int cpu, size_t scratch_floats, int most_threads)
    : pool_(&pool), cpu_(cpu), scratch_floats_(scratch_floats), most_threads_(most_threads) {
  pool_->Enter(cpu_);
}

Team::~Team() { Dissolve(); }

absl::Duration Team::Dissolve() {
  if (pool_ == nullptr) return {};
  while (!members_.empty()) Return(members_.size() - 1);
  pool_->Leave(cpu_);
  pool_ = nullptr;
  return helped_;
}

void Team::Return(size_t member) {
  helped_ += Clock::Real().Now() - members_[member].since;
  pool_->Return(*members_[member].helper);
  members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(member));
}

void Team::Adjust(int most_parts) {
  if (const uint32_t entered = pool_->entered(); entered != entered_) {
    entered_ = entered;
    for (size_t i = members_.size(); i-- > 0;) {
      if (pool_->HasTeamOn(members_[i].helper->cpu())) Return(i);
    }
  }
  const auto threads = [this] { return static_cast<int>(members_.size()) + 1; };
  while (threads() > 1 && (threads() > pool_->Share() || pool_->Working() > pool_->streams_)) {
    Return(members_.size() - 1);
  }
  if (threads() >= std::min({pool_->Share(), most_parts, most_threads_})) return;
  members_.reserve(members_.size() + 1);
  if (Helper* const helper = pool_->Take(scratch_floats_)) {
    members_.push_back({helper, Clock::Real().Now()});
  }
}

void Team::Run(int most_parts, float* scratch, PartWork work) {
  if (pool_ != nullptr) Adjust(most_parts);
  const auto unready = std::ranges::find_if_not(
      members_, [](const Member& member) { return member.helper->IsReady(); });
  const auto helpers = std::min(unready - members_.begin(), std::ptrdiff_t{most_parts} - 1);
  const int parts = static_cast<int>(helpers) + 1;
  for (int i = 1; i < parts; ++i) members_[i - 1].helper->Start(work, i, parts);
  work(0, parts, scratch);
  for (int i = 1; i < parts; ++i) members_[i - 1].helper->AwaitReady();
}

}  // namespace upscaled::cpu
