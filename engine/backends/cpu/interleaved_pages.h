// Memory of machines with several NUMA nodes.
#pragma once

#include <array>

namespace upscaled::cpu {

// While it lives, pages that the calling thread is the first to write lie on all memory nodes in
// turn (see numa(7)). Packed weights do, because threads of all nodes read them. Does nothing where
// the system has no such call or forbids it, as some containers do: pages then lie on the node of
// the thread.
class InterleavedPages {
 public:
  InterleavedPages();
  ~InterleavedPages();
  InterleavedPages(const InterleavedPages&) = delete;
  InterleavedPages& operator=(const InterleavedPages&) = delete;

 private:
  // A bit a node: as many as Linux supports.
  using Nodes = std::array<unsigned long, 16>;  // NOLINT(google-runtime-int): the system's type

  int policy_before_ = 0;
  Nodes nodes_before_{};
  bool applied_ = false;
};

}  // namespace upscaled::cpu
