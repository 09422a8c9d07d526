#include "engine/backends/cpu/interleaved_pages.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "gtest/gtest.h"

namespace upscaled::cpu {
namespace {

// The calling thread's memory policy, or -1: the system does not tell.
int Policy() {
  int policy = 0;
  return syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) == 0 ? policy : -1;
}

// The memory node of a page, and what the thread's pages lie on in turn.
int NodeOf(const void* page) {
  int node = -1;
  return syscall(SYS_get_mempolicy, &node, nullptr, 0, page, MPOL_F_NODE | MPOL_F_ADDR) == 0 ? node
                                                                                             : -1;
}

int CountNodes() {
  unsigned long nodes[16] = {};  // NOLINT(google-runtime-int): the system's type
  syscall(SYS_get_mempolicy, nullptr, nodes, sizeof(nodes) * 8, nullptr, MPOL_F_MEMS_ALLOWED);
  int count = 0;
  for (const auto word : nodes) count += __builtin_popcountl(word);
  return count;
}

TEST(InterleavedPagesTest, LieOnAllNodesInTurn) {
  const int before = Policy();
  if (before < 0) GTEST_SKIP() << "no memory policies here: " << std::strerror(errno);
  constexpr size_t kPageBytes = 4096, kPages = 64;
  void* const memory = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::set<int> nodes;
  {
    const InterleavedPages pages;
    EXPECT_EQ(Policy(), MPOL_INTERLEAVE);
    for (size_t i = 0; i < kPages; ++i) {
      char* const page = static_cast<char*>(memory) + i * kPageBytes;
      *page = 1;
      nodes.insert(NodeOf(page));
    }
  }
  EXPECT_EQ(Policy(), before);
  EXPECT_EQ(static_cast<int>(nodes.size()), CountNodes());
  EXPECT_FALSE(nodes.contains(-1));
  munmap(memory, kPages * kPageBytes);
}

TEST(InterleavedPagesTest, OneWithinAnotherEndsAlone) {
  if (Policy() < 0) GTEST_SKIP() << "no memory policies here: " << std::strerror(errno);
  const InterleavedPages pages;
  { const InterleavedPages inner; }
  EXPECT_EQ(Policy(), MPOL_INTERLEAVE);
}

}  // namespace
}  // namespace upscaled::cpu
