#include "tests/support/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

extern char** environ;

namespace upscaled::test {
namespace {

void AddUnlessGiven(std::vector<std::string>& words, const std::string& flag,
                    const std::string& value) {
  for (const std::string& word : words) {
    if (word.starts_with(flag)) return;
  }
  words.push_back(flag + value);
}

}  // namespace

ServerProcess::ServerProcess(const std::string& binary, const std::vector<std::string>& flags) {
  std::vector<std::string> words = {binary};
  words.insert(words.end(), flags.begin(), flags.end());
  AddUnlessGiven(words, "--listen=", "127.0.0.1:0");
  AddUnlessGiven(words, "--http=", "127.0.0.1:0");
  AddUnlessGiven(words, "--admin=", "127.0.0.1:0");
  AddUnlessGiven(words, "--device=", "cpu");  // looking for others loads their drivers
  std::vector<char*> arguments, environment;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("UPSCALED_")) environment.push_back(*entry);
  }
  environment.push_back(nullptr);

  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDERR_FILENO);
  const int error =
      posix_spawn(&pid_, binary.c_str(), &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  if (error != 0) {
    std::fprintf(stderr, "cannot run %s: %s\n", binary.c_str(), std::strerror(error));
    std::abort();
  }
  reader_ = std::thread([this, fd = pipe_fds[0]] { ReadLog(fd); });
}

ServerProcess::~ServerProcess() {
  Signal(SIGKILL);
  Wait();
}

void ServerProcess::ReadLog(int fd) {
  char buffer[4096];
  ssize_t count = 0;
  while ((count = read(fd, buffer, sizeof buffer)) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    absl::MutexLock lock(&mutex_);
    log_.append(buffer, static_cast<size_t>(count));
    const auto reads = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !paused_; };
    mutex_.Await(absl::Condition(&reads));
  }
  close(fd);
  absl::MutexLock lock(&mutex_);
  log_ended_ = true;
}

bool ServerProcess::AwaitLog(const std::string& text) {
  absl::MutexLock lock(&mutex_);
  const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return log_ended_ || log_.find(text) != std::string::npos;
  };
  mutex_.Await(absl::Condition(&there));
  return log_.find(text) != std::string::npos;
}

bool ServerProcess::AwaitReady() { return AwaitLog(" ready "); }

std::string ServerProcess::log() const {
  absl::MutexLock lock(&mutex_);
  return log_;
}

std::string ServerProcess::LogValue(const std::string& field) const {
  const std::string text = log();
  const size_t name = text.find(" " + field + "=");
  if (name == std::string::npos) return "";
  const size_t start = name + field.size() + 2;
  return text.substr(start, text.find_first_of(" \n", start) - start);
}

int64_t ServerProcess::PeakResidentBytes() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string word;
  while (status >> word) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  std::fprintf(stderr, "no VmHWM of process %d\n", static_cast<int>(pid_));
  std::abort();
}

void ServerProcess::PauseReading() {
  absl::MutexLock lock(&mutex_);
  paused_ = true;
}

void ServerProcess::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

void ServerProcess::LimitDescriptors(uint64_t count) {
  const rlimit limit = {.rlim_cur = count, .rlim_max = count};
  if (pid_ > 0) prlimit(pid_, RLIMIT_NOFILE, &limit, nullptr);
}

int ServerProcess::Wait() {
  if (pid_ <= 0) return exit_code_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  {
    absl::MutexLock lock(&mutex_);
    paused_ = false;
  }
  reader_.join();
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

}  // namespace upscaled::test
