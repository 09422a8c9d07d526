#include "engine/base/thread_name.h"

#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace upscaled {
namespace {

std::string NameOfThisThread() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

TEST(ThreadNameTest, NamesTheCallingThreadOnly) {
  const std::string before = NameOfThisThread();
  std::string named;
  std::thread([&named] {
    NameThread("fifteen-letters");
    NameThread("sixteen-letters!");
    named = NameOfThisThread();
  }).join();
  EXPECT_EQ(named, "fifteen-letters");
  EXPECT_EQ(NameOfThisThread(), before);
}

}  // namespace
}  // namespace upscaled
