#include "client/cli/local_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/api_key.h"
#include "engine/base/status_macros.h"
#include "engine/base/unix_address.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

constexpr char kProgram[] = "upscaled";
constexpr char kPrefix[] = "UPSCALED_";  // of the settings in the environment
// Settings it inherits: for computing and for limits. How it listens, whom it trusts, what it
// stores and all that a file says is another server's.
constexpr absl::string_view kSettings[] = {"ALLOW_LICENCES",    "CACHE_FOLDER",
                                           "CPU_ISA",           "DECODE_SANDBOX",
                                           "DEFAULT_MODEL",     "DEVICE",
                                           "HOLD_SOURCE_BYTES", "MAX_CONCURRENT_REQUESTS",
                                           "MAX_JPEG_SCANS",    "MAX_METADATA_BYTES",
                                           "MAX_QUEUE_PIXELS",  "MAX_REQUESTS_PER_ADDRESS",
                                           "MAX_RESULT_PIXELS", "MAX_SOURCE_BYTES",
                                           "MAX_SOURCE_PIXELS", "MAX_TILE_PIXELS",
                                           "MAX_UNARY_BYTES",   "MEMORY_BUDGET",
                                           "MODEL_REPOSITORY",  "OUTPUT_RING_BYTES",
                                           "PRECISION",         "THREADS",
                                           "TRANSPORT_MEMORY",  "TUNE",
                                           "TUNE_FILE"};
constexpr char kNotifySocket[] = "notify";
constexpr char kLog[] = "server.log";
constexpr size_t kShownLogBytes = 2000;
constexpr int kPatienceMs = 10'000;  // twice the time in which the server ends itself

absl::Status Errno(absl::string_view what) { return absl::ErrnoToStatus(errno, what); }

absl::Status CheckSocketPath(const std::string& path) {
  if (path.size() <= kMaxSocketPathBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--local: ", path, " has ", path.size(), " bytes, but a socket's path has at most ",
      kMaxSocketPathBytes, "; set TMPDIR to a shorter one"));
}

// A socket for services' messages to their manager (sd_notify).
absl::StatusOr<UniqueFd> ListenForNotifications(const std::string& path) {
  const sockaddr_un address = UnixAddress(path);
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Errno(absl::StrCat("--local: cannot listen on ", path));
  }
  return fd;
}

std::vector<std::string> Arguments(const std::string& program, const std::string& endpoint) {
  return {program, absl::StrCat("--listen=", endpoint), "--http=off", "--admin=off",
          "--log-level=warning",
          // Its only client may take its time, and leaves when it is done.
          "--start-timeout=inf", "--stall-timeout=inf", "--drain-timeout=1s",
          "--lame-duck-delay=0"};
}

std::vector<std::string> Variables(const std::string& notify_path) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    absl::string_view name = absl::string_view(*variable);
    name = name.substr(0, name.find('='));
    if (name == "NOTIFY_SOCKET" || name == kApiKeyVariable) continue;
    if (absl::ConsumePrefix(&name, kPrefix) && std::ranges::count(kSettings, name) == 0) continue;
    variables.emplace_back(*variable);
  }
  variables.push_back(absl::StrCat("NOTIFY_SOCKET=", notify_path));
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The child's part between fork and exec: only system calls, because other threads may hold locks.
[[noreturn]] void Exec(char** arguments, char** variables, int log, pid_t parent) {
  setpgid(0, 0);  // Ctrl-C is for the command, which ends its server when its calls have ended
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it has ended before
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDWR);
  if (dup2(nothing, STDIN_FILENO) >= 0 && dup2(nothing, STDOUT_FILENO) >= 0 &&
      dup2(log, STDERR_FILENO) >= 0) {
    execve(arguments[0], arguments, variables);
  }
  _exit(127);
}

