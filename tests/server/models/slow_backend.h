// A device with Compile at the test's word.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "tests/support/fake_executable.h"

namespace upscaled::test {

// Compiles when it is let to.
class SlowBackend final : public Backend {
 public:
  std::string_view name() const override { return "slow"; }
  std::string description() const override { return "for tests"; }
  std::unique_ptr<Stream> CreateStream() override { return nullptr; }
  int StreamCount() const override { return 1; }

  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network&,
                                                            Precision precision) override {
    absl::MutexLock lock(&mutex_);
    ++compiling_;
    if (precision == Precision::kFast) return absl::UnimplementedError("no fp16 here");
    if (std::exchange(out_of_memory_, false)) throw std::bad_alloc();
    const auto may_go = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return open_; };
    mutex_.Await(absl::Condition(&may_go));
    return std::make_shared<test::FakeExecutable>();
  }

  // The next Compile throws.
  void RunOutOfMemory() {
    absl::MutexLock lock(&mutex_);
    out_of_memory_ = true;
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  void Close() {
    absl::MutexLock lock(&mutex_);
    open_ = false;
  }
  int AwaitCompiling(int count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return compiling_ >= count; };
    mutex_.Await(absl::Condition(&there));
    return compiling_;
  }

 private:
  absl::Mutex mutex_;
  int compiling_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool out_of_memory_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace upscaled::test
