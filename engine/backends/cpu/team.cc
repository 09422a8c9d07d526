#include "engine/backends/cpu/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <system_error>

#include "engine/backends/cpu/denormals.h"
#include "engine/base/clock.h"
#include "engine/base/cpu_info.h"
#include "engine/base/int_math.h"
#include "engine/base/thread_name.h"

namespace upscaled::cpu {
namespace {

// How often a thread looks for work due within microseconds, before it sleeps.
constexpr int kLooks = 4'000;
// How often it looks before it asks whether the other thread has a CPU: some 10 us.
constexpr int kShortLooks = 500;
// Units are taken in multiples of this number. Winograd's kernels multiply 14 blocks, two a unit,
// at a time, and read the weights for each 14.
constexpr int kUnitsTaken = 7;

// Computes units as `thread` until there are none left.
void ComputeUnits(SharedUnits& units, int thread, float* scratch, UnitWork work) {
  while (true) {
    const SharedUnits::Units taken = units.Take(thread);
    if (taken.empty()) return;
    work(taken.begin, taken.end, scratch);
  }
}

bool IsAmong(const std::vector<int>& cpus, int cpu) {
  return cpu >= 0 && std::ranges::count(cpus, cpu) > 0;
}

}  // namespace

void SharedUnits::Deal(int units, int threads) {
  while (std::ssize(ranges_) < threads) ranges_.push_back(std::make_unique<Range>());
  threads_ = threads;
  const auto begin = [&](int thread) {
    return static_cast<int>(int64_t{units} * thread / threads);
  };
  for (int i = 0; i < threads; ++i) ranges_[i]->left = {begin(i), begin(i + 1)};
}

SharedUnits::Units SharedUnits::Take(int thread) {
  if (const Units own = TakeFrom(*ranges_[thread], /*own=*/true); !own.empty()) return own;
  while (Range* const other = Fullest()) {
    if (const Units taken = TakeFrom(*other, /*own=*/false); !taken.empty()) return taken;
  }
  return {};
}

SharedUnits::Units SharedUnits::TakeFrom(Range& range, bool own) {
  Units left = range.left;
  while (!left.empty()) {
    const int share = own ? CeilDiv(2 * left.count(), 3) : CeilDiv(left.count(), 2);
    const int rounded = RoundUp(share - kUnitsTaken / 2, kUnitsTaken);
    const int count = std::min(std::max(rounded, kUnitsTaken), left.count());
    const int cut = own ? left.begin + count : left.end - count;
    const Units front{left.begin, cut}, back{cut, left.end};
    if (range.left.compare_exchange_weak(left, own ? back : front)) return own ? front : back;
  }
  return {};
}

SharedUnits::Range* SharedUnits::Fullest() {
  Range* fullest = nullptr;
  int most = 0;
  for (int i = 0; i < threads_; ++i) {
    const int count = ranges_[i]->left.load().count();
    if (count <= most) continue;
    most = count;
    fullest = ranges_[i].get();
  }
  return fullest;
}

void Signal::Set(uint32_t value) {
  value_ = value;
  if (sleeps_) value_.notify_one();
}

bool Signal::ChangesSoon(uint32_t from, int looks) const {
  for (int i = 0; i < looks; ++i) {
    if (value_ != from) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

void Signal::SleepUntilChange(uint32_t from) const {
  // In this order, all threads see either the new value here or the sleeper in Set.
  sleeps_ = true;
  value_.wait(from);
  sleeps_ = false;
}

void Signal::AwaitChange(uint32_t from) const {
  if (!ChangesSoon(from, kLooks)) SleepUntilChange(from);
}

Helper::Helper(int cpu) : cpu_(cpu), thread_([this] { RunThread(); }) {}

Helper::~Helper() {
  // The helper claims a turn only if it has seen the one before.
  AwaitDone();
  ends_ = true;
  Tell();
  thread_.join();
}

void Helper::Wake(size_t scratch_floats) {
  scratch_.Reserve(scratch_floats);
  work_ = nullptr;
  Tell();
}

void Helper::Start(const UnitWork& work, SharedUnits& units, int thread) {
  work_ = &work;
  units_ = &units;
  thread_number_ = thread;
  Tell();
}

void Helper::Tell() { turn_.Set(++told_); }

bool Helper::Claim(uint32_t turn) {
  uint32_t last = turn - 1;
  return claimed_.compare_exchange_strong(last, turn);
}

void Helper::End() {
  if (Claim(told_)) return;
  const uint32_t last = told_ - 1;
  if (done_.ChangesSoon(last, kShortLooks)) return;
  for (int64_t before = CpuTimeNs(), now; !done_.ChangesSoon(last, kShortLooks); before = now) {
    now = CpuTimeNs();
    if (now != before) continue;
    if (cpu_ >= 0) BindThread(thread_.native_handle(), sched_getcpu());
    done_.SleepUntilChange(last);
    return BindThread(thread_.native_handle(), cpu_);
  }
}

void Helper::AwaitDone() const {
  for (uint32_t done; (done = done_.value()) != told_;) done_.AwaitChange(done);
}

int64_t Helper::CpuTimeNs() {
  clockid_t clock;
  timespec time{};
  if (pthread_getcpuclockid(thread_.native_handle(), &clock) == 0) clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void Helper::RunThread() {
  NameThread("stream-helper");
  BindThread(cpu_);
  const FlushDenormals flush;
  for (uint32_t turn = 0;;) {
    turn_.AwaitChange(turn);
    turn = turn_.value();
    if (Claim(turn)) {
      if (ends_) return;
      if (work_ != nullptr) ComputeUnits(*units_, thread_number_, scratch_.data(), *work_);
    }
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

void Team::Adjust(int most_threads) {
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
  if (threads() >= std::min({pool_->Share(), most_threads, most_threads_})) return;
  members_.reserve(members_.size() + 1);
  if (Helper* const helper = pool_->Take(scratch_floats_)) {
    members_.push_back({helper, Clock::Real().Now()});
  }
}

int Team::Run(int units, int most_threads, float* scratch, UnitWork work) {
  most_threads = std::min(units, most_threads);
  if (pool_ != nullptr) Adjust(most_threads);
  started_.clear();
  for (const Member& member : members_) {
    if (std::ssize(started_) + 1 >= most_threads) break;
    if (member.helper->IsReady()) started_.push_back(member.helper);
  }
  const int threads = static_cast<int>(started_.size()) + 1;
  if (threads == 1) {
    work(0, units, scratch);
    return 1;
  }
  units_.Deal(units, threads);
  for (int i = 1; i < threads; ++i) started_[i - 1]->Start(work, units_, i);
  ComputeUnits(units_, 0, scratch, work);
  for (Helper* const helper : started_) helper->End();
  return threads;
}

}  // namespace upscaled::cpu
