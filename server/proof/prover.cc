#include "server/proof/prover.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {
namespace {

using Json = nlohmann::json;

// A process stuck in a driver may not even die.
constexpr auto kDeathPoll = std::chrono::milliseconds(10);
constexpr int kDeathPolls = 200;
constexpr size_t kMaxLineBytes = size_t{1} << 16;  // the rest of a longer line is dropped

// A process with its output read.
struct Child {
  pid_t pid = -1;
  UniqueFd output;
};

// The child's or an error number.
std::pair<Child, int> Start(const std::filesystem::path& program,
                            std::vector<std::string> arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {Child{}, errno};
  Child child{-1, UniqueFd(ends[0])};
  const UniqueFd its(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, its.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);  // ends it when nobody reads it any more
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  arguments.insert(arguments.begin(), program.filename().string());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int error =
      posix_spawn(&child.pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return {std::move(child), error};
}

// How it ended, if it does so in time.
std::optional<int> Reap(pid_t pid) {
  for (int i = 0; i < kDeathPolls; ++i) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    std::this_thread::sleep_for(kDeathPoll);
  }
  return std::nullopt;
}

std::string Describe(std::optional<int> status) {
  if (!status.has_value()) return "it does not end";
  if (WIFSIGNALED(*status)) return absl::StrCat("signal ", WTERMSIG(*status));
  return absl::StrCat("exit code ", WEXITSTATUS(*status));
}

// The contents of the lines so far.
struct Findings {
  std::optional<KernelVerdict> verdict;
  std::string last_case;
  bool plain = false;  // the shipped kernels have run it, so the proven one is at work
};

void Read(const std::string& line, Findings& findings) {
  const Json json = Json::parse(line, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  if (json.contains("case")) {
    findings.last_case = text("case");
    findings.plain = json.contains("plain");
  }
  if (!json.contains("verdict")) return;
  const Json speed = json.value("speed", Json());
  findings.verdict = {text("verdict"), text("reason"),
                      speed.is_number() ? speed.get<double>() : 0.0};
}

enum class End : uint8_t { kClosed, kSilent, kTooLong };

// Reads the output until its end or a limit.
End ReadAll(const Child& child, const ProofLimits& limits, Findings& findings) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::string line;
  while (true) {
    const absl::Duration left = limits.total - absl::FromChrono(Clock::now() - begin);
    if (left <= absl::ZeroDuration()) return End::kTooLong;
    pollfd ready{child.output.get(), POLLIN, 0};
    const absl::Duration wait = absl::Ceil(std::min(limits.silence, left), absl::Milliseconds(1));
    const int polled = poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)));
    if (polled < 0 && errno == EINTR) continue;
    if (polled < 0) return End::kClosed;
    if (polled == 0) {
      if (limits.silence <= left) return End::kSilent;
      continue;
    }
    char bytes[4096];
    const ssize_t count = read(child.output.get(), bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return End::kClosed;
    for (const char c : std::string_view(bytes, count)) {
      if (c == '\n') {
        Read(std::exchange(line, ""), findings);
      } else if (line.size() < kMaxLineBytes) {
        line += c;
      }
    }
  }
}

}  // namespace

KernelVerdict RunProver(const std::filesystem::path& program, std::vector<std::string> arguments,
                        const ProofLimits& limits) {
  auto [child, error] = Start(program, std::move(arguments));
  if (error != 0) {
    return {"failed", absl::StrCat("cannot start ", program.string(), ": ", std::strerror(error))};
  }
  Findings findings;
  const End end = ReadAll(child, limits, findings);
  if (end != End::kClosed) kill(child.pid, SIGKILL);
  const std::optional<int> status = Reap(child.pid);
  if (!status.has_value()) {
    kill(child.pid, SIGKILL);
    (void)Reap(child.pid);
  }
  const std::string at =
      findings.last_case.empty() ? "" : absl::StrCat(", at ", findings.last_case);
  if (end == End::kTooLong) {
    return {"failed", absl::StrCat("not done after ", absl::FormatDuration(limits.total), at)};
  }
  const bool hung = end == End::kSilent;
  if (!hung && status == 0 && findings.verdict.has_value()) return *std::move(findings.verdict);
  const std::string what =
      hung ? absl::StrCat("nothing for ", absl::FormatDuration(limits.silence)) : Describe(status);
  if (!findings.plain) {
    return {"failed", absl::StrCat(what, at, ", not while the kernel ran")};
  }
  return {hung ? "hung" : "crashed", absl::StrCat(what, at)};
}

}  // namespace upscaled::server
