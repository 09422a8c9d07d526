#include "tests/client/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace upscaled::client {
namespace {

void Redirect(int fd, const std::string& path, int flags) {
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0 || dup2(file, fd) < 0) _exit(126);
  close(file);
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const std::string& input,
                 const std::string& server) {
  WriteText(folder_ / "in", input);
  const std::string in = folder_ / "in", out = folder_ / "out", err = folder_ / "err";
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "UPSCALE_SERVER=")) variables.push_back(*variable);
  }
  if (!server.empty()) variables.push_back(absl::StrCat("UPSCALE_SERVER=", server));
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  pid_ = fork();
  if (pid_ != 0) return;
  // Only system calls from here: other threads of the parent may hold locks.
  Redirect(STDIN_FILENO, in, O_RDONLY);
  Redirect(STDOUT_FILENO, out, O_WRONLY | O_CREAT);
  Redirect(STDERR_FILENO, err, O_WRONLY | O_CREAT);
  execve(arguments[0], arguments.data(), environment.data());
  _exit(127);
}

Process::~Process() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  Wait();
}

void Process::Signal(int signal) { kill(pid_, signal); }

ProcessResult Process::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, ReadText(folder_ / "out"), ReadText(folder_ / "err")};
}

}  // namespace upscaled::client
