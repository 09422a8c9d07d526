#include "server/sandbox/worker_zygote.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// A request is one byte with the worker's socket; its answer is the child's number, or minus errno.
using Answer = int32_t;

// A caller waiting for a fork holds up others, and cannot be cancelled.
constexpr timeval kPatience{.tv_sec = 2};

// A message of one byte, with room for a descriptor.
struct DescriptorMessage {
  DescriptorMessage() {
    message.msg_iov = &payload;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }

  char byte = 0;
  iovec payload{&byte, sizeof(byte)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

bool SendDescriptor(int socket, int fd) {
  DescriptorMessage carrier;
  cmsghdr* const header = CMSG_FIRSTHDR(&carrier.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(fd));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return TEMP_FAILURE_RETRY(sendmsg(socket, &carrier.message, MSG_NOSIGNAL)) == 1;
}

// Invalid: the other end has gone.
UniqueFd ReceiveDescriptor(int socket) {
  DescriptorMessage carrier;
  if (TEMP_FAILURE_RETRY(recvmsg(socket, &carrier.message, MSG_CMSG_CLOEXEC)) != 1) return {};
  const cmsghdr* const header = CMSG_FIRSTHDR(&carrier.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return UniqueFd(fd);
}

// As fork, but the child is the caller's parent's, so the parent can wait for it.
pid_t ForkSibling() {
  return static_cast<pid_t>(
      syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, 0));
}

}  // namespace

absl::StatusOr<WorkerZygote> WorkerZygote::Start(const std::filesystem::path& program) {
  ASSIGN_OR_RETURN(WorkerProcess process, WorkerProcess::Start(program));
  setsockopt(process.socket(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  setsockopt(process.socket(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  return WorkerZygote(std::move(process));
}

absl::StatusOr<WorkerProcess> WorkerZygote::Fork() {
  ASSIGN_OR_RETURN(SocketPair sockets, MakeSocketPair());
  Answer answer = 0;
  if (!SendDescriptor(process_.socket(), sockets.its.get()) ||
      TEMP_FAILURE_RETRY(recv(process_.socket(), &answer, sizeof(answer), MSG_WAITALL)) !=
          sizeof(answer)) {
    return absl::AbortedError("the process that forks workers does not answer");
  }
  if (answer < 0) {
    return absl::UnavailableError(absl::StrCat("cannot fork a worker: ", std::strerror(-answer)));
  }
  WorkerProcess worker(std::move(sockets.own), answer);
  siginfo_t state;
  if (waitid(P_PID, answer, &state, WEXITED | WNOHANG | WNOWAIT) == 0) return worker;
  return absl::UnavailableError("the system makes no siblings of processes (CLONE_PARENT)");
}

bool ForkOnRequest() {
  while (true) {
    const UniqueFd socket = ReceiveDescriptor(STDIN_FILENO);
    if (!socket.valid()) return false;
    const pid_t pid = ForkSibling();
    if (pid == 0) return dup2(socket.get(), STDIN_FILENO) == STDIN_FILENO;
    const Answer answer = pid > 0 ? pid : -errno;
    if (send(STDIN_FILENO, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer)) return false;
  }
}

}  // namespace upscaled::server
