// upscaled-decode: decodes images for upscaled, each in a fork of its own, in a cage. Not for
// people: its standard input is a socket of the server's.

#include "server/sandbox/decode_worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "server/sandbox/worker_zygote.h"

// Below the server's own threads: they compute decoded images.
constexpr int kNice = 5;

int main() {
  (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice);
  // When memory runs out, one image goes, not the server.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  if (!upscaled::server::ForkOnRequest()) _exit(0);
  // No destructors: memory goes with the process.
  _exit(upscaled::server::ServeDecoder(STDIN_FILENO).ok() ? 0 : 1);
}
