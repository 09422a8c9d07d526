// Writes results into a store until it is killed: result_store_filler DIR SEED. The name of each is
// the digest of its bytes' text: any finder knows its contents.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/image/memory_io.h"
#include "server/results/result_store.h"

int main(int argc, char** argv) {
  using namespace upscaled;
  using namespace upscaled::server;
  if (argc != 3) return 2;
  auto store = ResultStore::Open({.directory = argv[1], .max_bytes = int64_t{8} << 20});
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", std::string(store.status().message()).c_str());
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  for (int number = 0;; ++number) {
    const Digest digest = DigestOf(AsBytes(std::string(argv[2]) + "." + std::to_string(number)));
    const std::string name = ToHex(digest);
    auto writer = (*store)->Create();
    if (writer == nullptr) return 1;
    for (int i = 0; i < 1 + number % 50; ++i) writer->Append(AsBytes(name));
    writer->Commit({.name = name, .header = name});
  }
}