bool IsReadable(int fd, int timeout_ms) {
  pollfd wait = {.fd = fd, .events = POLLIN, .revents = 0};
  int ready;
  do {
    ready = poll(&wait, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool SaysReady(int notifications) {
  char text[256];
  const ssize_t bytes = recv(notifications, text, sizeof(text), 0);
  return bytes > 0 &&
         absl::StrContains(absl::string_view(text, static_cast<size_t>(bytes)), "READY=1");
}

std::string LastWords(int log) {
  std::ifstream file(absl::StrCat("/proc/self/fd/", log));  // from its beginning
  std::string text{std::istreambuf_iterator<char>(file), {}};
  absl::StripAsciiWhitespace(&text);
  return text.size() > kShownLogBytes ? text.substr(text.size() - kShownLogBytes) : text;
}

}  // namespace

absl::StatusOr<std::string> FindServerProgram() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  std::vector<fs::path> folders = {own.parent_path()};
  const char* const path = std::getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    folders.emplace_back(folder.begin(), folder.end());
  }
  for (const fs::path& folder : folders) {
    const fs::path program = folder / kProgram;
    if (fs::is_regular_file(program, error) && access(program.c_str(), X_OK) == 0) {
      return program.string();
    }
  }
  return absl::NotFoundError(absl::StrCat("--local: there is no program ", kProgram, " in ",
                                          folders.front().native(),
                                          " nor in PATH; see --local-server"));
}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(const std::string& program,
                                                                std::stop_token stop) {
  ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Make("upscale-"));
  std::unique_ptr<LocalServer> server(new LocalServer(std::move(folder)));
  RETURN_IF_ERROR(CheckSocketPath(server->socket_path()));  // the longest one there
  const fs::path notify_path = server->folder() / kNotifySocket;
  ASSIGN_OR_RETURN(const UniqueFd notifications, ListenForNotifications(notify_path));
  RETURN_IF_ERROR(server->Run(program));
  RETURN_IF_ERROR(server->AwaitReady(notifications.get(), std::move(stop)));
  std::error_code ignored;
  fs::remove(notify_path, ignored);  // so that who is killed leaves an empty folder
  return server;
}

absl::Status LocalServer::Run(const std::string& program) {
  if (access(program.c_str(), X_OK) != 0) {
    return Errno(absl::StrCat("--local: cannot run ", program));
  }
  const fs::path log = folder() / kLog;
  log_ = UniqueFd(open(log.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log_.valid() || unlink(log.c_str()) != 0) {
    return Errno(absl::StrCat("--local: cannot write to ", folder().native()));
  }
  std::vector<std::string> arguments = Arguments(program, endpoint());
  std::vector<std::string> variables = Variables(folder() / kNotifySocket);
  std::vector<char*> argv = Pointers(arguments), envp = Pointers(variables);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) Exec(argv.data(), envp.data(), log_.get(), parent);
  if (pid_ < 0) return Errno("--local: cannot make a process");
  ended_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  return ended_.valid() ? absl::OkStatus() : Errno("--local: cannot watch a process");
}

absl::Status LocalServer::AwaitReady(int notifications, std::stop_token stop) {
  const UniqueFd stopped(eventfd(0, EFD_CLOEXEC));
  if (!stopped.valid()) return Errno("--local: cannot make an event descriptor");
  std::stop_callback wake(stop, [&] { eventfd_write(stopped.get(), 1); });
  while (true) {
    pollfd waits[] = {
        {stopped.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}, {notifications, POLLIN, 0}};
    if (poll(waits, std::size(waits), -1) < 0 && errno != EINTR) {
      return Errno("--local: cannot wait for the server");
    }
    if (waits[0].revents != 0) return absl::CancelledError("stopped during the server's start");
    if (waits[1].revents != 0) return Ended();
    if (waits[2].revents != 0 && SaysReady(notifications)) return absl::OkStatus();
  }
}

absl::Status LocalServer::Check() {
  return pid_ >= 0 && IsReadable(ended_.get(), 0) ? Ended() : end_;
}

absl::Status LocalServer::Ended() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  const std::string how = WIFEXITED(status) ? absl::StrCat("with exit status ", WEXITSTATUS(status))
                                            : absl::StrCat("by signal ", WTERMSIG(status));
  const std::string words = LastWords(log_.get());
  end_ = absl::FailedPreconditionError(
      absl::StrCat("--local: the server has ended ", how, words.empty() ? "" : ": ", words));
  return end_;
}

LocalServer::~LocalServer() {
  if (pid_ >= 0) {
    kill(pid_, SIGTERM);
    if (!ended_.valid() || !IsReadable(ended_.get(), kPatienceMs)) kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

}  // namespace upscaled::client
