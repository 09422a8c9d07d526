// Fetches without memory for them.
#include <cstdlib>
#include <limits>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/fetch/fetcher.h"
#include "tests/server/fetch/test_origin.h"

namespace {

// The size from which on this thread's allocations fail.
thread_local size_t refused_bytes = std::numeric_limits<size_t>::max();

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = bytes < refused_bytes ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace upscaled::server {
namespace {

// libcurl is C: nothing may be thrown through it.
TEST(NoMemoryTest, EndsAFetchFromWithinLibcurl) {
  const std::string long_text(20'000, 'a');
  for (const std::string& answer :
       {OkAnswer(long_text), "HTTP/1.1 302 Found\r\nLocation: /" + long_text + "\r\n\r\n"}) {
    TestOrigin origin(answer);
    const Fetcher fetcher({.allowed_private = *ParseUrlPrefixes({origin.Url("")})});
    Cancellation cancellation;
    const SourceUrl url = *fetcher.Check(origin.Url("/"));
    refused_bytes = 10'000;
    const absl::Status status = fetcher.Fetch(url, cancellation).status();
    refused_bytes = std::numeric_limits<size_t>::max();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kOverloaded) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("out of memory"));
  }
}

}  // namespace
}  // namespace upscaled::server
