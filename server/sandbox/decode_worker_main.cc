// upscaled-decode: decodes one image for upscaled, in a cage. Not for people: its standard input is
// a socket of the server's.

#include "server/sandbox/decode_worker.h"

#include <unistd.h>

#include <fstream>

int main() {
  // When memory runs out, one image goes, not the server.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  // No destructors: memory goes with the process.
  _exit(upscaled::server::ServeDecoder(STDIN_FILENO).ok() ? 0 : 1);
}
