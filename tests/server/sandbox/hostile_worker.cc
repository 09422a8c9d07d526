// A worker taken over by an image: locks its cage as the real one does, then obeys its argument,
// and if it still lives sends rows as if nothing had been.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "server/sandbox/cage.h"
#include "server/sandbox/decode_protocol.h"

namespace upscaled::server {
namespace {

void Misbehave(std::string_view how, const FrameSocket& socket) {
  if (how == "crash") std::abort();
  if (how == "end") _exit(3);
  if (how == "read a file") open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  if (how == "open a socket") ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (how == "start a process") (void)fork();
  if (how == "make code") {
    mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (how == "take memory") {
    const size_t bytes = size_t{1} << 30;
    void* const memory = std::malloc(bytes);
    if (memory == nullptr) _exit(4);
    std::memset(memory, 1, bytes);
  }
  if (how == "send odd notes") (void)socket.Send(FrameType::kOpened, std::vector<uint8_t>(13, 7));
  if (how == "send too much") (void)socket.Send(FrameType::kOpened, std::vector<uint8_t>(1 << 20));
  while (how == "ask for ever" && socket.Send(FrameType::kNeedBytes).ok() &&
         socket.ReceiveHeader().ok()) {
  }
  if (how == "send nonsense") (void)socket.Send(static_cast<FrameType>(77));
  while (how == "compute for ever") {
  }
  if (how == "close its socket") {
    shutdown(STDIN_FILENO, SHUT_RDWR);  // which is refused, too
    while (true) {
    }
  }
}

void Serve(std::string_view how) {
  const FrameSocket socket(STDIN_FILENO);
  if (!socket.ReceiveHeader().ok()) return;
  const auto open = socket.ReceiveStruct<OpenPayload>();
  if (!open.ok() || !LockCage(open->memory_bytes).ok()) return;
  // The image has its say now.
  if (!socket.Send(FrameType::kNeedBytes).ok()) return;
  const auto input = socket.ReceiveHeader();
  if (!input.ok()) return;
  std::vector<uint8_t> bytes(input->payload_bytes);
  if (!socket.Receive(bytes).ok()) return;
  Misbehave(how, socket);
  (void)socket.Send(FrameType::kOpened);
  const std::vector<uint8_t> pixels(open->spec.row_bytes() * open->spec.height_px);
  if (socket.ReceiveHeader().ok() && socket.ReceiveStruct<ReadRowsPayload>().ok()) {
    (void)socket.Send(FrameType::kRows, pixels);
    (void)socket.Send(FrameType::kEnd);
  }
}

}  // namespace
}  // namespace upscaled::server

int main(int, char** argv) {
  upscaled::server::Serve(argv[1]);
  _exit(0);
}
