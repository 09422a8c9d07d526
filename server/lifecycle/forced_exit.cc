#include "server/lifecycle/forced_exit.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/steady_wait.h"
#include "engine/base/thread_name.h"
#include "server/telemetry/fd_sink.h"

namespace upscaled::server {
namespace {

// A part of kReportTime each; the rest is for the log line.
constexpr absl::Duration kCountTime = absl::Milliseconds(400);
constexpr absl::Duration kFlushTime = absl::Milliseconds(200);
// The kernel's own timer, should even the report hang.
constexpr unsigned kLastResortSeconds = 2;

using SteadyTime = std::chrono::steady_clock::time_point;

absl::Duration Until(SteadyTime time) {
  if (time == SteadyTime::max()) return absl::InfiniteDuration();
  return std::max(absl::ZeroDuration(), absl::FromChrono(time - std::chrono::steady_clock::now()));
}

// The exit code of a process without a thread to end it.
volatile std::sig_atomic_t alarm_exit_code = ForcedExit::kExitCode;

// Ends the process `after` from now by the kernel's timer, which needs no thread.
void ExitByAlarm(absl::Duration after, int exit_code) {
  alarm_exit_code = exit_code;
  std::signal(SIGALRM, [](int) { std::_Exit(alarm_exit_code); });
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(after, absl::Seconds(1)));
  alarm(static_cast<unsigned>(std::max<int64_t>(seconds, 1)));  // 0 would be never
}

}  // namespace

struct ForcedExit::State {
  explicit State(Logger& given_logger) : logger(&given_logger) {}

  const ProcessProbe probe;
  absl::Mutex mutex;
  SteadyCondition changed;
  Logger* logger ABSL_GUARDED_BY(mutex);  // null once it may be gone
  std::vector<Leftover> leftovers ABSL_GUARDED_BY(mutex);
  std::vector<std::optional<int64_t>> counts ABSL_GUARDED_BY(mutex);
  SteadyTime end ABSL_GUARDED_BY(mutex) = SteadyTime::max();
  int exit_code ABSL_GUARDED_BY(mutex) = kExitCode;
  bool expired ABSL_GUARDED_BY(mutex) = false;
  bool unused ABSL_GUARDED_BY(mutex) = false;  // destroyed without an end

  // Runs on a thread of its own.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex) {
    NameThread("forced-exit");
    int code = kExitCode;
    {
      absl::MutexLock lock(&mutex);
      for (SteadyTime seen = end; Until(end) > absl::ZeroDuration(); seen = end) {
        const auto moved = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
          return unused || end != seen;
        };
        changed.Await(mutex, Until(end), moved);
        if (unused) return;
      }
      expired = true;
      code = exit_code;
      counts.resize(leftovers.size());
    }
    alarm(kLastResortSeconds);
    CountAside();
    Report(code);
    std::_Exit(code);
  }

  // The counts stay unknown if the machine has no thread to spare. `this` lives until the end of
  // the process, brought about by the caller.
  void CountAside() try {
    std::thread([this] { Count(); }).detach();
  } catch (const std::system_error&) {
  }

  // May hang.
  void Count() ABSL_LOCKS_EXCLUDED(mutex) {
    std::vector<Leftover> all;
    {
      absl::MutexLock lock(&mutex);
      all = leftovers;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const int64_t count = all[i].count();
      {
        absl::MutexLock lock(&mutex);
        counts[i] = count;
      }
      changed.NotifyAll();
    }
  }

  void Report(int code) ABSL_LOCKS_EXCLUDED(mutex) {
    std::vector<std::pair<std::string, std::string>> texts;
    Logger* to = nullptr;
    {
      absl::MutexLock lock(&mutex);
      changed.Await(mutex, kCountTime, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
        return std::all_of(counts.begin(), counts.end(), [](auto& c) { return c.has_value(); });
      });
      to = logger;
      for (size_t i = 0; i < counts.size(); ++i) {
        texts.emplace_back(leftovers[i].name,
                           counts[i].has_value() ? absl::StrCat(*counts[i]) : "unknown");
      }
    }
    texts.emplace_back("threads", absl::StrCat(probe.Read().threads));
    texts.emplace_back("connections", absl::StrCat(probe.CountConnections()));
    texts.emplace_back("exit_code", absl::StrCat(code));
    if (to == nullptr) {
      WriteWithin(STDERR_FILENO, "upscaled: the exit hangs and is cut short\n", kFlushTime);
      return;
    }
    std::vector<LogField> fields;
    for (const auto& [name, text] : texts) fields.push_back({name, text});
    to->Log(LogLevel::kError, "the drain hangs; the process ends with work left", fields);
    to->Flush(kFlushTime);
  }
};

ForcedExit::ForcedExit(Logger& logger, StartThread start_thread)
    : state_(std::make_shared<State>(logger)),
      start_thread_(start_thread != nullptr ? std::move(start_thread)
                                            : [](std::function<void()> work) {
                                                std::thread(std::move(work)).detach();
                                              }) {}

ForcedExit::~ForcedExit() {
  ForgetLeftovers();
  {
    absl::MutexLock lock(&state_->mutex);
    state_->logger = nullptr;
    state_->leftovers.clear();
    if (state_->end == SteadyTime::max()) state_->unused = true;
  }
  state_->changed.NotifyAll();
}

void ForcedExit::Arm(absl::Duration after, std::vector<Leftover> leftovers, int exit_code) {
  const bool has_end = after < absl::Hours(24 * 365);
  {
    absl::MutexLock lock(&state_->mutex);
    state_->leftovers = std::move(leftovers);
    state_->exit_code = exit_code;
    state_->end = has_end ? std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(after)
                          : SteadyTime::max();
  }
  state_->changed.NotifyAll();
  if (has_thread_) return;
  alarm(0);  // of an Arm before
  if (!has_end) return;
  try {
    start_thread_([state = state_] { state->AwaitEnd(); });
    has_thread_ = true;
  } catch (const std::system_error&) {
    ExitByAlarm(after, exit_code);
  }
}

void ForcedExit::ForgetLeftovers() {
  {
    absl::MutexLock lock(&state_->mutex);
    if (!state_->expired) {
      state_->leftovers.clear();
      return;
    }
  }
  while (true) pause();  // the process is ending, and its report looks at what we would free
}

}  // namespace upscaled::server
