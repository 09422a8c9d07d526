#include "server/proof/prover.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
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
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
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

// A line with a verdict; of others, the case in progress.
void Read(const std::string& line, std::optional<KernelVerdict>& verdict, std::string& last_case) {
  const Json json = Json::parse(line, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  if (json.contains("case")) last_case = text("case");
  if (!json.contains("verdict")) return;
  const Json speed = json.value("speed", Json());
  verdict = {text("verdict"), text("reason"), speed.is_number() ? speed.get<double>() : 0.0};
}

}  // namespace

KernelVerdict RunProver(const std::filesystem::path& program, std::vector<std::string> arguments,
                        absl::Duration patience) {
  auto [child, error] = Start(program, std::move(arguments));
  if (error != 0) {
    return {"failed", absl::StrCat("cannot start ", program.string(), ": ", std::strerror(error))};
  }
  std::optional<KernelVerdict> verdict;
  std::string line, last_case;
  bool hung = false;
  while (true) {
    pollfd ready{child.output.get(), POLLIN, 0};
    const int polled = poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(patience)));
    if (polled < 0 && errno == EINTR) continue;
    hung = polled == 0;
    if (polled <= 0) break;
    char bytes[4096];
    const ssize_t count = read(child.output.get(), bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    for (const char c : std::string_view(bytes, count)) {
      if (c != '\n') {
        line += c;
      } else {
        Read(std::exchange(line, ""), verdict, last_case);
      }
    }
  }
  if (hung) kill(child.pid, SIGKILL);
  const std::optional<int> status = Reap(child.pid);
  const std::string at = last_case.empty() ? "" : absl::StrCat(", at ", last_case);
  if (hung) return {"hung", absl::StrCat("nothing for ", absl::FormatDuration(patience), at)};
  if (status != 0 || !verdict.has_value()) return {"crashed", absl::StrCat(Describe(status), at)};
  return *std::move(verdict);
}

}  // namespace upscaled::server
